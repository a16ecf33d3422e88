"""Cohorts that exist only because a pool or another cohort names them."""

from __future__ import annotations

from collections.abc import Collection

from pools.models import Cohort


def get_or_create_cohorts(names: Collection[str]) -> dict[str, Cohort]:
    """These cohorts by name; a cohort that does not exist is created without any quota."""
    found = {row.name: row for row in Cohort.objects.filter(name__in=names)}
    for name in sorted(set(names) - set(found)):
        found[name] = Cohort.objects.create(name=name, explicit=False)
    return found


def delete_unused_implicit_cohorts() -> None:
    """Delete implicit cohorts that neither a pool nor a cohort names."""
    Cohort.objects.filter(explicit=False, pools__isnull=True, children__isnull=True).delete()
