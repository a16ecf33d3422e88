"""Answers of the server as text for people."""
