"""The embedded PostgreSQL and Valkey."""
