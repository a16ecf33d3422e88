"""The one reader of plain scalars of YAML: every file means the same to the client and to the server.

The dialect is that of JSON values (YAML 1.2, section 10.2): `true`, `false`, `null`, and numbers as JSON writes them.
Everything else is a text, except words that another reader of YAML takes for a number: those are refused, because two
readers would disagree about them. Source: docs/values.md, "Scalars of YAML".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pools.domain.values.amounts import InvalidNumber, parse_exact

WHOLE: Final = r"-?(?:0|[1-9][0-9]*)"
"""A whole number as JSON writes it: no sign `+`, no leading zeros, no `_`, no exponent, no point."""

DECIMAL: Final = rf"{WHOLE}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
"""A number as JSON writes it."""

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

_WHOLE = re.compile(WHOLE)
_DECIMAL = re.compile(DECIMAL)
# Numbers of YAML 1.1, YAML 1.2 or Python that JSON does not have: 010, 0x10, 0o10, 0b1, 1_0, +3, 3., .5, 1:30, .inf.
_DISPUTED = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
    r"|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)


@dataclass(frozen=True, slots=True)
class UnreadableScalar:
    """A scalar that no reader can use: not a number, a number of too many digits, an unknown tag."""

    text: str
    reason: str


def plain_scalar(text: str) -> Any:
    """The value of a scalar without quotes: None, a boolean, an `int`, a `Fraction` for a number with a point or an
    exponent (also if it is whole, as `3.0`), an `UnreadableScalar`, or the text itself."""
    if text in NULLS:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if text[:1] not in "-+.0123456789":
        return text
    if _WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text):
        return json_number(text)
    if text.lower().lstrip("+-") in {".inf", ".nan"}:
        return UnreadableScalar(text[:60], "is not a number")
    if _DISPUTED.fullmatch(text):
        return UnreadableScalar(
            text[:60], "is a number in some readers of YAML only: write it as in JSON (10, 0.5), or in quotes as a text"
        )
    return text


def json_number(text: str) -> int | Fraction | UnreadableScalar:
    """A number as JSON writes it, exactly."""
    try:
        number = parse_exact(text)
    except InvalidNumber:
        return UnreadableScalar(text[:60], "has too many digits")
    return number if _WHOLE.fullmatch(text) and isinstance(number, int) else Fraction(number)


def whole_number(text: str) -> int | None:
    """The whole number in a text of a form, a file or an annotation, else None."""
    return int(text) if len(text) <= 20 and _WHOLE.fullmatch(text) else None


def is_decimal(text: str) -> bool:
    """Whether a text of a form, a file or an annotation is a number as JSON writes it."""
    return _DECIMAL.fullmatch(text) is not None


def typed_number(text: str) -> int | float | str:
    """A text of a form or a command line as the JSON number that it writes, else the text itself, which the reader of
    the field refuses with its own rule."""
    text = text.strip(" \t")
    if _WHOLE.fullmatch(text) and len(text) <= 20:
        return int(text)
    if len(text) <= 40 and _DECIMAL.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text
