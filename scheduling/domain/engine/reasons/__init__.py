"""Why work waits, and what would help."""
