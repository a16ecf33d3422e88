"""Which waiting gangs start now: the one function behind the simulated backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from pools.domain.quotas import UNLIMITED
from scheduling.domain.admission import Gate, start_verdict
from scheduling.domain.placement import Machine, Need, place
from scheduling.domain.priorities import Priority

Path = tuple[Gate, ...]
"""The gates a start passes, from the leaf to the root. Gates of one name are one gate."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A group that waits for GPUs. `leaf` names its path in the tree."""

    group: UUID
    leaf: int
    priority: Priority
    submitted: datetime
    position: int
    gpus: int

    @property
    def order(self) -> tuple[int, datetime, int, UUID]:
        """Priority first, then who came first, then the place in the file."""
        return (-self.priority.value_in_kai, self.submitted, self.position, self.group)


@dataclass(frozen=True, slots=True)
class Start:
    """One gang that starts, with a machine for each of its tasks (by the task's id)."""

    gang: WaitingGang
    nodes: Mapping[str, str]


def room(path: Path, *, preemptible: bool, free_gpus: int) -> int:
    """GPUs of the largest gang that quotas and machines could let start on this path now; no gang above it can."""
    limits = [free_gpus]
    for gate in path:
        if not preemptible and gate.quota != UNLIMITED:
            limits.append(gate.quota - gate.used)
        if gate.maximum != UNLIMITED:
            limits.append(gate.maximum - gate.total_usage)
    return max(0, min(limits))


class Plan:
    """Starts that may happen together. Feed it waiting gangs in their order; `starts` grows.

    A gang that cannot start lets later ones pass: it keeps its place in the order and is asked first the next time.
    """

    def __init__(self, paths: Mapping[int, Path], machines: Mapping[str, Machine]) -> None:
        self.starts: list[Start] = []
        self._paths = paths
        self._gates = {gate.name: gate for path in paths.values() for gate in path}
        self._free = dict(machines)
        self._over_quota: set[tuple[int, Priority, int]] = set()
        self._unplaceable: set[tuple[Need, ...]] = set()

    @property
    def is_full(self) -> bool:
        """No machine has a GPU left."""
        return not any(machine.gpus > 0 for machine in self._free.values())

    def consider(self, gangs: Iterable[WaitingGang], needs: Mapping[UUID, Sequence[Need]]) -> None:
        """Start those of `gangs` that quotas and machines let start. `needs` are each gang's tasks."""
        for gang in gangs:
            if not self._quota_lets(gang):
                continue
            wanted = needs.get(gang.group, ())
            # Machines only fill up here, so what found no place once need not be tried again.
            alike = tuple(sorted(replace(need, task="") for need in wanted))
            if not wanted or alike in self._unplaceable:
                continue
            nodes = place(wanted, self._free)
            if nodes is None:
                self._unplaceable.add(alike)
                continue
            for need in wanted:
                self._free[nodes[need.task]] = self._free[nodes[need.task]].less(need)
            _take(self._gates, self._paths[gang.leaf], gang)
            self.starts.append(Start(gang, nodes))

    def _quota_lets(self, gang: WaitingGang) -> bool:
        alike = (gang.leaf, gang.priority, gang.gpus)
        if gang.leaf not in self._paths or alike in self._over_quota:
            return False
        if _allowed(self._gates, self._paths[gang.leaf], gang):
            return True
        self._over_quota.add(alike)  # starting others only fills the gates further
        return False


def still_allowed(starts: Sequence[Start], paths: Mapping[int, Path]) -> list[Start]:
    """Those of `starts` that these (fresher) gates still let through together, in their order."""
    gates = {gate.name: gate for path in paths.values() for gate in path}
    allowed = []
    for start in sorted(starts, key=lambda start: start.gang.order):
        path = paths.get(start.gang.leaf)
        if path is not None and _allowed(gates, path, start.gang):
            _take(gates, path, start.gang)
            allowed.append(start)
    return allowed


def _allowed(gates: Mapping[str, Gate], path: Path, gang: WaitingGang) -> bool:
    now = tuple(gates[gate.name] for gate in path)
    return start_verdict(now, priority=gang.priority, gpus=gang.gpus) is None


def _take(gates: dict[str, Gate], path: Path, gang: WaitingGang) -> None:
    firm = 0 if gang.priority.is_preemptible else gang.gpus
    for gate in path:
        now = gates[gate.name]
        gates[gate.name] = replace(now, used=now.used + firm, total_usage=now.total_usage + gang.gpus)
