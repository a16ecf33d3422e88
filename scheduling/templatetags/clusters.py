"""Template tags of the contact with clusters.

{% load clusters %}
{% unjudged_clusters as unjudged %}     the names of the connected clusters that nobody has judged yet; one query
{% cluster_badge backend unjudged %}    the state of a cluster
{% observed_state backend as observed %}  what of an observed cluster counts in no pool, and its error; one query
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django import template
from django.utils.safestring import SafeString

from pools.models import Backend
from pools.templatetags.osmo import badge, tone_badge
from scheduling.models import ClusterState
from scheduling.selectors.cluster.contact import read_unjudged

register = template.Library()


@register.simple_tag
def unjudged_clusters() -> frozenset[str]:
    """The clusters of which it is not known yet whether they answer."""
    return read_unjudged()


@register.simple_tag
def observed_state(backend: Backend) -> dict[str, Any]:
    """The queues and namespaces of an observed cluster that no pool takes (`unassigned`), its objects that cannot count
    (`unread`), and why it does not answer (`error`)."""
    row = ClusterState.objects.filter(backend=backend).first() or ClusterState()
    return {"unassigned": row.unassigned, "unread": row.unread, "error": row.error}


@register.simple_tag
def cluster_badge(backend: Backend, unjudged: Collection[str]) -> SafeString:
    """ONLINE, OFFLINE, or that the cluster was not judged yet."""
    if backend.name in unjudged:
        return tone_badge("wait", "NOT JUDGED YET")
    return badge("OFFLINE" if backend.offline else "ONLINE")
