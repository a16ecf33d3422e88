"""Cohorts that are there because somebody names them, and who must hear when one changes."""

from __future__ import annotations

from collections.abc import Collection

from pools.models import Cohort, Pool
from pools.selectors.quota_facts import cohort_roots, pool_ids_below
from pools.signals import backend_changed


def get_or_create_cohorts(names: Collection[str]) -> dict[str, Cohort]:
    """These cohorts by name; one that does not exist begins to, without any quota, because it is named."""
    found = {row.name: row for row in Cohort.objects.filter(name__in=names)}
    for name in sorted(set(names) - set(found)):
        found[name] = Cohort.objects.create(name=name, explicit=False)
    return found


def delete_unused_implicit_cohorts() -> None:
    """Let go of cohorts that were only named and that nobody names any more."""
    Cohort.objects.filter(explicit=False, pools__isnull=True, children__isnull=True).delete()


def cohorts_changed(cohort_ids: Collection[int | None]) -> None:
    """Say on commit that something moved on every backend under the trees of these cohorts: what one pool may borrow
    depends on all the others."""
    named = [pk for pk in cohort_ids if pk is not None]
    if not named:
        return
    tops = set(cohort_roots(named).values())
    for backend_id in set(Pool.objects.filter(pk__in=pool_ids_below(tops)).values_list("backend_id", flat=True)):
        backend_changed(backend_id)
