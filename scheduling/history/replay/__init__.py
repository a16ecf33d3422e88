"""Replay: a trace of jobs on a cluster, from instant to instant, with the one scheduling engine.

`jobs` holds the trace, `clock` lets jobs arrive and end on a kept state, `measures` sums up what happened.
"""
