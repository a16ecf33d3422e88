"""Benchmarks: one command, JSON out, each number beside its limit measured in the same run (design, section 7)."""
