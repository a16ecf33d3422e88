"""Texts in CSV files that people open with a spreadsheet."""

from __future__ import annotations

# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(text: str) -> str:
    """The text, with an apostrophe before it if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def text_of_cell(cell: str) -> str:
    """The text that :func:`plain_cell` was given."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA_STARTS) else cell
