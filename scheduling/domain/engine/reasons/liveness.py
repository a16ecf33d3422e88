"""Liveness: the states after a settled cycle in which work waits although nothing may stop it.

Three rules hold after every cycle that settled (docs/waiting.md, "Nobody waits forever"), whatever reservations, limits
and cohorts there are:

* a cluster on which nothing runs has started something, if one of its waiting gangs fits there;
* HIGH and NORMAL work inside its quota does not wait behind LOW work of its own queue: where the places of that LOW
  work are enough for the first such gang of the queue, it has taken them. Pods of LOW work that came to places which
  were reserved for another queue are left out: these are not places of their own queue.

Neither rule uses what the policy holds back, so that they find its faults too. A state that breaks one of them is a
defect of the product, and is reported as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from scheduling.domain.engine.rules.gates import is_within_quota, may_start
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request
from scheduling.domain.engine.state.placement import could_place, place_requests
from scheduling.domain.engine.state.records import RUNNING, GangState, QueueState, sum_requests

if TYPE_CHECKING:
    from pools.domain.values.amounts import Number
    from scheduling.domain.engine.facts import StartReservationFacts
    from scheduling.domain.engine.rules.world import World


class StuckKind(StrEnum):
    """The rule that is broken."""

    IDLE_CLUSTER = "idle_cluster"
    BEHIND_LOW_WORK = "behind_low_work"
    BEHIND_LATER_WORK = "behind_later_work"


@dataclass(frozen=True, slots=True)
class StuckGang:
    """A gang that waits although nothing may stop it; the names are those of the facts, `queue` is its leaf."""

    gang: str
    queue: str
    kind: StuckKind


def find_stuck(world: World) -> tuple[StuckGang, ...]:
    """The gangs that break a rule in a settled state, at most one of each leaf and rule; empty if there are none.

    It costs a look at each leaf, a placement for each leaf where non-preemptible work waits while preemptible work
    runs, and a look at the nodes of each reservation."""
    leaves = [leaf for leaf in world.queues if leaf.is_open and leaf.waiting]
    if leaves and _is_idle(world):
        return tuple(_on_idle_cluster(world, leaves))
    return (*_behind_low_work(world, leaves), *_behind_later_work(world))


def _is_idle(world: World) -> bool:
    """Whether nothing of this cluster runs or is about to end."""
    nodes = world.nodes
    if nodes is not None and nodes.is_used:
        return False
    return not any(
        (any(gang.active) or any(gang.released)) and not (gang.queue and gang.queue.path[-1].fact.is_external)
        for gang in world.gangs
    )


def _on_idle_cluster(world: World, leaves: Sequence[QueueState]) -> Iterator[StuckGang]:
    for leaf in leaves:
        for gang in sorted((group.first for group in leaf.waiting.values()), key=lambda each: each.order_key):
            allowed = may_start(world, leaf, gang.next_request, preemptible=gang.preemptible)
            if allowed and gang.is_complete and _fits(world.nodes, gang):
                yield StuckGang(gang.fact.name, leaf.fact.name, StuckKind.IDLE_CLUSTER)
                break


def _behind_low_work(world: World, leaves: Sequence[QueueState]) -> Iterator[StuckGang]:
    for leaf in leaves:
        if not leaf.running:
            continue
        firsts = (group.first for group in leaf.waiting.values() if not group.first.preemptible)
        waiting = sorted((gang for gang in firsts if not gang.is_running), key=lambda each: each.order_key)
        could_start = world.feasibility.could_start_alone
        first = next((gang for gang in waiting if could_start(gang, leaf)), None)
        choices = () if first is None else first.choices or (first,)
        if any(could_start(each, leaf) and _could_replace(world, leaf, each) for each in choices):
            yield StuckGang(choices[0].fact.name, leaf.fact.name, StuckKind.BEHIND_LOW_WORK)


def _behind_later_work(world: World) -> Iterator[StuckGang]:
    policy, nodes = world.policy, world.nodes
    older: dict[tuple[str, str], Number] = {}
    held_nodes = [] if policy is None or nodes is None else [each for each in policy.reservations() if each.nodes]
    for held in held_nodes:  # in their order
        gang = world.gang_of[held.gang]
        gang = gang.choices[held.choice] if gang.choices else gang
        leaf = gang.queue
        needs = {(name, key): n for name, amounts in (held.nodes or {}).items() for key, n in amounts.items()}
        if leaf is not None and not gang.preemptible and may_start(world, leaf, gang.next_request, preemptible=False):
            free = _free_but_for_later(world, gang, held)
            if all(free[place] - older.get(place, 0) >= amount for place, amount in needs.items()):
                yield StuckGang(gang.fact.name, leaf.fact.name, StuckKind.BEHIND_LATER_WORK)
        for place, amount in needs.items():
            older[place] = older.get(place, 0) + amount


def _free_but_for_later(world: World, gang: GangState, held: StartReservationFacts) -> dict[tuple[str, str], Number]:
    """The amounts that the reserved nodes have free, by node and resource, without LOW work that came later and lower
    work of the gang's leaf."""
    policy, nodes = world.policy, world.nodes
    assert policy is not None, "a policy has made the reservation"
    assert nodes is not None, "its nodes are known"
    free: dict[tuple[str, str], Number] = {}
    for name in held.nodes or ():
        n = nodes.names.index(name)
        free |= {(name, world.keys[r]): nodes.free[n][r] for r in range(nodes.width)}
        for other, i in world.on_node[n]:
            since = policy.started_at(other)
            if other.queue is gang.queue:
                gives_way = other.fact.priority < gang.fact.priority
            else:
                gives_way = since is not None and held.placed is not None and since >= held.placed
            for r, amount in (
                other.requests[i] if gives_way and other.is_evictable and other.status[i] == RUNNING else ()
            ):
                free[name, world.keys[r]] += amount
    return free


def _could_replace(world: World, leaf: QueueState, gang: GangState) -> bool:
    """Whether the gang could start on nothing but the places of lower work of its leaf, those of guests left out."""
    lower = [other for other in leaf.running or () if other.fact.priority < gang.fact.priority]
    freed = sum_requests([other.running_request for other in lower])
    request, most = gang.next_request, dict(freed)
    if not is_within_quota(leaf, request) or any(amount > most.get(r, 0) for r, amount in request):
        return False
    if any(above.alloc[r] - most[r] + amount > above.limit[r] for above in leaf.path for r, amount in request):
        return False
    if leaf.has_cohort_above and not _has_tree(world, leaf, request, freed):
        return False
    guests = {} if world.policy is None else world.policy.guest_places(leaf)
    return world.nodes is None or _fits_in_place(world.nodes, lower, guests, gang)


def _has_tree(world: World, leaf: QueueState, request: Request, freed: Request) -> bool:
    """Whether the cohort tree has the amounts once the leaf has released others."""
    wanted = dict(request)
    for r, amount in freed:
        column = world.columns[r]
        column.release(leaf.column, amount)
        is_enough = wanted.get(r, 0) <= column.available(leaf.column)
        column.reserve(leaf.column, amount)
        if not is_enough:
            return False
    return True


def _fits_in_place(
    nodes: NodeIndex, lower: Sequence[GangState], guests: Mapping[tuple[int, int], Number], gang: GangState
) -> bool:
    """Whether the gang fits on what this work holds, with nothing else of the nodes. `guests`: what of it is left out,
    by node and resource."""
    held: dict[int, list[Number]] = {}
    for other in lower:
        for i, status in enumerate(other.status):
            if status == RUNNING and other.node[i] != NOWHERE:
                have = held.setdefault(other.node[i], [0] * nodes.width)
                for r, amount in other.requests[i]:
                    have[r] += amount
    for (n, r), amount in guests.items():
        if n in held:
            held[n][r] -= amount
    numbers = sorted(held)
    places = NodeIndex(
        [nodes.names[n] for n in numbers], [(*held[n], *nodes.capacity[n][nodes.width :]) for n in numbers], nodes.width
    )
    return place_requests(places, _needs(gang)) is not None


def _fits(nodes: NodeIndex | None, gang: GangState) -> bool:
    return nodes is None or could_place(nodes, _needs(gang)) is not None


def _needs(gang: GangState) -> list[Request]:
    return [gang.needs[i] for i in gang.next_tasks()]
