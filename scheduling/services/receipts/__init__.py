"""Writes the receipts of attempts that something else ended, and counts them against the attempts."""
