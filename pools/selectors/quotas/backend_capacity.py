"""The quotas of the pools of each backend against the GPUs of its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, JSONField, Q, QuerySet, Sum
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from pools.domain.configuration.flavors import parts_among
from pools.domain.configuration.platforms import platforms_of
from pools.domain.names import split_name
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import (
    DRAIN_TAINT,
    BackendCapacity,
    FlavorCapacity,
    oversubscription_message,
    oversubscription_notice,
)
from pools.domain.quota.debts import Debt, debt_message
from pools.domain.quota.forest import display_name, is_pool_key
from pools.domain.shortage.degraded import DegradedRule, Promise
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import Backend, FlavorUsage, LeafUsage, Node, Pool

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
    for pk, name, promised_gpus, gpus, rule, offline, promised, flavors in read:
        quota, (whole, tainted, drained, parts) = promised_gpus, gpus or (None, 0, 0, 0)
        promises = [each for pool in promised or () for each in _promises(pool)]
        if shared := parts_among(flavors):
            quota = sum(each.quota for each in promises if each.flavor not in shared)
            of_whole = [gpus for flavor, gpus in nodes.get(pk, {}).items() if flavor not in shared]
            if whole is not None:
                whole, tainted, drained = (sum(column) for column in zip((0, 0, 0), *of_whole, strict=True))
        found[pk] = BackendCapacity(
            name,
            quota or 0,
            whole,
            tainted,
            DegradedRule(rule),
            () if offline else tuple(promises),
            drained,
            parts or 0,
            _by_flavor([each["name"] for each in flavors], shared, promises, nodes.get(pk, {})) if flavors else {},
        )
    return found


def _promises(row: Mapping[str, Any]) -> Iterator[Promise]:
    """The quotas of a pool: of each flavor that it names, else its whole one."""
    weight = 1 if row["weight"] is None else float(row["weight"])
    platforms = frozenset(platforms_of({"platforms": row["platforms"]}))
    for each in row["flavors"] or [{"flavor": DEFAULT_FLAVOR, "quota": row["quota"]}]:
        if each["quota"]:
            yield Promise(row["pool"], each["quota"], weight, platforms, each["flavor"])


def _node_gpus(backends: Collection[int]) -> dict[int, dict[str, tuple[int, int, int]]]:
    """The GPUs of the nodes of these backends by flavor: those that count, those of tainted nodes, and those of drained
    ones."""
    found: dict[int, dict[str, tuple[int, int, int]]] = defaultdict(dict)
    if backends:
        rows = Node.objects.filter(backend__in=backends).order_by().values_list("backend", "flavor")
        kinds = {"open": _OURS, "tainted": ~_OURS, "drained": Q(taint=DRAIN_TAINT)}
        for pk, flavor, *gpus in rows.annotate(
            **{name: Coalesce(Sum("gpus", filter=kind), 0) for name, kind in kinds.items()}
        ):
            found[pk][flavor] = (gpus[0], gpus[1], gpus[2])
    return found


def _by_flavor(
    names: Sequence[str],
    shared: Collection[str],
    pools: Iterable[Promise],
    nodes: Mapping[str, tuple[int, int, int]],
) -> dict[str, FlavorCapacity]:
    """Quota and GPUs of the flavors of a backend in its order; `default` last, where it has some."""
    quotas: dict[str, int] = defaultdict(int)
    for each in pools:
        quotas[each.flavor] += each.quota
    found = {
        name: FlavorCapacity(quotas[name], nodes.get(name, (0, 0, 0))[0], name in shared)
        for name in dict.fromkeys([*names, *quotas, *nodes])
    }
    return {name: each for name, each in found.items() if name != DEFAULT_FLAVOR or each.quota or each.gpus}


def read_used_gpus(part_flavors: Mapping[int, frozenset[str]]) -> dict[int, int]:
    """The GPUs of all running work on each backend by its id, without the flavors that count parts of
    GPUs; one query, and one for each backend with such flavors."""
    backend = Coalesce("pool__backend", "pool__parent__backend")
    rows = LeafUsage.objects.values(backend=backend).order_by()
    used = dict(rows.annotate(total=Sum("total_usage")).values_list("backend", "total"))
    for pk, flavors in part_flavors.items():
        parts = FlavorUsage.objects.annotate(backend=backend).filter(backend=pk, flavor__in=flavors)
        used[pk] = used.get(pk, 0) - (parts.aggregate(total=Sum("total_usage"))["total"] or 0)
    return used


def parts_of(capacities: Mapping[int, BackendCapacity]) -> dict[int, frozenset[str]]:
    """The same as :func:`read_part_flavors` from what was read. No query."""
    return {pk: each.part_flavors for pk, each in capacities.items() if each.part_flavors}


def read_part_flavors() -> dict[int, frozenset[str]]:
    """The flavors of each backend, by its id, that count parts of GPUs, where there are any; one query."""
    rows = Backend.objects.exclude(flavors=[]).order_by("pk").values_list("pk", "flavors")
    return {pk: shared for pk, flavors in rows if (shared := parts_among(flavors))}


def read_part_names() -> frozenset[str]:
    """The flavors that count parts of GPUs on some backend; one query."""
    return frozenset().union(*read_part_flavors().values())


def debt_messages(debts: Sequence[Debt]) -> list[str]:
    """The message about each debt. One query if there is one, two if it may be one of parts of shared GPUs."""
    anywhere = read_part_names() if debts else frozenset()
    pools = {each.node: split_name(display_name(each.node)).parent for each in debts if is_pool_key(each.node)}
    rows = Pool.objects.roots().filter(name__in=pools.values()).select_related("backend") if anywhere else ()
    parts = {row.name: row.part_flavors for row in rows}
    return [debt_message(debt, parts.get(pools.get(debt.node, ""), anywhere)) for debt in debts]


def unzip_flavors(found: Mapping[int, Collection[str]]) -> tuple[list[int], list[str]]:
    """Flavors of backends as two arrays, for a statement."""
    pairs = [(pk, flavor) for pk, flavors in found.items() for flavor in sorted(flavors)]
    return [pk for pk, _ in pairs], [flavor for _, flavor in pairs]


def oversubscription_warning(actor: Actor, capacity: BackendCapacity) -> str:
    """The warning about an oversubscribed backend; with numbers for platform readers, who see all its pools."""
    return oversubscription_message(capacity) if actor.can_read_all else oversubscription_notice(capacity)
