"""The connection to an API server: its port, limits, errors."""
