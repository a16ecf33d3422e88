"""The filters of lists of work."""
