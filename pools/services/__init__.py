"""The changes of the ledger: permission, lock, check, write."""
