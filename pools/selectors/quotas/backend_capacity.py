"""The quotas of the pools of each backend against the GPUs of its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, JSONField, Q, QuerySet, Sum
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

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
from pools.models import Backend, LeafUsage, Node

_OURS = Q(taint="") | Q(taint=DRAIN_TAINT)
# As text, because each change of a pool reads them twice, and Django takes longer to build such a statement than
# PostgreSQL to answer it.
_COUNTED = "backend_id = pools_backend.id AND parent_id IS NULL AND NOT archived AND guarantee > 0"
_QUOTAS = RawSQL(f"SELECT sum(guarantee) FROM pools_pool WHERE {_COUNTED}", ())
_NODES = RawSQL(
    """SELECT ARRAY[
      coalesce(sum(gpus) FILTER (WHERE taint IN ('', %s)), 0),
      coalesce(sum(gpus) FILTER (WHERE taint NOT IN ('', %s)), 0),
      coalesce(sum(gpus) FILTER (WHERE taint = %s), 0), sum(advertised_gpus) FILTER (WHERE gpus = 0)]
    FROM pools_node WHERE backend_id = pools_backend.id HAVING count(*) > 0""",
    (DRAIN_TAINT, DRAIN_TAINT, DRAIN_TAINT),
    ArrayField(BigIntegerField()),
)
_PROMISES = RawSQL(
    f"""SELECT jsonb_agg(jsonb_build_object('pool', name, 'quota', guarantee, 'weight', weight,
      'platforms', config -> 'platforms', 'flavors', flavors) ORDER BY name) FROM pools_pool WHERE {_COUNTED}""",
    (),
    JSONField(),
)


def read_capacities(backend_ids: Collection[Any] | QuerySet[Any] | None = None) -> dict[int, BackendCapacity]:
    """The capacity of these backends, or of all, by id; one query, two where a backend names flavors. Archived pools,
    unlimited quotas and nodes whose taint keeps our pods away do not count."""
    rows = Backend.objects.all() if backend_ids is None else Backend.objects.filter(pk__in=backend_ids)
    read = rows.order_by("name").values_list(
        "pk", "name", _QUOTAS, _NODES, "degraded", "offline", _PROMISES, "flavors",
    )  # fmt: skip
    nodes = _node_gpus([row[0] for row in read if row[-1]])
    found = {}
    for pk, name, quota, gpus, rule, offline, promised, flavors in read:
        whole, tainted, drained, parts = gpus or (None, 0, 0, 0)
        promises = [each for pool in promised or () for each in _promises(pool)]
        found[pk] = BackendCapacity(
            name,
            quota or 0,
            whole,
            tainted,
            DegradedRule(rule),
            () if offline else tuple(promises),
            drained,
            parts or 0,
            _by_flavor([each["name"] for each in flavors], promises, nodes.get(pk, {})) if flavors else {},
        )
    return found


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
