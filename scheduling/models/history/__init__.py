"""Rows about the past and the future of work."""
