"""The ledger: what exists, what was promised, what is held, who may touch it."""
