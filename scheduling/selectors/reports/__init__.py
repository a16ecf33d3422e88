"""Reads of usage over time."""
