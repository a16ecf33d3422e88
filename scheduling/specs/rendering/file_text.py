"""The text of a file, checked for size, byte order marks and characters that YAML does not allow."""

from __future__ import annotations

import re
from collections.abc import Callable

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import Faults

MAX_FILE_BYTES = 1024 * 1024
"""Bytes of UTF-8, of the file and of what its template makes: an object of this size still fits into a cluster."""

# The characters YAML 1.1 calls printable, and so the only ones its readers take.
_FORBIDDEN = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean_text(text: str, faults: Faults) -> str | None:
    """`text` without byte order mark and with `\\n` as its only line end; None if it cannot be read on."""
    if is_too_large(text):
        faults.add(
            "file",
            Fault.TOO_LARGE,
            f"The file has {len(text):,} characters; at most {MAX_FILE_BYTES:,} bytes are read. "
            "Put large data into storage and name it under inputs.",
        )
        return None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        faults.add("file", Fault.EMPTY, "The file is empty. A workflow file begins with `workflow:`.")
        return None
    return text if is_printable(text, faults, lambda line: line + 1) else None


def is_printable(text: str, faults: Faults, line_of: Callable[[int], int]) -> bool:
    """Whether YAML may hold all characters of `text`; if not, each line (from 0) with a bad one is a fault."""
    if not _FORBIDDEN.search(text):
        return True
    for number, line in enumerate(text.split("\n")):
        if found := _FORBIDDEN.search(line):
            message = (
                f"The character U+{ord(found[0]):04X} is in column {found.start() + 1}; YAML allows only printable "
                "characters. Remove it."
            )
            faults.add("file", Fault.BAD_CHARACTER, message, line_of(number))
    return False


def is_too_large(text: str) -> bool:
    """Whether `text` is longer than `MAX_FILE_BYTES`, in UTF-8."""
    if len(text) * 4 <= MAX_FILE_BYTES:
        return False
    return len(text) > MAX_FILE_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES
