"""Rows of the ledger as the JSON bodies that the API shows."""
