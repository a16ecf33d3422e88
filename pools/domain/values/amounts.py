"""Exact amounts of (flavor, resource): whole numbers if possible, else fractions, and *unlimited*.

`UNLIMITED` is a value, not a sentinel to test for: it compares above every number and stays itself through addition.
Only the difference of two unlimited amounts is undefined, so no function here subtracts an amount that may be
unlimited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from pools.domain.values.counting import counted

Number = int | Fraction
Amount = int | Fraction | float
"""A `Number`, or `UNLIMITED` (the only float there is)."""
JsonAmount = int | float | str
"""An amount in JSON, see :func:`as_json`."""


UNLIMITED: Final = math.inf
NO_LIMIT: Final = -1
"""The spelling of `UNLIMITED` in database columns, API bodies and KAI queues. No rule computes with it."""
LITTLE: Final = "less than 0.1"
"""In place of 0.0 hours that are not none (:func:`is_little`)."""

Gpus = int | float
"""Whole GPUs, or `UNLIMITED`."""

DEFAULT_FLAVOR: Final = "default"
GPU: Final = "default/gpu"

MAX_DIGITS: Final = 40
"""A longer number is a mistake or an attack, and exact arithmetic with it would be slow."""

_NUMBER = re.compile(r"[-+]?(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:[eE](?P<power>[-+]?\d{1,4}))?", re.ASCII)


def decode_gpus(number: int | None) -> Gpus:
    """GPUs of a column or an API body as an amount: `NO_LIMIT` and null become `UNLIMITED`."""
    return UNLIMITED if number is None or number == NO_LIMIT else number


def encode_gpus(gpus: Gpus) -> int:
    """GPUs as columns, API bodies and KAI queues spell them: `UNLIMITED` becomes `NO_LIMIT`."""
    return NO_LIMIT if gpus == UNLIMITED else int(gpus)


class InvalidNumber(ValueError):
    """The text is not a decimal number, or has more than `MAX_DIGITS` digits."""


def parse_exact(text: str) -> Number:
    """The decimal number written in `text`, exactly: `"12"` → 12, `"0.1"` → 1/10, `"1e3"` → 1000."""
    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise InvalidNumber(text)
    size = len(match["whole"]) + len(match["part"] or "") + abs(int(match["power"] or 0))
    if size > MAX_DIGITS:
        raise InvalidNumber(text)
    return simplify(Fraction(text))


def simplify(number: Number) -> Number:
    """The same number as an `int` when it is one."""
    return number.numerator if number.denominator == 1 else number


def resource_key(name: str) -> str:
    """`gpu` → `default/gpu`; only the first `/` separates flavor and resource, so `a/b/c` stays as it is."""
    return name if "/" in name else f"{DEFAULT_FLAVOR}/{name}"


def gpu_key(flavor: str) -> str:
    """The key of the GPUs of a flavor: `h100` → `h100/gpu`."""
    return f"{flavor}/gpu"


def flavor_of(key: str) -> str:
    """The flavor of a `flavor/resource` key."""
    return key.partition("/")[0]


def resource_of(key: str) -> str:
    """The resource of a `flavor/resource` key."""
    return key.partition("/")[2]


def is_gpu(key: str) -> bool:
    """Whether the key counts GPUs, of any flavor."""
    return resource_of(key) == "gpu"


def gpu_amounts(amounts: Mapping[str, Number]) -> dict[str, Number]:
    """Those of GPUs, of any flavor."""
    return {key: amount for key, amount in amounts.items() if is_gpu(key)}


def gpus_in(amounts: Mapping[str, Number]) -> Number:
    """The GPUs of all flavors together."""
    return sum(amount for key, amount in amounts.items() if is_gpu(key))


def sum_amounts(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    """The sum, key by key."""
    whole: dict[str, Number] = {}
    for part in parts:
        for key, amount in part.items():
            whole[key] = whole.get(key, 0) + amount
    return whole


def as_json(amount: Amount) -> JsonAmount:
    """An amount for JSON: integers as they are, decimals as a JSON number if that is exact, else as text."""
    if amount == UNLIMITED:
        return "unlimited"
    number = simplify(Fraction(amount))
    if isinstance(number, int):
        return number
    near = float(number)
    return near if Fraction(repr(near)) == number else amount_text(number)


def amount_text(amount: Amount) -> str:
    """An amount for a message: `8`, `0.5`, `1/3`, `unlimited`."""
    if amount == UNLIMITED:
        return "unlimited"
    number = simplify(Fraction(amount))
    if isinstance(number, int):
        return str(number)
    near = float(number)
    return repr(near) if Fraction(repr(near)) == number else str(number)


MIXED_WORDS = ("GPU or part of GPUs", "GPUs or parts of GPUs")
"""For :func:`counted`: of a sum that may have both."""


def gpu_words(flavor: str, parts: Collection[str] = (), *, is_named: bool = True) -> tuple[str, str]:
    """What one GPU of a flavor and several are called: `h100 GPU`, and of one of `parts`, the flavors that count parts
    of shared GPUs, `t4 part of GPUs`. The default flavor has no name there, nor has one that the text names before."""
    which = f"{flavor} " if is_named and flavor not in {"", DEFAULT_FLAVOR} else ""
    return (f"{which}part of GPUs", f"{which}parts of GPUs") if flavor in parts else (f"{which}GPU", f"{which}GPUs")


def words_of_any(flavors: Collection[str], parts: Collection[str] = (), *, is_named: bool = False) -> tuple[str, str]:
    """The same of GPUs that may be of any of these flavors; with `is_named` a single flavor has its name."""
    units = {gpu_words(flavor, parts, is_named=is_named and len(flavors) == 1) for flavor in flavors}
    return units.pop() if len(units) == 1 else MIXED_WORDS if units else gpu_words(DEFAULT_FLAVOR)


def gpus_text(gpus: int, by_flavor: Mapping[str, int], parts: Collection[str] = ()) -> str:
    """`8 GPUs`, and where they count by flavor `4 h100 GPUs and 4 t4 parts of GPUs` (:func:`gpu_words`)."""
    found = {gpu_key(flavor): amount for flavor, amount in by_flavor.items() if amount}
    return amounts_text(found, parts) if found else counted(gpus, "GPU")


def hours_by_unit(hours: float, of_parts: Mapping[str, float]) -> list[tuple[float, str]]:
    """GPU-hours with their unit; of those in `of_parts`, the flavors that count parts of shared GPUs, each on its own:
    `[(1.0, "GPU-hours"), (2.2, "hours of t4 parts of GPUs")]`."""
    whole = hours - sum(of_parts.values())
    found = [(amount, f"hours of {gpu_words(flavor, [flavor])[1]}") for flavor, amount in of_parts.items()]
    return [(whole, "GPU-hours"), *found] if whole or not found else found


def hours_text(hours: float, of_parts: Mapping[str, float]) -> str:
    """The same in words: `1.0 GPU-hours and 2.2 hours of t4 parts of GPUs`."""
    return " and ".join(
        f"{LITTLE if is_little(amount) else f'{amount:.1f}'} {unit}" for amount, unit in hours_by_unit(hours, of_parts)
    )


def is_little(hours: float) -> bool:
    """Whether one decimal rounds this amount to nothing."""
    return 0 < hours < 0.05


def amounts_text(amounts: Mapping[str, Amount], parts: Collection[str] = ()) -> str:
    """Amounts for a message, GPUs with their flavor (:func:`gpu_words`): `4 GPUs`, `8 h100 GPUs and 8 cpu`."""
    words = []
    for key in amounts if len(amounts) == 1 else sorted(amounts, key=lambda key: (not is_gpu(key), key)):
        amount, units = amounts[key], _words_of(key, is_of_parts=bool(parts) and flavor_of(key) in parts)
        words.append(f"{amount_text(amount)} {units[amount != 1]}")
    return " and ".join(words) or "nothing"


@lru_cache(1024)
def _words_of(key: str, *, is_of_parts: bool) -> tuple[str, str]:
    """What one and several of a resource are called; a reason of each waiting gang asks for it."""
    if not is_gpu(key):
        return (key.removeprefix(f"{DEFAULT_FLAVOR}/"),) * 2
    flavor = flavor_of(key)
    return gpu_words(flavor, [flavor] if is_of_parts else ())
