"""How pages write numbers, times and states."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.forms import BoundField, CheckboxInput
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from pools.domain import audit_messages
from pools.domain.amounts import UNLIMITED as WITHOUT_END
from pools.domain.amounts import Amount, amount_text
from pools.domain.quota import forest
from pools.domain.quota.pool_balance import UNLIMITED_GPUS
from pools.domain.quota.usage_bar import UsageBar
from pools.models import AuditEntry
from pools.selectors.pool_tree import PoolTreeRow
from pools.selectors.quota_pages import NUMBER_TITLES, QuotaTreeRow, kind_segment_of

register = template.Library()

_EMPTY_BAR = '<div class="oa-bar oa-bar--empty" role="img" aria-label="{}: no quota and nothing in use"></div>'
_BAR = (
    '<div class="oa-bar" role="img" aria-label="{}: {} used inside the quota, {} free, {} LOW over quota, {} draining">'
    "{}</div>"
)
_TREE_BAR = (
    '<div class="oa-bar" role="img" aria-label="{}: {} used of its own, {} borrowed, {} lent out, {} free">{}</div>'
)
_PART = '<span class="oa-part--{}" style="flex-grow:{}"></span>'
MINUS = "\N{MINUS SIGN}"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_TONES = {
    "ONLINE": "good",
    "ACTIVE": "good",
    "RUNNING": "good",
    "COMPLETED": "done",
    "PENDING": "wait",
    "SCHEDULING": "wait",
    "WAITING": "wait",
    "MAINTENANCE": "warn",
    "DELETING": "warn",
    "FAILED_CANCELED": "off",
    "OFFLINE": "bad",
    "ARCHIVED": "off",
}


@register.filter
def gpus(value: int | None) -> str:
    """A number of GPUs: thousands apart, a true minus sign, `unlimited` for -1 (quotas only; see `signed`)."""
    if value is None:
        return "–"
    return "unlimited" if value == UNLIMITED_GPUS else signed(value)


@register.filter
def signed(value: int) -> str:
    """A whole number with thousands apart and a true minus sign; -1 is -1."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", MINUS)


@register.filter
def amount(value: Amount | None) -> str:
    """An exact amount of whatever resource: thousands apart, a true minus sign, `unlimited`."""
    if value is None:
        return "–"
    return signed(value) if isinstance(value, int) else amount_text(value).replace("-", MINUS)


@register.filter
def size(value: Amount) -> str:
    """An amount whose sign is told elsewhere."""
    return amount(-value if value < 0 else value)


@register.filter
def node_address(key: str) -> str:
    """The page of a node of the tree of quotas, by what the tree calls it."""
    return reverse("admin:pools_quota_node", args=[kind_segment_of(key), forest.display_name(key)])


@register.filter
def node_name(key: str) -> str:
    """What people call a node of the tree of quotas."""
    return forest.display_name(key)


@register.filter
def number_title(number: str) -> str:
    """What pages call a number of the tree of quotas."""
    return NUMBER_TITLES[number]


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """A time as people say it, with the exact one (UTC) as its tooltip."""
    if moment is None:
        return "–"
    seconds = (timezone.now() - moment).total_seconds()
    words = "just now" if abs(seconds) < 10 else f"{span(abs(seconds))} ago" if seconds > 0 else f"in {span(-seconds)}"
    exact = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', exact.isoformat(), f"{exact:%Y-%m-%d %H:%M:%S} UTC", words
    )


@register.filter
def exact(moment: datetime | None) -> str:
    """The exact time in UTC."""
    return "–" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def span(length: float | timedelta | None) -> str:
    """A length of time in at most two units: `2 d 4 h`, `3 min`, `12 s`."""
    if length is None:
        return "–"
    seconds = int(length.total_seconds() if isinstance(length, timedelta) else length)
    for size, unit in _UNITS:
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller = next(((s, u) for s, u in _UNITS if s < size), (1, "s"))
            part = rest // smaller[0]
            return f"{whole} {unit} {part} {smaller[1]}" if part else f"{whole} {unit}"
    return f"{seconds} s"


@register.filter
def tone(state: str) -> str:
    """Which of the badge's looks a state has; the word stands in it anyway."""
    return _TONES.get(state) or ("bad" if state.startswith("FAILED") else "off")


@register.simple_tag
def badge(state: str) -> SafeString:
    """A state as a badge: word, and a colour beside it."""
    return format_html('<span class="oa-badge oa-badge--{}">{}</span>', tone(state), state) if state else SafeString("")


@register.simple_tag
def usage_bar(parts: UsageBar, label: str) -> SafeString:
    """The four-part bar with a sentence for those who do not see it. Built here: a page has hundreds."""
    if not parts.length:
        return format_html(_EMPTY_BAR, label)
    shown = [
        ("inside", parts.within_quota),
        ("over", parts.over_quota),
        ("draining", parts.draining),
        ("free", parts.free),
    ]
    return format_html(
        _BAR,
        label,
        signed(parts.within_quota),
        signed(parts.free),
        signed(parts.over_quota),
        signed(parts.draining),
        format_html_join("", _PART, [(name, amount) for name, amount in shown if amount]),
    )


@register.simple_tag
def quota_bar(row: QuotaTreeRow) -> SafeString:
    """What of a node is used, borrowed, lent out and free; with a sentence for those who do not see it."""
    shown = [("inside", row.inside), ("over", row.numbers.borrowed), ("lent", row.numbers.lent), ("free", row.free)]
    if any(part == WITHOUT_END for _, part in shown) or not any(part for _, part in shown):
        return format_html(_EMPTY_BAR, row.node.name)
    parts = [(name, float(part)) for name, part in shown if part]
    return format_html(
        _TREE_BAR, row.node.name, *(amount(part) for _, part in shown), format_html_join("", _PART, parts)
    )


@register.simple_tag
def available(row: PoolTreeRow) -> SafeString | str:
    """What may still start inside the quota; below zero, that much has to drain first."""
    if row.quota == UNLIMITED_GPUS:
        return "unlimited"
    text = signed(row.available)
    return format_html('<span class="oa-negative">{}</span>', text) if row.available < 0 else text


@register.filter
def is_tick(field: BoundField) -> bool:
    """Whether a form's field is a single tick box, whose label stands behind it."""
    return isinstance(field.field.widget, CheckboxInput)


@register.filter
def is_dropped(field: BoundField) -> bool:
    """Whether a refused form forgets a secret that it would take as left empty when it is sent again."""
    said = getattr(field.field, "is_secret", False) and field.form.errors and field.data
    return bool(said) and not field.field.required


@register.filter
def sentence(entry: AuditEntry) -> str:
    """An audit entry as every door tells it."""
    return audit_messages.audit_message(
        entry.action, entry.object, entry.actor, entry.before, entry.after, entry.description
    )


@register.filter
def pretty(value: Any) -> str:
    """A stored value as a person reads it: texts as they are, the rest as JSON."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The page's own query string with some keys changed (empty ones dropped)."""
    params = context["request"].GET.copy()
    for key, value in changes.items():
        if value in {None, ""}:
            params.pop(key, None)
        else:
            params[key] = value
    return f"?{params.urlencode()}"
