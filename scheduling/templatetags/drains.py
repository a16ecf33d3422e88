"""Template tags of draining subpools.

{% load drains %}
{% drains_of "team" as drains %}      what is known of each draining subpool of a pool; two queries
{% drain_outlook drains "team--a" %}  since when it drains, and when its work ends at the latest; no query
"""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from scheduling.selectors.work.drains import Drain, read_drains
from scheduling.selectors.work.leaf_names import leaf_names_of

register = template.Library()


@register.simple_tag(takes_context=True)
def drains_of(context: dict[str, Any], pool: str) -> dict[str, Drain]:
    """By name, the draining subpools of a pool."""
    from pools.admin.base import actor_of  # noqa: PLC0415  # Django loads tags before the apps, which pages need

    actor = actor_of(context["request"])
    leaves = leaf_names_of(actor, pool)
    return {drain.subpool: drain for drain in read_drains(actor, pools=leaves, limit=len(leaves))}


@register.inclusion_tag("osmo/parts/drain_outlook.html")
def drain_outlook(drains: dict[str, Drain], subpool: str) -> dict[str, Any]:
    """Since when a subpool drains, when its work ends at the latest, and its deadline; nothing for another leaf."""
    drain = drains.get(subpool)
    now = timezone.now()
    return {
        "drain": drain,
        "is_long": drain is not None and drain.is_long(now),
        "is_overdue": drain is not None and drain.is_overdue(now),
    }
