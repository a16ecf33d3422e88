"""Template tags of the picture of the fleet.

{% load fleet %}
{% fleet_bar fleet %}                        all GPUs as one bar, and its parts with their numbers
{% spark fleet.used "In use" fleet.whole %}  the hours before as a small line; without a scale its highest value is
                                             the top
{% read_clusters as clusters %}              the use of each cluster, for a reader of the platform
{% cluster_cells clusters "dgx" %}           its bar and its last 24 hours, as two cells of a table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from pools.templatetags.osmo import signed, usage_bar
from scheduling.selectors.status.fleet import ClusterUse, Fleet, read_clusters

register = template.Library()

_PART = '<span class="oa-part--{}" style="flex-grow:{}"></span>'
_LINE = '<li><i class="oa-part--{}" aria-hidden="true"></i><span><b>{}</b> {}</span></li>'
_LISTS = {"draining": "?show=draining", "over": "?show=over"}
_SPARK = (
    '<svg class="oa-spark" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}"><title>{}</title>'
    '<path class="oa-spark__area" d="{} V100 H0 Z"/><path class="oa-spark__line" d="{}"/></svg>'
)
_CLUSTER = '<td data-label="Use" class="oa-wide">{}</td><td data-label="24 hours" class="oa-aside">{}</td>'


@register.simple_tag
def fleet_bar(fleet: Fleet) -> SafeString:
    """The GPUs of the fleet as one bar; each part has its number, and its list where there is one."""
    pools = reverse("admin:pools_pool_changelist")
    rest = "idle" if fleet.has_nodes else "unused quota"
    parts = [(part.key, size, rest if part.key == "free" else part.legend) for part, size in fleet.bar.parts() if size]
    if fleet.offline:
        parts.append(("offline", fleet.offline, "offline"))
    segments = format_html_join("", _PART, ((key, size) for key, size, _ in parts))
    lines = format_html_join("", _LINE, ((key, _number(pools, key, size), word) for key, size, word in parts))
    return format_html(
        '<div class="oa-bar oa-bar--fleet" aria-hidden="true">{}</div><ul class="oa-legend" aria-label="{}">{}</ul>',
        segments,
        "All GPUs" if fleet.has_nodes else "The quota of my pools",
        lines,
    )


@register.simple_tag(takes_context=True, name="read_clusters")
def clusters_of(context: dict[str, Any]) -> dict[str, ClusterUse]:
    """The use of each cluster by its name; the page has the flavors that count parts of GPUs as `parts`."""
    from pools.admin.base import actor_of  # noqa: PLC0415  # Django loads tags before the apps, which pages need

    return read_clusters(actor_of(context["request"]), context["parts"])


@register.simple_tag
def cluster_cells(clusters: Mapping[str, ClusterUse], name: str) -> SafeString:
    """The bar of a cluster, and its last hours."""
    use = clusters[name]
    return format_html(_CLUSTER, usage_bar(use.bar, name), spark(use.used, f"{name}, in use", use.whole) or "–")


def _number(pools: str, key: str, size: int) -> SafeString | str:
    return format_html('<a href="{}{}">{}</a>', pools, _LISTS[key], signed(size)) if key in _LISTS else signed(size)


@register.simple_tag
def spark(values: Sequence[float], label: str, whole: float = 0) -> SafeString:
    """Averages of hours as a line of steps, the newest at the right. `whole` is the top of the scale; without it the
    highest value is. Nothing without values."""
    if not values:
        return SafeString("")
    top = max(whole, *values) or 1
    steps = [f"{100 - 100 * value / top:.1f}" for value in values]
    path = f"M0 {steps[0]} " + " ".join(f"V{step} H{number}" for number, step in enumerate(steps, 1))
    words = (
        f"{label} in the last {len(values)} hours: {values[0]:.0f} GPUs at first, {values[-1]:.0f} in the last hour,"
        f" at least {min(values):.0f}, at most {max(values):.0f}"
    )
    return format_html(_SPARK, len(values), words, words, path, path)
