"""Amounts in sentences: what people ask for first, and what goes beside it only where it matters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from pools.domain.amounts import Amount, sentence_of, text_of
from scheduling.domain.engine.facts import Unit


def said(amounts: Mapping[str, Amount], units: Mapping[str, Unit], *, matters: Collection[str] = ()) -> str:
    """Amounts for a sentence. Those with a unit are left out where something else is there and they do not matter:
    whoever asks for 8 GPUs does not want to hear of their cores, unless it is cores that are missing."""
    main = {key: amount for key, amount in amounts.items() if key not in units}
    beside = [key for key in sorted(amounts) if key in units and (key in matters or not main)]
    words = [_in(units[key], amounts[key]) for key in beside]
    return " and ".join([sentence_of(main), *words] if main else words) or sentence_of({})


def _in(unit: Unit, amount: Amount) -> str:
    number = amount if isinstance(amount, float) else Fraction(amount) / unit.size
    return f"{text_of(number)} {unit.one if number == 1 else unit.many}"
