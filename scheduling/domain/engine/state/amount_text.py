"""Amounts in messages: GPUs first, other resources only where they are relevant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from pools.domain.values.amounts import Amount, amount_text
from pools.domain.values.amounts import amounts_text as plain_amounts_text
from scheduling.domain.engine.facts import DisplayUnit


def amounts_text(
    amounts: Mapping[str, Amount],
    units: Mapping[str, DisplayUnit],
    *,
    relevant: Collection[str] = (),
    parts: Collection[str] = (),
) -> str:
    """Amounts for a message. Resources with a unit are left out if there are other resources, unless they are relevant:
    a message about 8 GPUs does not name their cores, unless cores are missing. `parts` are the flavors that count parts
    of shared GPUs."""
    main = {key: amount for key, amount in amounts.items() if key not in units}
    secondary = [key for key in sorted(amounts) if key in units and (key in relevant or not main)]
    others = [_unit_text(units[key], amounts[key]) for key in secondary]
    return " and ".join([plain_amounts_text(main, parts), *others] if main else others) or plain_amounts_text({})


def _unit_text(unit: DisplayUnit, amount: Amount) -> str:
    number = amount if isinstance(amount, float) else Fraction(amount) / unit.size
    return f"{amount_text(number)} {unit.singular if number == 1 else unit.plural}"
