"""The quotas of the pools of each backend against the GPUs of its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import BigIntegerField, IntegerField, JSONField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Cast, Coalesce, JSONObject

from pools.domain.configuration.platforms import platforms_of
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import (
    DRAIN_TAINT,
    BackendCapacity,
    FlavorCapacity,
    oversubscription_message,
    oversubscription_notice,
)
from pools.domain.shortage.degraded import DegradedRule, Promise
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import Backend, LeafUsage, Node, Pool

_OURS = Q(taint="") | Q(taint=DRAIN_TAINT)


def read_capacities(backend_ids: Collection[Any] | QuerySet[Any] | None = None) -> dict[int, BackendCapacity]:
    """The capacity of these backends, or of all, by id; one query, two where a backend names flavors. Archived pools,
    unlimited quotas and nodes whose taint keeps our pods away do not count."""
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
    whole, tainted, drained = (
        gpus.annotate(total=Cast(Coalesce(Sum("gpus", filter=condition), 0), BigIntegerField())).values("total")
        for condition in (_OURS, ~_OURS, Q(taint=DRAIN_TAINT))
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
                JSONObject(
                    pool="name", quota="guarantee", weight="weight", platforms="config__platforms", flavors="flavors"
                ),
                order_by="name",
            )
        )
        .values("all")
    )
    read = rows.order_by("name").values_list(
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
        "flavors",
    )
    found = [(*row[:-2], [each for pool in row[-2] or () for each in _promises(pool)], row[-1]) for row in read]
    nodes = _node_gpus([pk for pk, *_, flavors in found if flavors])
    return {
        pk: BackendCapacity(
            name,
            quota or 0,
            total,
            apart or 0,
            DegradedRule(rule),
            () if offline else tuple(pools),
            closed or 0,
            parts or 0,
            _by_flavor([each["name"] for each in flavors], pools, nodes.get(pk, {})) if flavors else {},
        )
        for pk, name, quota, total, apart, closed, parts, rule, offline, pools, flavors in found
    }


def _promises(row: Mapping[str, Any]) -> Iterator[Promise]:
    """The quotas of a pool: of each flavor that it names, else its whole one."""
    weight = 1 if row["weight"] is None else float(row["weight"])
    platforms = frozenset(platforms_of({"platforms": row["platforms"]}))
    for each in row["flavors"] or [{"flavor": DEFAULT_FLAVOR, "quota": row["quota"]}]:
        if each["quota"]:
            yield Promise(row["pool"], each["quota"], weight, platforms, each["flavor"])


def _node_gpus(backends: Collection[int]) -> dict[int, dict[str, int]]:
    """The GPUs of the nodes of these backends by flavor."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    if backends:
        rows = Node.objects.filter(_OURS, backend__in=backends).order_by().values_list("backend", "flavor")
        for pk, flavor, gpus in rows.annotate(Sum("gpus")):
            found[pk][flavor] = gpus
    return found


def _by_flavor(names: Sequence[str], pools: Iterable[Promise], nodes: Mapping[str, int]) -> dict[str, FlavorCapacity]:
    """Quota and GPUs of the flavors of a backend in its order; `default` last, where it has some."""
    quotas: dict[str, int] = defaultdict(int)
    for each in pools:
        quotas[each.flavor] += each.quota
    found = {
        name: FlavorCapacity(quotas[name], nodes.get(name, 0)) for name in dict.fromkeys([*names, *quotas, *nodes])
    }
    return {name: each for name, each in found.items() if name != DEFAULT_FLAVOR or each.quota or each.gpus}


def read_used_gpus() -> dict[int, int]:
    """The GPUs of all running work on each backend by its id; one query."""
    rows = LeafUsage.objects.values(backend=Coalesce("pool__backend", "pool__parent__backend")).order_by()
    return dict(rows.annotate(total=Sum("total_usage")).values_list("backend", "total"))


def oversubscription_warning(actor: Actor, capacity: BackendCapacity) -> str:
    """The warning about an oversubscribed backend; with numbers for platform readers, who see all its pools."""
    return oversubscription_message(capacity) if actor.can_read_all else oversubscription_notice(capacity)
