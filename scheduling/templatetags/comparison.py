"""Template tags of two workflows side by side.

{% load comparison %}
{% compared_value fact.unit fact.first %}  a value as its unit asks for; an en dash where there is none
"""

from __future__ import annotations

from typing import Any

from django import template

from pools.templatetags.osmo import ago, signed, span
from scheduling.selectors.reports.comparison import FactUnit

register = template.Library()
GIB = 2**30
SECONDS_PER_HOUR = 3600


@register.simple_tag
def compared_value(unit: FactUnit, value: Any) -> str:
    """The text of one value."""
    if value is None:
        return "–"
    if unit is FactUnit.TIME:
        return ago(value)
    if unit is FactUnit.SECONDS:
        return span(value)
    if unit is FactUnit.GPU_SECONDS:
        return f"{value / SECONDS_PER_HOUR:,.2f} GPU-hours"
    if unit is FactUnit.BYTES:
        return f"{value / GIB:,.1f} GiB"
    if unit is FactUnit.GPUS:
        return f"{signed(value)} GPU{'' if value == 1 else 's'}"
    return str(value) if unit is FactUnit.TEXT else str(signed(value))
