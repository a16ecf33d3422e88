"""Sizes of memory and storage, as people and clients write them and as bytes."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

MAX_UNITS = 1_000_000
"""CPUs or GPUs of one task or machine. Far above any machine, far below what a column or a sum of them can hold."""
MAX_BYTES = 2**60

# OSMO reads K, Ki and KiB alike, as 1024: its sizes are binary throughout (design, O6).
_POWERS = {"B": 0} | {f"{letter}{tail}": power for power, letter in enumerate("KMGT", 1) for tail in ("", "i", "iB")}
UNITS = tuple(_POWERS)
_STEPS = ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki"))
_SIZE = re.compile(r"((?:0|[1-9]\d{0,19})(?:\.\d{1,20})?) ?([A-Za-z]*)", re.ASCII)


def parse_size(text: str) -> int | None:
    """Bytes, rounded up: `512Gi`, `1.5T`, `64MiB`; a plain whole number is bytes. None for another text."""
    found = _SIZE.fullmatch(text.strip())
    power = _POWERS.get(found[2] or "B") if found else None
    if found is None or power is None or ("." in found[1] and not found[2]):
        return None
    size = int((Decimal(found[1]) * 1024**power).to_integral_value(rounding=ROUND_CEILING))
    return size if size <= MAX_BYTES else None


def size_text(size: int, *, round_up: bool) -> str:
    """Bytes in the largest binary unit up to Gi that is not larger: an amount in use is rounded up, a capacity down."""
    power, unit = next((step for step in _STEPS[1:] if size >= 1024 ** step[0]), (0, ""))
    factor: int = 1024**power
    return f"{-(-size // factor) if round_up else size // factor}{unit}"


def exact_size_text(size: int) -> str:
    """Bytes in the largest binary unit that is exact: `1Ti`, `1536Mi`, `1000`."""
    power, unit = next((step for step in _STEPS if size and size % 1024 ** step[0] == 0), (0, ""))
    return f"{size // 1024**power}{unit}"
