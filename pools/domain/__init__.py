"""The rules of the ledger: pure functions from facts to verdicts. Standard library only, without a clock."""
