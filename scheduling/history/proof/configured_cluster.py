"""A folder of configuration → the cluster of a replay, without a server: its queues, cohorts and nodes.

Where pools and nodes have flavors, quotas count by flavor. Nodes without any take all work; flavors are added up then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pools.domain.configuration.backend_config import POLICY_DEFAULTS, SIMULATED, VictimRule, parse_backend
from pools.domain.configuration.cohort_config import parse_cohort
from pools.domain.configuration.flavors import flavor_of_labels
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.configuration.pool_config import PoolSettings, parse_pool
from pools.domain.names import canonical_name
from pools.domain.quota.forest import PoolQuotaFacts, pool_node_quota
from pools.domain.quota.rules import QuotaRow
from pools.domain.quota.stored_quotas import flavor_quotas
from pools.domain.quota.tree import LIMIT_KEYS, NodeQuota
from pools.domain.structured_input.faults import quote
from pools.domain.values.amounts import (
    DEFAULT_FLAVOR,
    GPU,
    UNLIMITED,
    Amount,
    Gpus,
    Number,
    decode_gpus,
    flavor_of,
    gpu_key,
    is_gpu,
)  # fmt: skip
from pools.domain.values.counting import counted
from scheduling.configuration.bodies import SUBPOOLS
from scheduling.configuration.files import ConfigurationFiles
from scheduling.domain.engine.facts import (
    ClusterFacts,
    CohortFacts,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    WhenCanBorrow,
    WhenCanPreempt,
)  # fmt: skip

COHORT: Final = "cohort {}"
POOL: Final = "pool {}"


@dataclass(slots=True)
class ConfiguredCluster:
    """`facts`: the queues that may run work have the names of pools (`team`, for what no subpool has) and subpools
    (`team--a`). `flavors`: those that work of each of them may use, in order; empty where flavors are added up.
    `notes`: what the replay does not follow. `problem`: why there is no replay; empty if there is one. `namespace`: of
    the cluster, empty if the files do not say it."""

    facts: ClusterFacts = field(default_factory=ClusterFacts)
    flavors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    namespace: str = ""


def configured_cluster(
    files: ConfigurationFiles, nodes: Sequence[NodeFacts] | None, backend: str | None
) -> ConfiguredCluster:
    """The cluster of one backend. `nodes` replaces its nodes; `backend` None: the only one that pools have."""
    bodies = {key: each.body for key, each in files.objects.items()}
    pools = {name: parse_pool(_own(body))[0] for (kind, name), body in bodies.items() if kind is OwnedKind.POOL}
    used = sorted({pool.backend for pool in pools.values()})
    if not pools:
        return ConfiguredCluster(problem="The folder has no pools.")
    if backend is None and len(used) > 1:
        return ConfiguredCluster(problem=f"The pools are on several clusters: choose one with --backend {used[0]}.")
    name = used[0] if backend is None else backend
    chosen = {pool: settings for pool, settings in pools.items() if settings.backend == name}
    if not chosen:
        return ConfiguredCluster(problem="No pool is on the cluster of --backend.")
    found = ConfiguredCluster()
    body = bodies.get((OwnedKind.BACKEND, name))
    found.namespace = str((body or {}).get("namespace", ""))
    policy, own_nodes = _backend(name, body)
    nodes = own_nodes if nodes is None else nodes
    if not nodes:
        found.problem = f"The files name no nodes of the cluster {quote(name)}: give them with --nodes, as in 12x8."
    cohorts = {each: parse_cohort(body)[0] for (kind, each), body in bodies.items() if kind is OwnedKind.COHORT}
    has_flavors = any(settings.flavors for settings in chosen.values())
    there = _flavors_of(nodes) if has_flavors and _flavors_of(nodes) != {DEFAULT_FLAVOR} else frozenset[str]()
    queues: list[QueueFacts] = []
    for pool, settings in sorted(chosen.items()):
        made = _pool_queues(pool, settings, bodies[OwnedKind.POOL, pool].get(SUBPOOLS, {}), len(queues), there)
        queues += made
        own = tuple(row["flavor"] for row in settings.flavors) or (DEFAULT_FLAVOR,)
        found.flavors |= {queue.name: own for queue in made} if there else {}
    if len(chosen) < len(pools):
        elsewhere = len(pools) - len(chosen)
        are = "is on another cluster and takes" if elsewhere == 1 else "are on other clusters and take"
        found.notes.append(f"{counted(elsewhere, 'pool')} {are} no part.")
    of_cohorts = {row.flavor for cohort in cohorts.values() for row in cohort.quotas}
    if not there and (has_flavors or of_cohorts - {DEFAULT_FLAVOR}):
        found.notes.append(
            "Quotas of several flavors are added up, because pools or nodes have none: a job may use every kind of "
            "GPU. Nodes have flavors as in --nodes h100=12x8,a100=4x4."
        )
    named = {settings.cohort for settings in pools.values() if settings.cohort} - cohorts.keys()
    found.facts = ClusterFacts(
        queues=tuple(queues),
        cohorts=tuple(
            CohortFacts(
                COHORT.format(each),
                None if cohort.parent is None else COHORT.format(cohort.parent),
                *_cohort_amounts(_gpu_rows(cohort.quotas), by_flavor=bool(there)),
                weight=cohort.weight,
            )
            for each, cohort in sorted(cohorts.items())
        )
        + tuple(CohortFacts(COHORT.format(each)) for each in sorted(named)),
        nodes=tuple(nodes),
        policy=policy,
    )
    return found


def _flavors_of(nodes: Iterable[NodeFacts]) -> frozenset[str]:
    return frozenset(flavor_of(key) for node in nodes for key in node.resources if is_gpu(key))


def _own(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if not key.startswith(SUBPOOLS)}


def _gpu_rows(rows: Sequence[QuotaRow]) -> list[QuotaRow]:
    return [row for row in rows if row.resource == "gpu"]


def _cohort_amounts(
    rows: Sequence[QuotaRow], *, by_flavor: bool
) -> tuple[dict[str, Amount], dict[str, Amount], dict[str, Amount]]:
    """What the cohort owns, may borrow and may lend; of flavors that are added up the sum, if each has a limit."""
    if not by_flavor:
        limits = (_sum_of_limits([getattr(row, key) for row in rows]) for key in LIMIT_KEYS)
        borrowing, lending = limits
        return {GPU: sum(row.nominal for row in rows)}, borrowing, lending
    borrowing, lending = (
        {gpu_key(row.flavor): limit for row in rows if (limit := getattr(row, key)) is not None} for key in LIMIT_KEYS
    )
    return {gpu_key(row.flavor): row.nominal for row in rows}, borrowing, lending


def _sum_of_limits(limits: Sequence[Number | None]) -> dict[str, Amount]:
    known = [limit for limit in limits if limit is not None]
    return {GPU: sum(known)} if limits and len(known) == len(limits) else {}


def _backend(name: str, body: Mapping[str, Any] | None) -> tuple[PolicyFacts, Sequence[NodeFacts]]:
    """Its policy and its nodes; a cluster that is not simulated has the policy of a new simulated one."""
    spec = None if body is None else parse_backend(name, body)[0]
    given = {**POLICY_DEFAULTS, **(spec.policy if spec is not None and spec.kind == SIMULATED else {})}
    policy = PolicyFacts(
        reserve_after=given["reserve_after"],  # type: ignore[arg-type]
        ageing=given["ageing"],  # type: ignore[arg-type]
        victims=VictimRule(str(given["victims"])),
    )
    nodes = () if spec is None else spec.nodes or ()
    flavors = (spec.flavors if spec is not None else None) or ()
    return policy, [
        NodeFacts(node.name, {gpu_key(flavor_of_labels(node.labels, flavors)[0]): node.gpus})
        for node in nodes
        if node.gpus
    ]


@dataclass(frozen=True, slots=True)
class _PoolAmounts:
    """The amounts of a pool in one flavor."""

    quota: Gpus
    maximum: Gpus
    limits: NodeQuota


def _amounts(settings: PoolSettings, *, by_flavor: bool) -> dict[str, _PoolAmounts]:
    """The amounts of a pool by the keys of its flavors, or the sums under the key of `default`."""
    if by_flavor and settings.flavors:
        return {
            gpu_key(each.flavor): _PoolAmounts(each.quota, each.maximum, each.limits)
            for each in flavor_quotas(settings.flavors)
        }
    limits = NodeQuota(0, *(_limit_of(settings, key) for key in LIMIT_KEYS))
    return {GPU: _PoolAmounts(settings.effective_guarantee, decode_gpus(settings.maximum), limits)}


def _limit_of(settings: PoolSettings, key: str) -> Gpus:
    """A limit inside the cohort; of several flavors their sum."""
    if not settings.flavors:
        return decode_gpus(getattr(settings, key))
    return sum((decode_gpus(row.get(key)) for row in settings.flavors), start=0)


def _finite(limits: Mapping[str, Amount]) -> dict[str, Amount]:
    return {key: limit for key, limit in limits.items() if limit != UNLIMITED}


def _pool_queues(
    name: str,
    settings: PoolSettings,
    subpools: Mapping[str, int | Mapping[str, int]],
    place: int,
    there: Collection[str],
) -> list[QueueFacts]:
    """The queue of a pool; with subpools one above, and one for what no subpool has. `there`: the flavors of the nodes,
    of which the pool may use its own alone; empty where they are added up."""
    amounts = _amounts(settings, by_flavor=bool(there))
    limits: dict[str, Amount] = {gpu_key(flavor): 0 for flavor in there}
    limits |= {key: each.maximum for key, each in amounts.items()}
    in_cohort = {
        key: pool_node_quota(PoolQuotaFacts(name, None, each.quota, each.maximum, each.limits))
        for key, each in amounts.items()
    }
    borrowing, lending = (
        _finite({key: getattr(node, limit) for key, node in in_cohort.items()}) if settings.cohort else {}
        for limit in LIMIT_KEYS
    )
    pool = QueueFacts(
        name,
        None if settings.cohort is None else COHORT.format(settings.cohort),
        {key: each.quota for key, each in amounts.items()},
        _finite(limits),
        borrowing,
        lending,
        weight=1 if settings.weight is None else settings.weight,
        created=place,
        when_can_borrow=settings.config.get("when_can_borrow", WhenCanBorrow.BORROW),
        when_can_preempt=settings.config.get("when_can_preempt", WhenCanPreempt.NEXT),
    )
    if not subpools:
        return [pool]
    above = POOL.format(name)
    quotas = {short: _subpool_quotas(quota, list(amounts)) for short, quota in sorted(subpools.items())}
    rest = {key: max(0, each.quota - sum(row[key] for row in quotas.values())) for key, each in amounts.items()}
    return [
        replace(pool, name=above),
        QueueFacts(name, above, rest, created=place + 1),
        *(
            QueueFacts(canonical_name(name, short), above, quota, created=place + 2 + at)
            for at, (short, quota) in enumerate(quotas.items())
        ),
    ]


def _subpool_quotas(quota: int | Mapping[str, int], keys: Sequence[str]) -> dict[str, Amount]:
    """The quotas of a subpool by the keys of its pool. A number alone is of the only flavor."""
    if isinstance(quota, Mapping) and keys != [GPU]:
        return {key: quota.get(flavor_of(key), 0) for key in keys}
    whole: Amount = sum(quota.values()) if isinstance(quota, Mapping) else quota
    return {keys[0]: whole, **dict.fromkeys(keys[1:], 0)}
