"""Whether it is known that a cluster answers: a new one is neither online nor offline before its first answer, or
before it was silent for the time that counts as silence."""

from __future__ import annotations

from django.db.models import Q

from pools.models import Backend

UNJUDGED = Q(kind=Backend.Kind.KUBERNETES, offline=False, cluster_state__heartbeat_at=None)
"""Clusters that have never answered, and that nobody has set offline for that."""


def read_unjudged() -> frozenset[str]:
    """The names of these clusters. One query."""
    return frozenset(Backend.objects.filter(UNJUDGED).values_list("name", flat=True))
