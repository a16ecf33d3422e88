"""The ledger's rules: pure functions from facts to verdicts. Standard library only, no clock, no connection."""
