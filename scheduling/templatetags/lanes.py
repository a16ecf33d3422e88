"""Template tags of scheduler events over time.

{% load lanes %}
{% event_lanes chart %}     the marks of all lanes as one picture, whose columns are links that choose a time
{% lane_axis chart %}       the times below it
{% event_marks %}           the shapes of the marks, for a page without the picture
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from pools.templatetags.osmo import query, signed
from scheduling.domain.timelines.event_lanes import LaneChart, LaneColumn, PoolLane
from scheduling.templatetags.gangs import EVENT_LABELS

register = template.Library()

ROW = 28
"""Pixels of a lane, also in lanes.css."""
_RADII = (3.5, 4.5, 6, 8)
_MAX_NAMED = 8
_SHAPES = {
    "move": "0,-{r} {r},0 0,{r} -{r},0",
    "reclaim": "0,-{r} {r},{r} -{r},{r}",
    "preempt": "0,{r} {r},-{r} -{r},-{r}",
    "give_up": "-{r},-{r} {r},-{r} {r},{r} -{r},{r}",
}
"""The points of each shape around its middle; a start is a circle."""


@register.simple_tag(takes_context=True)
def event_lanes(context: dict[str, Any], chart: LaneChart) -> SafeString:
    """The picture of the events. Places are percent and sizes are pixels, so it fits every width."""
    height = ROW * len(chart.lanes)
    lanes = "".join(_lane(lane, ROW * number) for number, lane in enumerate(chart.lanes))
    columns = "".join(_column(context, column, height) for column in chart.columns)
    return mark_safe(  # noqa: S308  names are escaped in _column
        f'<svg class="oa-eventlanes__svg" width="100%" height="{height}" data-since="{chart.start.timestamp():.0f}"'
        f' data-until="{chart.end.timestamp():.0f}">{_marks()}{lanes}{columns}</svg>'
    )


@register.simple_tag
def event_marks() -> SafeString:
    """The shapes of the marks, for a list of events on a page without the picture."""
    return mark_safe(f'<svg width="0" height="0" class="oa-hidden" aria-hidden="true">{_marks()}</svg>')  # noqa: S308


@register.simple_tag
def lane_axis(chart: LaneChart) -> SafeString:
    """The times of the axis."""
    form = "%-d %b %H:%M" if chart.has_days else "%H:%M"
    texts = "".join(
        f'<text x="{tick.left}%" y="12"{" class=oa-end" if tick.left > 85 else ""}>{tick.time:{form}}</text>'
        for tick in chart.ticks
        if 3 < tick.left < 97
    )
    return mark_safe(f'<svg class="oa-eventlanes__axis" width="100%" height="16" aria-hidden="true">{texts}</svg>')  # noqa: S308


@register.filter
def part_title(part: tuple[datetime, datetime]) -> str:
    """A part of the time in words, in UTC."""
    since, until = (each.astimezone(UTC) for each in part)
    end = f"{until:%H:%M}" if until.date() == since.date() else f"{until:%-d %b %H:%M}"
    return f"{since:%-d %b %H:%M} to {end} UTC"


def _marks() -> str:
    polygons = "".join(
        f'<polygon id="mark-{action}-{size}" points="{points.format(r=radius)}"/>'
        for action, points in _SHAPES.items()
        for size, radius in enumerate(_RADII, 1)
    )
    circles = "".join(f'<circle id="mark-start-{size}" r="{radius}"/>' for size, radius in enumerate(_RADII, 1))
    return f"<defs>{polygons}{circles}</defs>"


def _lane(lane: PoolLane, top: int) -> str:
    marks = "".join(
        f'<use class="oa-mark--{mark.action}" href="#mark-{mark.action}-{mark.size}" x="{mark.left}%"'
        f' y="{top + (19 if mark.action == "start" else 9)}"/>'
        for mark in lane.marks
    )
    return f'<line x1="0" x2="100%" y1="{top + ROW - 0.5}" y2="{top + ROW - 0.5}"/>{marks}'


def _column(context: dict[str, Any], column: LaneColumn, height: int) -> str:
    begin, end = (each.strftime("%Y-%m-%dT%H:%M:%SZ") for each in (column.since, column.until))
    address = escape(query(context, part_since=begin, part_until=end, page=None))
    lines = [f"{part_title((column.since, column.until))}: {signed(column.total)} event{'s' * (column.total != 1)}"]
    lines += [f"{pool}: {_words(counts)}" for pool, counts in column.counts[:_MAX_NAMED]]
    if len(column.counts) > _MAX_NAMED:
        lines.append(f"and {len(column.counts) - _MAX_NAMED} more")
    rect = f'<rect x="{column.left}%" y="0" width="{column.width}%" height="{height}"/>'
    return f'<a href="{address}"><title>{escape(chr(10).join(lines))}</title>{rect}</a>'


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{signed(count)} {EVENT_LABELS.get(action, action).lower()}" for action, count in counts.items())
