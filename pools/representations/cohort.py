"""Cohorts as the configuration API shows them (design, A4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from django.db.models import QuerySet

from pools.domain.configuration.cohort_config import CohortConfigBody, editable_body
from pools.domain.quota.tree import QuotaNode, QuotaTree
from pools.models import Cohort, Pool
from pools.selectors.quotas.quota_tree import CycleCondition, cycle_condition


class CohortAnswer(CohortConfigBody):
    """A cohort: the keys of a PUT, and the keys that the ledger adds."""

    name: str
    explicit: Annotated[bool, "False for a cohort that is only named by others and has no configuration."]
    active: bool
    condition: CycleCondition | None
    inactive_since: datetime | None
    cohorts: list[str]
    pools: list[str]
    version: int
    warnings: list[str]


def cohort_body(row: Cohort, *, warnings: Iterable[str] = ()) -> CohortAnswer:
    """One cohort."""
    return {**cohort_bodies(Cohort.objects.filter(pk=row.pk))[0], "warnings": list(warnings)}


def cohort_bodies(rows: QuerySet[Cohort]) -> list[CohortAnswer]:
    """Cohorts in the order of the query; always four queries."""
    found = list(rows.select_related("parent"))
    ids = [row.pk for row in found]
    below, pools = defaultdict(list), defaultdict(list)
    for parent, name in Cohort.objects.filter(parent__in=ids).order_by("name").values_list("parent", "name"):
        below[parent].append(name)
    for cohort, name in Pool.objects.filter(cohort__in=ids).order_by("name").values_list("cohort", "name"):
        pools[cohort].append(name)
    shape = QuotaTree(QuotaNode(name, parent) for name, parent in Cohort.objects.values_list("name", "parent__name"))
    return [
        {
            "name": row.name,
            **editable_body(row.settings),
            "explicit": row.explicit,
            "active": not (cycle := shape.cycle_of(row.name)),
            "condition": cycle_condition(cycle),
            "inactive_since": row.inactive_since,
            "cohorts": below[row.pk],
            "pools": pools[row.pk],
            "version": row.version,
            "warnings": [],
        }
        for row in found
    ]
