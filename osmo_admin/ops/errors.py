"""The one error operations raise: a sentence for the operator, and how the command should exit."""

from __future__ import annotations


class OperationError(Exception):
    """Something the operator can act on. `str()` is the whole sentence; commands print it and exit 1."""
