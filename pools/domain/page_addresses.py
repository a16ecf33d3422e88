"""Addresses that the wiring of requests and the pages must recognise alike. Standard library only."""

from __future__ import annotations

from typing import Final

PREVIEW_SEGMENT: Final = "preview/"
"""The end of the address of a preview, below the address of its form."""


def is_preview_address(path: str) -> bool:
    """Whether this is the address of a preview, whose GET makes a dry run."""
    return path.startswith("/pools/") and path.endswith(f"/{PREVIEW_SEGMENT}")
