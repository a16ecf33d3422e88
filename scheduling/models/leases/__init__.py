"""Rows of which one process at a time is the owner."""
