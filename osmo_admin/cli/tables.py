"""Plain tables: columns as wide as their widest cell, two spaces between them, no cell cut off."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

GUTTER = "  "


def printable_text(text: str) -> str:
    """The text without control characters: names and descriptions come from other users."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs") else "�"
        for character in text
    )


class PreformattedCell(str):
    """A cell whose spaces are kept, such as the prefix of a tree."""

    __slots__ = ()


def format_cell(value: Any) -> str:
    """One value on one line; `-` for nothing."""
    if isinstance(value, PreformattedCell):
        return printable_text(value).replace("\n", " ")
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(format_cell(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={format_cell(each)}" for key, each in sorted(value.items())) or "-"
    return " ".join(printable_text(str(value)).split())


def display_width(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def format_table(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    minimum: Sequence[int] = (),
    total: Sequence[Any] | None = None,
) -> str:
    """Header, a line of dashes, the rows, and optionally another line of dashes with a row of sums.

    `minimum` holds the minimum widths of the first columns. Cells are left-aligned; lines have no trailing spaces.
    """
    body = [[format_cell(value) for value in row] for row in rows]
    sums = [] if total is None else [["" if value == "" else format_cell(value) for value in total]]
    floor = [*minimum, *[0] * (len(header) - len(minimum))]
    widths = [
        max(least, *(display_width(line[at]) for line in [header, *body, *sums])) for at, least in enumerate(floor)
    ]
    dashes = ["-" * size for size in widths]
    lines = [header, dashes, *body, *([dashes, *sums] if sums else [])]
    return "\n".join(_format_row(line, widths) for line in lines)


def _format_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (text + " " * (size - display_width(text)) for text, size in zip(cells, widths, strict=True))
    return GUTTER.join(padded).rstrip()


def format_facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """`Name : value` lines with aligned colons."""
    listed = [(name, format_cell(value)) for name, value in pairs]
    longest = max((len(name) for name, _ in listed), default=0)
    return "\n".join(f"{name:<{longest}} : {value}" for name, value in listed)
