"""The rules of scheduling: pure functions from facts to verdicts, with the standard library and `pools.domain` only."""
