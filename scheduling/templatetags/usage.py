"""Template tags of the record of use.

{% load usage %}
{% usage_cells row %}       the numbers of a row of the record, as cells of a table
{% pool_usage "team" %}     use and waiting of a pool over time; the address chooses the period (`?usage=30d`)
"""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from pools.templatetags.osmo import signed
from scheduling.selectors.leaf_names import leaf_names_of
from scheduling.selectors.usage import UsageKey, UsageRow, read_closed_until, read_usage
from scheduling.selectors.usage_charts import PERIODS, chosen_period, question_of_period, usage_charts

register = template.Library()
PERIOD_PARAMETER = "usage"
MS_PER_HOUR = 3_600_000


@register.inclusion_tag("osmo/parts/pool_usage.html", takes_context=True)
def pool_usage(context: dict[str, Any], pool: str) -> dict[str, Any]:
    """Use and waiting of a pool with its subpools, from the closed hours of the record of use: the page is fetched
    often, and the open hour of all pools would be computed each time. Before the first closed hour it is computed."""
    from pools.admin.base import actor_of  # noqa: PLC0415  # Django loads tags before unfold, which pages need

    request = context["request"]
    actor = actor_of(request)
    period = chosen_period(request.GET.get(PERIOD_PARAMETER), "24h")
    until = read_closed_until() or timezone.now()
    question = question_of_period(period, until, by=UsageKey.SUBPOOL, pools=leaf_names_of(actor, pool))
    answer = read_usage(actor, question)
    charts = usage_charts(answer, prefix="pool")
    return {"request": request, "pool": pool, "charts": charts, "periods": PERIODS, "period": period, "answer": answer}


_CELL = '<td data-label="{}" class="oa-right">{}</td>'


@register.simple_tag
def usage_cells(row: UsageRow) -> SafeString:
    """The numbers of a row of the record, as cells of a table. Built in Python because a page has over a thousand."""
    sums = row.sums
    cells = [
        ("Quota", gpu_hours(sums["quota"])),
        ("Used", gpu_hours(row.used)),
        ("Guaranteed", gpu_hours(sums["guaranteed"])),
        ("LOW inside", gpu_hours(sums["low_inside"])),
        ("Over quota", gpu_hours(sums["over_quota"])),
        ("Idle quota", gpu_hours(sums["idle"])),
        ("Lent", gpu_hours(sums["lent"])),
        ("Borrowed", gpu_hours(sums["borrowed"])),
        ("Waiting", gpu_hours(row.waiting)),
        ("Workflows", signed(sums["workflows"] or 0)),
        ("Preemptions", signed(sums["preemptions"] or 0)),
    ]
    return mark_safe("".join(_CELL.format(*cell) for cell in cells))  # noqa: S308  words of this list, and numbers


@register.filter
def gpu_hours(ms: int | None) -> str:
    """GPU-milliseconds as GPU-hours; an en dash where there is no such amount."""
    if ms is None:
        return "–"
    hours = ms / MS_PER_HOUR
    return f"{hours:,.1f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if ms else "0"
