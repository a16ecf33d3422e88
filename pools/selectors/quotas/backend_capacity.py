"""The quotas of the pools of each backend against the GPUs of its nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import BigIntegerField, IntegerField, JSONField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Cast, Coalesce, JSONObject

from pools.domain.configuration.platforms import platforms_of
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import DRAIN_TAINT, BackendCapacity, oversubscription_message, oversubscription_notice
from pools.domain.shortage.degraded import DegradedRule, Promise
from pools.models import Backend, LeafUsage, Node, Pool


def read_capacities(backend_ids: Collection[Any] | QuerySet[Any] | None = None) -> dict[int, BackendCapacity]:
    """The capacity of these backends, or of all, by id; one query. Archived pools, unlimited quotas and nodes whose
    taint keeps our pods away do not count."""
    rows = Backend.objects.all() if backend_ids is None else Backend.objects.filter(pk__in=backend_ids)
    quotas = (
        Pool.objects.roots()
        .filter(backend=OuterRef("pk"), archived=False, guarantee__gt=0)
        .order_by()
        .values("backend")
        .annotate(total=Cast(Sum("guarantee"), BigIntegerField()))
        .values("total")
    )
    gpus = Node.objects.filter(backend=OuterRef("pk")).order_by().values("backend")
    ours = Q(taint="") | Q(taint=DRAIN_TAINT)
    whole, tainted, drained = (
        gpus.annotate(total=Cast(Coalesce(Sum("gpus", filter=condition), 0), BigIntegerField())).values("total")
        for condition in (ours, ~ours, Q(taint=DRAIN_TAINT))
    )
    parts = (
        gpus.filter(gpus=0, advertised_gpus__gt=0)
        .annotate(total=Cast(Sum("advertised_gpus"), BigIntegerField()))
        .values("total")
    )
    promises = (
        Pool.objects.roots()
        .filter(backend=OuterRef("pk"), archived=False, guarantee__gt=0)
        .order_by()
        .values("backend")
        .annotate(
            all=JSONBAgg(
                JSONObject(pool="name", quota="guarantee", weight="weight", platforms="config__platforms"),
                order_by="name",
            )
        )
        .values("all")
    )
    found = rows.order_by("name").values_list(
        "pk",
        "name",
        Subquery(quotas, output_field=IntegerField()),
        Subquery(whole, output_field=IntegerField()),
        Subquery(tainted, output_field=IntegerField()),
        Subquery(drained, output_field=IntegerField()),
        Subquery(parts, output_field=IntegerField()),
        "degraded",
        "offline",
        Subquery(promises, output_field=JSONField()),
    )
    return {
        pk: BackendCapacity(
            name,
            quota or 0,
            total,
            apart or 0,
            DegradedRule(rule),
            () if offline else tuple(map(_promise, pools or ())),
            closed or 0,
            parts or 0,
        )
        for pk, name, quota, total, apart, closed, parts, rule, offline, pools in found
    }


def _promise(row: Mapping[str, Any]) -> Promise:
    weight = row["weight"]
    platforms = frozenset(platforms_of({"platforms": row["platforms"]}))
    return Promise(row["pool"], row["quota"], 1 if weight is None else float(weight), platforms)


def read_used_gpus() -> dict[int, int]:
    """The GPUs of all running work on each backend by its id; one query."""
    rows = LeafUsage.objects.values(backend=Coalesce("pool__backend", "pool__parent__backend")).order_by()
    return dict(rows.annotate(total=Sum("total_usage")).values_list("backend", "total"))


def oversubscription_warning(actor: Actor, capacity: BackendCapacity) -> str:
    """The warning about an oversubscribed backend; with numbers for platform readers, who see all its pools."""
    return oversubscription_message(capacity) if actor.can_read_all else oversubscription_notice(capacity)


def oversubscription_warnings(actor: Actor, capacities: Iterable[BackendCapacity]) -> list[str]:
    """The warning for each oversubscribed backend."""
    return [oversubscription_warning(actor, each) for each in capacities if each.is_oversubscribed]
