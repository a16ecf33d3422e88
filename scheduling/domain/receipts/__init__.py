"""Receipts of attempts that something else ended: by which rule, what was lost, and the words for both."""
