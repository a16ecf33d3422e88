"""Django's backend for PostgreSQL with cursors whose statements are prepared: the value of `ENGINE`."""
