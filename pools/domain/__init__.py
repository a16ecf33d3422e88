"""The rules of the ledger: pure functions from facts to verdicts, on the standard library and without a clock."""
