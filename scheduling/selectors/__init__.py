"""Rows of work as the facts its rules are asked with, and as the shapes doors show."""
