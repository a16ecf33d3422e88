"""Template tags of the record of use.

{% load usage %}
{% pool_usage "team" %}     use and waiting of a pool over time; the address chooses the period (`?usage=30d`)
"""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from scheduling.selectors.leaf_names import leaf_names_of
from scheduling.selectors.usage import UsageKey, read_closed_until, read_usage
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


@register.filter
def gpu_hours(ms: int | None) -> str:
    """GPU-milliseconds as GPU-hours; an en dash where there is no such amount."""
    if ms is None:
        return "–"
    hours = ms / MS_PER_HOUR
    return f"{hours:,.1f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if ms else "0"
