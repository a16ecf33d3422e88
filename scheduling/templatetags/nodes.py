"""Template tags of nodes."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.selectors.cluster.node_map import MappedNode

register = template.Library()

_BAR = '<div class="oa-bar oa-gpus{}" style="--gpus:{}" aria-hidden="true">{}</div>'
_PART = '<span class="oa-part--{}" style="flex-grow:{}" title="{}"></span>'


@register.simple_tag
def gpu_bar(node: MappedNode) -> SafeString:
    """The GPUs of a node: one part for each workflow, then hidden and foreign work, unusable and free GPUs. The text
    next to the bar has the same numbers."""
    parts = [
        ("low" if each.priority == "LOW" else "inside", each.gpus, f"{each.workflow}: {each.gpus}")
        for each in node.work
    ]
    parts += [
        ("unseen", node.unseen_gpus, f"work of other pools: {node.unseen_gpus}"),
        ("ending", node.usage.ending_gpus, f"pods that end or start: {node.usage.ending_gpus}"),
        ("other", node.usage.other_gpus, f"pods outside OSMO Admin: {node.usage.other_gpus}"),
        ("closed", node.closed_gpus, f"unusable: {node.closed_gpus}"),
        ("free", node.usage.free_gpus, f"free: {node.usage.free_gpus}"),
    ]
    segments = format_html_join("", _PART, [part for part in parts if part[1]])
    return format_html(_BAR, "" if segments else " oa-bar--empty", max(1, node.usage.gpus), segments)
