"""Placing the tasks of a gang on machines: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Machine:
    """A node and what is free on it: GPUs, cores, bytes."""

    name: str
    platform: str
    gpus: int
    cpu: int
    memory_bytes: int
    storage_bytes: int

    def fits(self, need: Need) -> bool:
        """Whether one task with this need has room here and may run here."""
        return (
            need.platform == self.platform
            and self.name not in need.nodes_excluded
            and need.gpus <= self.gpus
            and need.cpu <= self.cpu
            and need.memory_bytes <= self.memory_bytes
            and need.storage_bytes <= self.storage_bytes
        )

    def less(self, need: Need) -> Machine:
        """The machine after a task took its share."""
        return replace(
            self,
            gpus=self.gpus - need.gpus,
            cpu=self.cpu - need.cpu,
            memory_bytes=self.memory_bytes - need.memory_bytes,
            storage_bytes=self.storage_bytes - need.storage_bytes,
        )


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """What one task asks of one machine."""

    task: str
    gpus: int
    cpu: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    platform: str = "default"
    nodes_excluded: tuple[str, ...] = ()


def place(needs: Sequence[Need], machines: dict[str, Machine]) -> dict[str, str] | None:
    """Task → node for the whole gang, or None. Largest first, each on the fullest machine that still has room, so that
    whole machines stay free for whole-machine gangs; ties by name, so that equal facts give equal answers."""
    free = dict(machines)
    placed: dict[str, str] = {}
    for need in sorted(needs, key=lambda need: (-need.gpus, -need.cpu, need.task)):
        candidates = [machine for machine in free.values() if machine.fits(need)]
        if not candidates:
            return None
        best = min(candidates, key=lambda machine: (machine.gpus, machine.cpu, machine.name))
        free[best.name] = best.less(need)
        placed[need.task] = best.name
    return placed
