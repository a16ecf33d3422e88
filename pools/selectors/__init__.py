"""Reads of the ledger: rows as the facts that rules need, and as the values that entry points show."""
