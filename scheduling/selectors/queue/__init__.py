"""Reads of the queue: what waits, why, and the facts from which that is judged."""
