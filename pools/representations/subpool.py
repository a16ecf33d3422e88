"""Subpools, and a pool with its subpools, as the API shows them (design, A2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, NotRequired, TypedDict

from pools.domain import names
from pools.domain.numbers import CAN_START_NOW, LOW_CAN_START_NOW, POOL_NUMBERS
from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.quota.usage_bar import UsageBarAnswer
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import Gpus, encode_gpus
from pools.models import Pool
from pools.selectors.quotas.pool_balance import read_balance


class SubpoolAnswer(TypedDict):
    """A subpool: a part of a pool with a quota of its own."""

    name: str
    parent_pool: str
    subpool_name: str | None
    subpool_state: Annotated[str, SubpoolState]
    quota: Annotated[int, "GPUs that the subpool has now; 0 unless it is ACTIVE."]
    last_quota: Annotated[int | None, "Its quota when it was ACTIVE."]
    quotas: NotRequired[Annotated[dict[str, int], "`quota` by flavor, where the pool has flavors."]]
    last_quotas: NotRequired[Annotated[dict[str, int], "`last_quota` by flavor."]]
    quotas_after: NotRequired[Annotated[dict[str, int], "`quota_after` by flavor."]]
    flavors: NotRequired[Annotated[list[FlavorNumbers], "Its numbers by flavor, in the order of the pool."]]
    quota_until: Annotated[datetime | None, "The end of a temporary quota (UTC with its zone)."]
    quota_after: Annotated[int | None, "The quota after that."]
    drain_by: Annotated[datetime | None, "The time at which its work should have ended (UTC with its zone)."]
    scheduling_quota: Annotated[int, "GPUs that the scheduler guarantees it: the quota, or what still drains."]
    used: Annotated[int, POOL_NUMBERS["used"].meaning]
    available: Annotated[int, POOL_NUMBERS["available"].meaning]
    total_usage: Annotated[int, POOL_NUMBERS["total_usage"].meaning]
    live_workflows: Annotated[int, POOL_NUMBERS["live_workflows"].meaning]
    queue: str
    k8s_queue: str
    warnings: list[str]
    version: int
    reactivated: bool
    cancelled_workflows: NotRequired[Annotated[int, "Workflows that `cancel_pending` of this deletion has cancelled."]]
    can_start_now: NotRequired[Annotated[int, CAN_START_NOW.meaning]]
    low_can_start_now: NotRequired[Annotated[int, LOW_CAN_START_NOW.meaning]]
    bar: NotRequired[UsageBarAnswer]


class FlavorNumbers(TypedDict):
    """The numbers of a pool, a subpool or the shared part in one flavor, in GPUs; -1 is unlimited."""

    flavor: str
    quota: int
    scheduling_quota: int
    used: Annotated[int, POOL_NUMBERS["used"].meaning]
    available: Annotated[int, POOL_NUMBERS["available"].meaning]
    total_usage: Annotated[int, POOL_NUMBERS["total_usage"].meaning]
    shared: NotRequired[Annotated[bool, "True where the flavor counts parts of shared GPUs."]]


class SharedAnswer(TypedDict):
    """The part of a pool that no subpool has."""

    queue: str
    k8s_queue: str
    quota: int
    flavors: NotRequired[list[FlavorNumbers]]
    scheduling_quota: int
    used: Annotated[int, POOL_NUMBERS["used"].meaning]
    total_usage: Annotated[int, POOL_NUMBERS["total_usage"].meaning]
    live_workflows: Annotated[int, POOL_NUMBERS["live_workflows"].meaning]
    available: Annotated[int, POOL_NUMBERS["available"].meaning]
    can_start_now: NotRequired[Annotated[int, CAN_START_NOW.meaning]]
    low_can_start_now: NotRequired[Annotated[int, LOW_CAN_START_NOW.meaning]]
    bar: NotRequired[UsageBarAnswer]


class PoolTreeAnswer(TypedDict):
    """A pool with its subpools, in GPUs; -1 is unlimited."""

    pool: str
    quota: int
    flavors: NotRequired[list[FlavorNumbers]]
    scheduling_quota: int
    unallocated: int
    shared: SharedAnswer
    container_queue: str
    version: int
    subpools: list[SubpoolAnswer]
    can_start_now: NotRequired[Annotated[int, CAN_START_NOW.meaning]]
    low_can_start_now: NotRequired[Annotated[int, LOW_CAN_START_NOW.meaning]]
    bar: NotRequired[UsageBarAnswer]


def subpool_body(
    row: Pool,
    part: Subpool,
    kinds: Mapping[str, PoolBalance] | None = None,
    *,
    warnings: Iterable[str] = (),
    reactivated: bool = False,
    cancelled: int | None = None,
) -> SubpoolAnswer:
    """One subpool as the API shows it (design, A2)."""
    body: SubpoolAnswer = {
        "name": row.name,
        "parent_pool": row.root.name,
        "subpool_name": row.subpool_name,
        "subpool_state": str(part.state),
        "quota": part.quota,
        "last_quota": part.last_quota,
        "quota_until": part.until and part.until.astimezone(UTC).replace(tzinfo=None),
        "quota_after": part.quota_after,
        "drain_by": row.drain_by and row.drain_by.astimezone(UTC).replace(tzinfo=None),
        "scheduling_quota": part.scheduling_quota,
        "used": part.usage.used,
        "available": part.available,
        "total_usage": part.usage.total_usage,
        "live_workflows": part.usage.live_workflows,
        "queue": row.queue,
        "k8s_queue": row.k8s_queue,
        "warnings": list(warnings),
        "version": row.version,
        "reactivated": reactivated,
    }
    if cancelled is not None:
        body["cancelled_workflows"] = cancelled
    if flavors := row.root.gpu_flavors or part.last_quotas:
        none = dict.fromkeys(flavors, 0)
        body["quotas"], body["last_quotas"] = none | part.quotas, none | dict(part.last_quotas)
        if part.quota_after is not None:
            body["quotas_after"] = none | dict(part.quotas_after)
    if kinds:
        parts = row.root.part_flavors
        own = {flavor: next(each for each in kind.subpools if each.name == part.name) for flavor, kind in kinds.items()}
        body["scheduling_quota"] = sum(each.scheduling_quota for each in own.values())
        body["flavors"] = [
            _flavor_body(flavor, each.quota, each.scheduling_quota, each.available, each.usage, parts)
            for flavor, each in own.items()
        ]
    return body


def _flavor_body(
    flavor: str, quota: Gpus, scheduling: Gpus, available: Gpus, usage: UsageCounts, parts: Collection[str]
) -> FlavorNumbers:
    body: FlavorNumbers = {
        "flavor": flavor,
        "quota": encode_gpus(quota),
        "scheduling_quota": encode_gpus(scheduling),
        "used": usage.used,
        "available": encode_gpus(available),
        "total_usage": usage.total_usage,
    }
    if flavor in parts:
        body["shared"] = True
    return body


def pool_tree_body(root: Pool, *, include_archived: bool = False) -> PoolTreeAnswer:
    """A pool with its shared leaf and its subpools as the API shows it (design, A2)."""
    facts = read_balance(root)
    parts = {part.name: part for part in facts.subpools}
    rows = Pool.objects.filter(parent=root).select_related("parent__backend", "usage").order_by("subpool_name")
    if not include_archived:
        rows = rows.not_archived()
    body: PoolTreeAnswer = {
        "pool": root.name,
        "quota": encode_gpus(facts.guarantee),
        "scheduling_quota": encode_gpus(facts.scheduling_quota),
        "unallocated": encode_gpus(facts.unallocated),
        "shared": {
            "queue": root.queue,
            "k8s_queue": root.k8s_queue,
            "quota": encode_gpus(facts.unallocated),
            "scheduling_quota": encode_gpus(facts.shared_scheduling_quota),
            "used": facts.shared_usage.used,
            "total_usage": facts.shared_usage.total_usage,
            "live_workflows": facts.shared_usage.live_workflows,
            "available": encode_gpus(facts.shared_available),
        },
        "container_queue": names.queue_name(root.namespace, root.name, None),
        "version": root.version,
        "subpools": [  # without one that was made after its numbers were read, where nothing holds a snapshot
            subpool_body(row, parts[row.subpool_name], facts.kinds)
            for row in rows
            if row.subpool_name and row.subpool_name in parts
        ],
    }
    if facts.kinds:
        of_parts = root.part_flavors
        body["flavors"] = [
            _flavor_body(
                flavor, kind.guarantee, kind.scheduling_quota, kind.guarantee - kind.used,
                UsageCounts(kind.used, kind.total_usage), of_parts,
            )
            for flavor, kind in facts.kinds.items()
        ]  # fmt: skip
        body["shared"]["flavors"] = [
            _flavor_body(
                flavor, kind.unallocated, kind.shared_scheduling_quota, kind.shared_available, kind.shared_usage,
                of_parts,
            )
            for flavor, kind in facts.kinds.items()
        ]  # fmt: skip
    return body
