"""Reads of the state of the whole installation."""
