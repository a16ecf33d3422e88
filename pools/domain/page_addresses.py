"""Addresses that the wiring of requests and the pages must recognise alike. Standard library only."""

from __future__ import annotations

from typing import Final

PREVIEW_SEGMENT: Final = "preview/"
"""The end of the address of a preview, below the address of its form."""


def is_preview_address(path: str) -> bool:
    """Whether this is the address of a preview, whose GET makes a dry run."""
    return path.startswith(("/pools/", "/scheduling/")) and path.endswith(f"/{PREVIEW_SEGMENT}")


SIGN_ON_PREFIX: Final = "/sign-on/"
"""The beginning of the addresses of sign-ons."""


def is_sign_on_address(path: str) -> bool:
    """Whether an identity provider sends browsers back to this address: a GET that makes accounts and sessions."""
    return path.startswith(SIGN_ON_PREFIX) and path.endswith("/callback/")
