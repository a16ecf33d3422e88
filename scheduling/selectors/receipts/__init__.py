"""Reads the receipts of attempts that something else ended, as far as a reader may know them."""
