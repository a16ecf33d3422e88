"""Evictions on trial: what leaves its nodes, and whether tasks fit there afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pools.domain.values.amounts import Number
from scheduling.domain.engine.state.nodes import NOWHERE, FreeAmounts, NodeIndex, Request, has_enough
from scheduling.domain.engine.state.records import GangState


@dataclass(frozen=True, slots=True)
class EvictionUnit:
    """One step of an eviction: these tasks of the gang, which used these nodes."""

    gang: GangState
    tasks: tuple[int, ...]
    nodes: tuple[int, ...]


def next_eviction_unit(gang: GangState) -> EvictionUnit:
    """The next unit of the gang, which has active tasks; the last tasks of the spec first."""
    tasks = gang.next_to_give_up()
    return EvictionUnit(gang, tasks, tuple([gang.node[i] for i in tasks]))


@dataclass(frozen=True, slots=True)
class AlikeTasks:
    """`count` tasks with this need, which start together."""

    need: Request
    count: int


class EvictedAmounts:
    """Whether some tasks fit after evictions, on a copy of the free amounts of the nodes that these touch."""

    def __init__(self, nodes: NodeIndex, tasks: AlikeTasks, free: Sequence[FreeAmounts] | None = None) -> None:
        """`free`: the free amounts of all nodes now, if they change before the last eviction."""
        self._nodes, self._need, self._before = nodes, tasks.need, nodes.free if free is None else free
        self._missing = tasks.count - nodes.count_slots(tasks.need, tasks.count)
        self._free: dict[int, list[Number]] = {}
        self._lacking = [[r, amount * tasks.count - nodes.total[r]] for r, amount in tasks.need if r < nodes.width]

    @property
    def fits(self) -> bool:
        """Whether the tasks fit now."""
        return self._missing <= 0 and all(amount <= 0 for _r, amount in self._lacking)

    def has_opened(self, unit: EvictionUnit) -> bool:
        """Whether one of the tasks fits on a node that the unit has left."""
        return any(has_enough(self._free[node], self._need) for node in unit.nodes if node != NOWHERE)

    def evict(self, unit: EvictionUnit, sign: int = 1) -> None:
        """Evict the tasks of the unit, or with -1 let them return."""
        nodes, need = self._nodes, self._need
        for i, node in zip(unit.tasks, unit.nodes, strict=True):
            if node == NOWHERE:
                continue
            have = self._free.get(node)
            if have is None:
                have = self._free[node] = list(self._before[node])
            before = nodes.slots_in(have, need) if has_enough(have, need) else 0
            request = unit.gang.requests[i]
            for r, amount in request:
                have[r] += sign * amount
            for lacking in self._lacking:
                for r, amount in request:
                    if r == lacking[0]:
                        lacking[1] -= sign * amount
            self._missing += before - (nodes.slots_in(have, need) if has_enough(have, need) else 0)
