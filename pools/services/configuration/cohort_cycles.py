"""Marks on cohorts whose parents form a cycle, and the removal of the marks once the cycle is gone (design, D12).

Services and triggers refuse a cycle, so only a write past both of them can create one. Nothing starts below a cycle,
marked or not, because every admission check reads the tree itself. The mark is for people: the audit trail shows it
(`cohort.inactive`, `cohort.active`) with the time since when the cycle is known.
"""

from __future__ import annotations

from django.utils import timezone

from pools.database.transactions import change
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.tree import QuotaNode, QuotaTree
from pools.locking import lock_cohort_trees, lock_configuration
from pools.models import Cohort


def mark_cycles_now() -> list[str]:
    """Mark the cohorts that are on a cycle or below one, and unmark those that no longer are. Returns the names of
    both. One query if no mark has to change."""
    if not any(_find_wrong_marks()):
        return []
    with change(actor=SYSTEM, description="the parents of cohorts were checked for cycles"):
        lock_configuration()
        return mark_cycles()


def mark_cycles() -> list[str]:
    """Like :func:`mark_cycles_now`, inside a change that holds the lock of the configuration."""
    new_ids, outdated_ids = _find_wrong_marks()
    if not (wrong_ids := new_ids | outdated_ids):
        return []
    lock_cohort_trees(wrong_ids)
    Cohort.objects.filter(pk__in=new_ids).update(inactive_since=timezone.now())
    Cohort.objects.filter(pk__in=outdated_ids).update(inactive_since=None)
    return sorted(Cohort.objects.filter(pk__in=wrong_ids).values_list("name", flat=True))


def _find_wrong_marks() -> tuple[set[int], set[int]]:
    """Ids of the cohorts that are inactive and not marked, and of those that are marked and active."""
    rows = list(Cohort.objects.order_by("name").values_list("pk", "name", "parent__name", "inactive_since"))
    shape = QuotaTree(QuotaNode(name, parent) for _, name, parent, _ in rows)
    wrong = [(pk, since) for pk, name, _, since in rows if shape.is_active(name) is (since is not None)]
    return {pk for pk, since in wrong if since is None}, {pk for pk, since in wrong if since is not None}
