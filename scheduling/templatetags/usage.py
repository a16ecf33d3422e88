"""Template tags of the record of use.

{% load usage %}
{% usage_heads %}           the headings of the numbers of the record
{% usage_cells row %}       the numbers of a row of the record, as cells of a table
{% pool_usage "team" %}     use and waiting of a pool over time; the address chooses the period (`?usage=30d`)
{% cluster_usage "dgx" %}   use and waiting on a cluster in the last 24 hours
"""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from pools.domain.numbers import USAGE_NUMBERS
from pools.domain.values.amounts import LITTLE, is_little
from pools.representations.page_parameters import read_choice
from pools.templatetags.osmo import heads_of, hours, signed
from scheduling.domain.lists import UsageKey
from scheduling.selectors.receipts.losses import FlavorLosses
from scheduling.selectors.usage.answers import UsageRow
from scheduling.selectors.usage.charts import usage_charts
from scheduling.selectors.usage.periods import PERIODS, chosen_period, window_of
from scheduling.selectors.usage.reading import read_closed_until, read_usage
from scheduling.selectors.work.leaf_names import leaf_names_of

register = template.Library()
PERIOD_PARAMETER = "usage"
MS_PER_HOUR = 3_600_000


@register.inclusion_tag("osmo/parts/pool_usage.html", takes_context=True)
def pool_usage(context: dict[str, Any], pool: str) -> dict[str, Any]:
    """Use and waiting of a pool with its subpools, from the closed hours of the record of use: the page is fetched
    often, and the open hour of all pools would be computed each time. Before the first closed hour it is computed."""
    from pools.admin.base import actor_of  # noqa: PLC0415  # Django loads tags before the apps, which pages need

    request = context["request"]
    actor = actor_of(request)
    period = chosen_period(read_choice(request.GET, PERIOD_PARAMETER, [each.name for each in PERIODS]), "24h")
    until = read_closed_until() or timezone.now()
    window = window_of(period, until)
    answer = read_usage(actor, window.question(UsageKey.SUBPOOL, leaf_names_of(actor, pool)))
    charts = usage_charts(answer, window, prefix="pool")
    return {"request": request, "pool": pool, "charts": charts, "periods": PERIODS, "period": period, "answer": answer}


@register.inclusion_tag("osmo/parts/cluster_usage.html", takes_context=True)
def cluster_usage(context: dict[str, Any], backend: str) -> dict[str, Any]:
    """Use and waiting on a cluster in the last 24 closed hours, as far as the reader may see it."""
    from pools.admin.base import actor_of  # noqa: PLC0415  # as in pool_usage

    window = window_of(chosen_period("24h"), read_closed_until() or timezone.now())
    answer = read_usage(actor_of(context["request"]), window.question(UsageKey.BACKEND))
    return {"charts": usage_charts(answer.of_key(backend), window, prefix="cluster")}


@register.simple_tag
def share_of(part: int, whole: int | None) -> str:
    """A part as percent of the whole."""
    return f"{100 * part / whole:.0f} %" if whole else ""


_CELL = '<td data-label="{}" class="oa-right{}">{}</td>'
USAGE_COLUMNS = {key: number for key, number in USAGE_NUMBERS.items() if key != "wait_p50_s"}
_EXTRA = ("guaranteed_gpu_s", "low_inside_gpu_s", "over_quota_gpu_s", "lent_gpu_s", "borrowed_gpu_s", "preemptions")
"""Columns that are left out where the table is wider than its place."""
_ON_PHONES = {"used_gpu_s": " oa-lead", "idle_quota_gpu_s": "", "waiting_gpu_s": ""}


@register.simple_tag
def usage_heads() -> SafeString:
    """The headings of the columns of `usage_cells`."""
    marks = (("data-extra " if key in _EXTRA else "", number) for key, number in USAGE_COLUMNS.items())
    return SafeString("".join(heads_of([number], mark) for mark, number in marks))


@register.simple_tag
def usage_cells(row: UsageRow) -> SafeString:
    """The numbers of a row of the record, as cells of a table. Built in Python because a page has over a thousand."""
    texts = usage_texts(row)
    cells = (
        _CELL.format(number.label, _ON_PHONES.get(key, " oa-aside"), texts[key])
        for key, number in USAGE_COLUMNS.items()
    )
    return mark_safe("".join(cells))  # noqa: S308  words of one table, and numbers


def usage_texts(row: UsageRow) -> dict[str, str]:
    """The numbers of a row as the page and its file show them."""
    sums = row.sums
    return {
        "quota_gpu_s": gpu_hours(sums["quota"]),
        "used_gpu_s": gpu_hours(row.used),
        "guaranteed_gpu_s": gpu_hours(sums["guaranteed"]),
        "low_inside_gpu_s": gpu_hours(sums["low_inside"]),
        "over_quota_gpu_s": gpu_hours(sums["over_quota"]),
        "idle_quota_gpu_s": gpu_hours(sums["idle"]),
        "lent_gpu_s": gpu_hours(sums["lent"]),
        "borrowed_gpu_s": gpu_hours(sums["borrowed"]),
        "waiting_gpu_s": gpu_hours(row.waiting),
        "workflows": signed(sums["workflows"] or 0),
        "preemptions": signed(sums["preemptions"] or 0),
        "lost_gpu_s": gpu_hours(row.lost),
    }


@register.filter
def gpu_hours(ms: int | None) -> str:
    """GPU-milliseconds as GPU-hours."""
    return hours(None if ms is None else ms / MS_PER_HOUR)


@register.filter
def lost_hours(losses: FlavorLosses) -> str:
    """What interruptions lost: `3.2 GPU-hours`."""
    return " and ".join(
        f"{LITTLE if is_little(ms / MS_PER_HOUR) else gpu_hours(int(ms))} {unit}" for ms, unit in losses.by_unit
    )
