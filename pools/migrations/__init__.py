"""The migrations of the ledger's tables, constraints and triggers."""
