"""Scheduler events: starts, moves, preemptions and reclaims, each with the workflow that caused it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Min, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.domain.people.roles import Actor
from pools.domain.values.query_values import away_from_ends, parse_datetime
from pools.representations.page_parameters import also_say, read_choice, unread_filter
from scheduling.admin.filters import DecisionPageFilterSet
from scheduling.domain.timelines.event_lanes import MIN_SPAN, draw_lanes, slot_length
from scheduling.models import Decision
from scheduling.selectors.work.decisions import count_decisions, list_decisions
from scheduling.templatetags.gangs import EVENT_LABELS

RANGES = {"1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days"}
_LENGTHS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
USUAL_RANGE = "24h"
_MOST_EMPTY = 0.25
"""The part of a range before its first event that the lanes show."""
_NO_PART = "give the begin and the end of a time that is shown, as 2026-11-29T14:00:00."


@admin.register(Decision)
class DecisionAdmin(PolicyAdmin):
    """Read-only, like the table itself."""

    address = "activity"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        filters = DecisionPageFilterSet(request, Decision.objects.visible_to(actor))
        name, since, until = _shown_range(request, filters)
        late = _late_begin(actor, since, until) if name else None
        since = since if late is None else min(late, until - MIN_SPAN)
        rows = filters.qs.filter(time__gte=since, time__lt=until)
        chart = draw_lanes(count_decisions(rows, slot_length(since, until)), since, until)
        part = _chosen_part(request, since, until)
        listed = rows if part is None else rows.filter(time__gte=part[0], time__lt=part[1])
        number = parse_page_number(request.GET.get("page"))
        found, more = list_decisions(actor, listed, limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
        return self.render_page(
            request,
            "osmo/scheduler_events.html",
            title="Scheduler events",
            filters=filters,
            window=ListPage(found, number, number + 1 if more else 0),
            chart=chart,
            part=part,
            total=sum(lane.total for lane in chart.lanes),
            ranges=RANGES,
            range_name=name,
            begins_at=late,
            event_labels=list(EVENT_LABELS.items()),
        )


def _shown_range(request: HttpRequest, filters: DecisionPageFilterSet) -> tuple[str, datetime, datetime]:
    """The range of the lanes, and its name if it ends now. From and Until of the filters come first; the events of one
    workflow are shown from its first one on."""
    now = timezone.now()
    since, until = _limit(filters, "since"), _limit(filters, "until")
    name = read_choice(request.GET, "range", RANGES)
    if since is None and until is None and not name and filters.value("workflow"):
        since = _first_time(filters.qs)
    if since is not None or until is not None:
        until = until or max(now, since + MIN_SPAN)
        since = since or until - _LENGTHS[USUAL_RANGE]
        return "", since, max(until, since + MIN_SPAN)
    name = name or USUAL_RANGE
    return name, now - _LENGTHS[name], now


def _late_begin(actor: Actor, since: datetime, until: datetime) -> datetime | None:
    """The first of all events of the range if it comes late, as in a new installation, where the lanes would be empty
    for the most part; else None."""
    first = _first_time(Decision.objects.visible_to(actor).filter(time__gte=since, time__lt=until))
    return first if first is not None and first - since > _MOST_EMPTY * (until - since) else None


def _limit(filters: DecisionPageFilterSet, name: str) -> Any:
    moment = filters.value(name)
    return None if moment is None else away_from_ends(moment)


def _first_time(rows: QuerySet[Decision]) -> datetime | None:
    found: datetime | None = rows.order_by().aggregate(first=Min("time"))["first"]
    return found


def _chosen_part(request: HttpRequest, since: datetime, until: datetime) -> tuple[datetime, datetime] | None:
    """The part of the range that the person chose in the picture."""
    texts = [request.GET.get(key, "") for key in ("part_since", "part_until")]
    begin, end = map(parse_datetime, texts)
    if begin and end and since <= end and begin < until and begin < end:
        return begin, end
    if any(texts):
        also_say(request.GET, lambda: [unread_filter("part_since, part_until", _NO_PART)])
    return None
