"""The error of all operations: a message for the operator."""

from __future__ import annotations


class OperationError(Exception):
    """An error that the operator can fix. `str()` is the whole message; commands print it and exit with code 1."""
