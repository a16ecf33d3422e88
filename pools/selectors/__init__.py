"""Reads of the ledger: rows as the facts that rules are asked with, and as the shapes that entry points show."""
