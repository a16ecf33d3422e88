"""Template tags and filters of gangs and of scheduler events."""

from __future__ import annotations

import re

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.domain.gang_tree_rows import GangTreeRow
from scheduling.domain.start_words import UNKNOWN, StartTimes, start_about, start_about_sentence
from scheduling.selectors.queue.visible_queue import WaitingGang

register = template.Library()

EVENT_LABELS = {
    "start": "Started",
    "move": "Moved to other nodes",
    "reclaim": "Reclaimed",
    "preempt": "Preempted",
    "give_up": "Failed",
}
"""The words of pages for the actions of scheduler events (`Decision.Action`)."""

_NAMES = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_BAR = '<div class="oa-bar" role="img" aria-label="{}: {} of {} running, {} required">{}</div>'
_PART = '<span class="oa-part--{}" style="flex-grow:{}"></span>'


@register.simple_tag
def gang_bar(row: GangTreeRow) -> SafeString:
    """The members of a SubGroup as a bar: running within and beyond the minimum, and missing or optional ones."""
    has, most = min(row.count, row.threshold), max(row.count, row.threshold)
    parts = [
        ("inside", has),
        ("spare", row.count - has),
        ("free" if row.optional else "missing", row.threshold - has),  # an optional member is not missing
        ("free", max(0, row.size - most)),
    ]
    segments = format_html_join("", _PART, [(name, amount) for name, amount in parts if amount])
    return format_html(_BAR, row.name, row.count, row.size, row.threshold, segments)


@register.simple_tag
def gang_unit(row: GangTreeRow, amount: int) -> str:
    """A number of members: `8 pods`, `1 SubGroup`."""
    unit = "pod" if row.leaf else "SubGroup"
    return f"{amount} {unit if amount == 1 else unit + 's'}"


@register.filter
def event_label(action: str) -> str:
    """The word of pages for the action of a scheduler event."""
    return EVENT_LABELS.get(action, action)


@register.filter
def starts_about(times: StartTimes | None) -> SafeString | str:
    """When work starts, in the few words of a list."""
    now = timezone.localtime()
    words = start_about(times, now)
    named = None if times is None else times.named(now)
    if named is None or words == UNKNOWN:
        return words
    return format_html('<time datetime="{}">{}</time>', named.isoformat(timespec="seconds"), words)


@register.filter
def start_sentence(times: StartTimes | None) -> str:
    """The same as a sentence; empty before the first forecast."""
    return start_about_sentence(times, timezone.localtime())


@register.filter
def unblock_title(gang: WaitingGang) -> str:
    """The heading of its remedies, and whether one of them is enough."""
    if len(gang.unblock) < 2:
        return "What would start it"
    return f"What would start it: {'all of these together' if gang.unblock_needs_all else 'one of these'}"


@register.filter
def linked(message: str, gang: WaitingGang) -> SafeString:
    """A message about a waiting gang, with links from the workflows that hold GPUs and from the nodes."""

    def part(word: str) -> SafeString | str:
        if word in gang.holders:
            return format_html('<a href="{}">{}</a>', reverse("admin:scheduling_workflow_change", args=[word]), word)
        if word in gang.nodes:
            address = reverse("admin:pools_node_page", args=[gang.backend, word])
            return format_html('<a href="{}">{}</a>', address, word)
        return word

    return format_html_join("", "{}", ((part(word),) for word in _NAMES.split(message)))
