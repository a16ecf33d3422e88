"""Reads the record of use: who held, waited for and lost GPUs, over time."""
