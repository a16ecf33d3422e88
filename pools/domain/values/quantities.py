"""Kubernetes quantities, exact: `"1.5Gi"`, `"250m"`, `"12E6"`, stored as whole thousandths.

Kubernetes accepts more forms, which are refused here with a message: signs below zero, spaces, a suffix without digits,
an exponent together with a suffix, amounts finer than `1m` (Kubernetes rounds them up) and above 2^63 - 1 (Kubernetes
cuts or wraps them). Source: design, G8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pools.domain.errors import Fault

MAX_UNITS: Final = 2**63 - 1
"""In whole units: what Kubernetes can hold."""

THOUSAND: Final = 1000
MAX_LENGTH: Final = 64
"""Characters. A longer text is a mistake or an attack, and exact arithmetic would pay for it."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {f"{letter}i": power for power, letter in enumerate("KMGTPE", 1)}
_FORM = re.compile(
    r"\+?(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<power>[-+]?[0-9]{1,4}))?"
)
_NEGATIVE = re.compile(r"-[0-9.]")


class QuantityFormat(StrEnum):
    """The spelling of a quantity; a sum has the spelling of its first part."""

    DECIMAL = "D"
    BINARY = "B"
    EXPONENT = "E"


class InvalidQuantity(ValueError):
    """The text is not a valid quantity. `code` is for programs; the message follows the path."""

    def __init__(self, code: Fault, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in thousandths of its unit, and how to print it. Compare `milli`, never the texts."""

    milli: int = 0
    format: QuantityFormat = QuantityFormat.DECIMAL
    written: str = ""

    def __str__(self) -> str:
        """The text as it was written; for a computed quantity the canonical form."""
        return self.written or self.canonical

    @property
    def canonical(self) -> str:
        """The canonical form in the same format: a whole mantissa and the largest suffix that fits: `1536Mi`, `500m`,
        `1k`, `12e6`."""
        whole, rest = divmod(self.milli, THOUSAND)
        if self.format is QuantityFormat.BINARY and not rest and whole >= 1024:
            return _scaled_text(whole, 1024, ("", *_BINARY))
        suffixes = ("m", "", "k", "M", "G", "T", "P", "E")
        if self.format is QuantityFormat.EXPONENT:
            suffixes = ("e-3", "", "e3", "e6", "e9", "e12", "e15", "e18")
        return _scaled_text(self.milli, THOUSAND, suffixes)

    def __add__(self, other: Quantity) -> Quantity:
        """The exact sum, in the format of the left quantity; zero takes the format of the other."""
        return Quantity(self.milli + other.milli, self.format if self.milli else other.format)

    def times(self, count: int) -> Quantity:
        """The exact product, in the same format."""
        return Quantity(self.milli * count, self.format)


ZERO = Quantity()


def _scaled_text(number: int, step: int, suffixes: tuple[str, ...]) -> str:
    if number == 0:
        return "0"
    place = 0
    while place < len(suffixes) - 1 and number % step == 0:
        number //= step
        place += 1
    return f"{number}{suffixes[place]}"


def parse_quantity(value: object) -> Quantity:
    """A quantity from a text or a JSON number. Raises InvalidQuantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidQuantity(Fault.BAD_VALUE, 'must be a quantity, as 100, "1.5" or "16Gi".')
    if isinstance(value, str):
        return _read(value, value)
    if isinstance(value, int) and value.bit_length() > 64:
        raise InvalidQuantity(
            Fault.TOO_LARGE if value > 0 else Fault.NEGATIVE, f"is beyond 0 to 2^63 - 1 ({MAX_UNITS:,})."
        )
    # A float keeps the digits of the JSON: `repr` finds the shortest decimal that reads back as the same number.
    text = repr(value)
    found = _read(text, text)
    plain = Quantity(found.milli)
    return (
        found
        if found.format is QuantityFormat.DECIMAL
        else Quantity(found.milli, QuantityFormat.DECIMAL, plain.canonical)
    )


def _read(text: str, written: str) -> Quantity:
    if not text:
        raise InvalidQuantity(Fault.BAD_VALUE, "is empty; give a quantity, as 100, 1.5 or 16Gi.")
    if len(text) > MAX_LENGTH:
        raise InvalidQuantity(
            Fault.BAD_VALUE, f"has {len(text):,} characters; the most for a quantity is {MAX_LENGTH}."
        )
    match = _FORM.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        if _NEGATIVE.match(text):
            raise InvalidQuantity(Fault.NEGATIVE, "cannot be negative.")
        raise InvalidQuantity(
            Fault.BAD_VALUE,
            "must be digits and at most one suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e3), as 16Gi.",
        )
    milli = _milli(match)
    if milli > MAX_UNITS * THOUSAND:
        raise InvalidQuantity(Fault.TOO_LARGE, f"is too large; the most is 2^63 - 1 ({MAX_UNITS:,}).")
    return Quantity(milli, _family(match), written)


def _family(match: re.Match[str]) -> QuantityFormat:
    if match["power"] is not None:
        return QuantityFormat.EXPONENT
    return QuantityFormat.BINARY if match["suffix"] in _BINARY else QuantityFormat.DECIMAL


def _milli(match: re.Match[str]) -> int:
    part = (match["part"] or "").rstrip("0")
    digits = int(f"{match['whole']}{part}")
    suffix, power = match["suffix"] or "", int(match["power"] or 0)
    if suffix in _BINARY:
        digits *= 1024 ** _BINARY[suffix]
    else:
        power += _DECIMAL[suffix]
    power += 3 - len(part)
    if power >= 0:
        return digits * int(10**power)
    milli, rest = divmod(digits, int(10**-power))
    if rest:
        raise InvalidQuantity(Fault.TOO_FINE, "is too fine; nothing finer than 1m (a thousandth) is kept.")
    return milli
