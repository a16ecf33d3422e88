"""The judgement's rules: pure functions from facts to verdicts. Standard library and `pools.domain` only."""
