"""Single values: how they are read and written."""
