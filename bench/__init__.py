"""Benchmarks: one command, JSON out, each number with its limit measured in the same run (design, section 7)."""
