"""Benchmarks: one command, JSON out, each number with its limit measured in the same run (docs/performance.md)."""
