"""How pages draw the tree of a gang."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.domain.gang_tree_rows import GangTreeRow

register = template.Library()

_BAR = '<div class="oa-bar" role="img" aria-label="{}: has {} of {}, needs {}">{}</div>'
_PART = '<span class="oa-part--{}" style="flex-grow:{}"></span>'


@register.simple_tag
def gang_bar(row: GangTreeRow) -> SafeString:
    """What a SubGroup has inside its minimum and beyond it, and what is missing of both."""
    has, most = min(row.count, row.threshold), max(row.count, row.threshold)
    parts = [
        ("inside", has),
        ("spare", row.count - has),
        ("free" if row.optional else "missing", row.threshold - has),  # nobody misses what may be missing
        ("free", max(0, row.size - most)),
    ]
    shown = format_html_join("", _PART, [(name, amount) for name, amount in parts if amount])
    return format_html(_BAR, row.name, row.count, row.size, row.threshold, shown)


@register.simple_tag
def gang_unit(row: GangTreeRow, amount: int) -> str:
    """An amount of what the row counts: `8 pods`, `1 SubGroup`."""
    unit = "pod" if row.leaf else "SubGroup"
    return f"{amount} {unit if amount == 1 else unit + 's'}"
