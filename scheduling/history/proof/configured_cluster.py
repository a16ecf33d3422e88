"""A folder of configuration → the cluster of a replay, without a server: its queues, cohorts and nodes.

All kinds of GPU of a pool are added up, because a history seldom says which kind a job could use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pools.domain.configuration.backend_config import POLICY_DEFAULTS, SIMULATED, VictimRule, parse_backend
from pools.domain.configuration.cohort_config import parse_cohort
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.configuration.pool_config import PoolSettings, parse_pool
from pools.domain.names import canonical_name
from pools.domain.quota.forest import PoolQuotaFacts, pool_node_quota
from pools.domain.quota.rules import QuotaRow
from pools.domain.quota.tree import LIMIT_KEYS, NodeQuota
from pools.domain.structured_input.faults import quote
from pools.domain.values.amounts import DEFAULT_FLAVOR, GPU, UNLIMITED, Amount, Gpus, Number, decode_gpus
from scheduling.configuration.bodies import SUBPOOLS
from scheduling.configuration.files import ConfigurationFiles
from scheduling.domain.engine.facts import ClusterFacts, CohortFacts, NodeFacts, PolicyFacts, QueueFacts

COHORT: Final = "cohort {}"
POOL: Final = "pool {}"


@dataclass(slots=True)
class ConfiguredCluster:
    """`facts`: the queues that may run work have the names of pools (`team`, for what no subpool has) and subpools
    (`team--a`). `notes`: what the replay does not follow. `problem`: why there is no replay; empty if there is one."""

    facts: ClusterFacts = field(default_factory=ClusterFacts)
    notes: list[str] = field(default_factory=list)
    problem: str = ""


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
    policy, own_nodes = _backend(name, body)
    nodes = own_nodes if nodes is None else nodes
    if not nodes:
        found.problem = f"The files name no nodes of the cluster {quote(name)}: give them with --nodes, as in 12x8."
    cohorts = {each: parse_cohort(body)[0] for (kind, each), body in bodies.items() if kind is OwnedKind.COHORT}
    queues: list[QueueFacts] = []
    for pool, settings in sorted(chosen.items()):
        queues += _pool_queues(pool, settings, bodies[OwnedKind.POOL, pool].get(SUBPOOLS, {}), len(queues))
    if len(chosen) < len(pools):
        found.notes.append(f"{len(pools) - len(chosen)} pools are on other clusters and take no part.")
    flavors = [row.flavor for cohort in cohorts.values() for row in cohort.quotas if row.flavor != DEFAULT_FLAVOR]
    if flavors or any(settings.flavors for settings in chosen.values()):
        found.notes.append("Quotas of several kinds of GPU are added up: a job may use every kind.")
    named = {settings.cohort for settings in pools.values() if settings.cohort} - cohorts.keys()
    found.facts = ClusterFacts(
        queues=tuple(queues),
        cohorts=tuple(
            CohortFacts(
                COHORT.format(each),
                None if cohort.parent is None else COHORT.format(cohort.parent),
                {GPU: sum(row.nominal for row in _gpu_rows(cohort.quotas))},
                *_cohort_limits(_gpu_rows(cohort.quotas)),
                weight=cohort.weight,
            )
            for each, cohort in sorted(cohorts.items())
        )
        + tuple(CohortFacts(COHORT.format(each)) for each in sorted(named)),
        nodes=tuple(nodes),
        policy=policy,
    )
    return found


def _own(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if not key.startswith(SUBPOOLS)}


def _gpu_rows(rows: Sequence[QuotaRow]) -> list[QuotaRow]:
    return [row for row in rows if row.resource == "gpu"]


def _cohort_limits(rows: Sequence[QuotaRow]) -> tuple[dict[str, Amount], dict[str, Amount]]:
    """What the cohort may borrow and lend; of several flavors the sum, if each has a limit."""
    borrowing, lending = (_sum_of_limits([getattr(row, key) for row in rows]) for key in LIMIT_KEYS)
    return borrowing, lending


def _pool_limits(quota: NodeQuota) -> tuple[dict[str, Amount], dict[str, Amount]]:
    """What the pool may borrow and lend."""
    borrowing, lending = (_finite(getattr(quota, key)) for key in LIMIT_KEYS)
    return borrowing, lending


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
    return policy, [NodeFacts(node.name, {GPU: node.gpus}) for node in nodes if node.gpus]


def _limit_of(settings: PoolSettings, key: str) -> Gpus:
    """A limit inside the cohort; of several flavors their sum."""
    if not settings.flavors:
        return decode_gpus(getattr(settings, key))
    return sum((decode_gpus(row.get(key)) for row in settings.flavors), start=0)


def _total(quota: int | Mapping[str, int]) -> int:
    return sum(quota.values()) if isinstance(quota, Mapping) else quota


def _finite(limit: Amount) -> dict[str, Amount]:
    return {} if limit == UNLIMITED else {GPU: limit}


def _pool_queues(
    name: str, settings: PoolSettings, subpools: Mapping[str, int | Mapping[str, int]], place: int
) -> list[QueueFacts]:
    """The queue of a pool; with subpools one above, and one for what no subpool has."""
    guarantee = settings.effective_guarantee
    limit = decode_gpus(settings.maximum)
    own = NodeQuota(0, *(_limit_of(settings, key) for key in LIMIT_KEYS))
    in_cohort = pool_node_quota(PoolQuotaFacts(name, None, guarantee, limit, own))
    pool = QueueFacts(
        name,
        None if settings.cohort is None else COHORT.format(settings.cohort),
        {GPU: guarantee},
        _finite(limit),
        *(_pool_limits(in_cohort) if settings.cohort else ({}, {})),
        weight=1 if settings.weight is None else settings.weight,
        created=place,
    )
    if not subpools:
        return [pool]
    above = POOL.format(name)
    quotas = {short: _total(quota) for short, quota in sorted(subpools.items())}
    rest = max(0, guarantee - sum(quotas.values()))
    return [
        replace(pool, name=above),
        QueueFacts(name, above, {GPU: rest}, created=place + 1),
        *(
            QueueFacts(canonical_name(name, short), above, {GPU: quota}, created=place + 2 + at)
            for at, (short, quota) in enumerate(quotas.items())
        ),
    ]
