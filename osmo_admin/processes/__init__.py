"""The start of each process, and its connections to database and broker."""
