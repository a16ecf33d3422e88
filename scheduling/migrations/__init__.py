"""The migrations of the tables of scheduling."""
