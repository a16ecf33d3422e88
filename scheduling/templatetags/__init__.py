"""The tags and filters of the pages of work."""
