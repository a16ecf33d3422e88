"""Parents of cohorts that run in a circle: noticed, marked, and unmarked when they are in order again (D12).

Services and triggers refuse a circle, so only somebody who writes past both can bring one about. Nothing starts below
it from that moment on, for every verdict looks at the tree itself; the mark is for people: it stands in the audit trail
(`cohort.inactive`, `cohort.active`), and with it the moment since when it is so.
"""

from __future__ import annotations

from django.utils import timezone

from pools.domain.quota.tree import QuotaNode, QuotaTree
from pools.domain.roles import SYSTEM
from pools.locking import lock_cohort_trees, lock_configuration
from pools.models import Cohort
from pools.transactions import change


def mark_cycles_now() -> list[str]:
    """Mark what stands on a circle or below one, and unmark what no longer does. Returns the names of both. One query
    where nothing is to be done."""
    if not any(_misjudged()):
        return []
    with change(actor=SYSTEM, description="the parents of cohorts were looked at"):
        lock_configuration()
        return mark_cycles()


def mark_cycles() -> list[str]:
    """The same inside a change that holds the lock of the configuration."""
    fallen, repaired = _misjudged()
    if not (moved := fallen | repaired):
        return []
    lock_cohort_trees(moved)
    Cohort.objects.filter(pk__in=fallen).update(inactive_since=timezone.now())
    Cohort.objects.filter(pk__in=repaired).update(inactive_since=None)
    return sorted(Cohort.objects.filter(pk__in=moved).values_list("name", flat=True))


def _misjudged() -> tuple[set[int], set[int]]:
    """Ids of the cohorts that are inactive and not marked, and of those that are marked and active."""
    rows = list(Cohort.objects.order_by("name").values_list("pk", "name", "parent__name", "inactive_since"))
    shape = QuotaTree(QuotaNode(name, parent) for _, name, parent, _ in rows)
    wrong = [(pk, since) for pk, name, _, since in rows if shape.is_active(name) is (since is not None)]
    return {pk for pk, since in wrong if since is None}, {pk for pk, since in wrong if since is not None}
