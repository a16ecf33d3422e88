"""Reads of quotas: trees, balances and room."""
