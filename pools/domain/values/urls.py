"""The parts of an address that somebody else wrote."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split_url(text: object) -> SplitResult | None:
    """The parts, whose host and port can be read; None for a text that is not an address, such as `https://[fe80`
    or one with a port that is not a number."""
    if not isinstance(text, str):
        return None
    try:
        parts = urlsplit(text)
        _ = parts.hostname, parts.port
    except ValueError:
        return None
    return parts
