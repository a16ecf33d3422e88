"""The parsed content of a workflow file: groups (gangs), tasks (pods) and their amounts.

Values only. `scheduling.specs.parse` makes them and guarantees their form: names are valid and unique, every amount is
a whole number from 0 up, every group without a tree has one lead, groups form no cycle. Source: design, O7.3, O7.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pools.domain.exit_codes import ExitCodes
from pools.domain.values.durations import parse_duration
from scheduling.domain.gang import tree_from_json
from scheduling.domain.priorities import Priority

SIMULATED_RUNTIME_LABEL = "osmo/simulated-runtime"


def simulated_runtime_seconds(labels: Mapping[str, str]) -> float | None:
    """The seconds that a group runs on the simulated backend; None if the label is absent or invalid.

    The parser of the file refuses an invalid label. In a stored workflow an invalid label counts as absent.
    """
    text = labels.get(SIMULATED_RUNTIME_LABEL)
    runtime = None if text is None else parse_duration(text)
    return None if runtime is None else runtime.total_seconds()


def exit_action(exit_code: int, actions: Mapping[str, ExitCodes]) -> str | None:
    """The action for a task that ended with `exit_code`: COMPLETE, FAIL, RESCHEDULE, or None for the default."""
    for action, ranges in actions.items():
        if any(first <= exit_code <= last for first, last in ranges):
            return action
    return None


@dataclass(frozen=True, slots=True)
class TopologyRequirement:
    """Tasks with equal `key` and `group` request the same value of that node label (one rack, one clique)."""

    key: str
    group: str = "default"
    required: bool = True


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One pod. Amounts are of this one task; an amount that the file does not name is 0."""

    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    resource: str = "default"
    gpu: int = 0
    cpu: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    platform: str | None = None
    lead: bool = False
    credentials: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    """Credential name -> directory to mount it at, or {environment variable: key of the credential}."""
    exit_actions: Mapping[str, ExitCodes] = field(default_factory=dict)
    """Action -> exit codes, the task's own before the pool's; no code has two actions."""
    inputs: tuple[Mapping[str, Any], ...] = ()
    outputs: tuple[Mapping[str, Any], ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    privileged: bool = False
    host_network: bool = False
    volume_mounts: tuple[str, ...] = ()
    nodes_excluded: tuple[str, ...] = ()
    topology: tuple[TopologyRequirement, ...] = ()
    gpu_flavors: tuple[str, ...] = ()
    """The GPU flavors that it may use, the preferred one first; empty: every flavor of its pool, in the order of
    the pool."""
    sub_group: str = ""
    """The leaf of the gang's tree that counts it; empty where the tree has one leaf alone."""

    @property
    def upstream_tasks(self) -> tuple[str, ...]:
        """Tasks of this workflow whose output this one reads (`workflow-1:task` means another workflow's)."""
        names = (source.get("task") for source in self.inputs)
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name and ":" not in name))


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A gang: its tasks start together or not at all. It may start when all groups in `inputs` have completed.

    `gang` is the tree of a PodGroup from :func:`scheduling.domain.gang.tree_to_json`. With a tree its minimum starts
    together, the other tasks one by one, no task leads, and the tasks of one SubGroup have equal requests.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    ignore_nonlead_status: bool = True
    inputs: tuple[str, ...] = ()
    gang: Mapping[str, Any] | None = None

    @property
    def required_topology_keys(self) -> set[str]:
        """The topology keys that its tasks require, not only prefer."""
        return {requirement.key for task in self.tasks for requirement in task.topology if requirement.required}

    @property
    def gpus(self) -> int:
        """The GPUs that the gang needs to run: those of all its tasks, or with a tree the least that satisfy it."""
        if self.gang is None:
            return sum(task.gpu for task in self.tasks)
        tree = tree_from_json(self.gang, len(self.tasks))
        return tree.min_amount({tree.leaf_of(task.sub_group): task.gpu for task in self.tasks})


@dataclass(frozen=True, slots=True)
class WorkflowSpec:
    """A workflow. Groups are in the order of the file, which need not be the order in which they run.

    `priority` is the priority in the file (a PodGroup's `priorityClassName`); a priority given with the request wins.
    """

    name: str
    groups: tuple[GroupSpec, ...]
    exec_timeout: timedelta | None = None
    queue_timeout: timedelta | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority | None = None

    @property
    def largest_gang_gpus(self) -> int:
        """The GPUs that admission checks (design, D5): groups may run one after another, so the largest counts, not the
        sum."""
        return max((group.gpus for group in self.groups), default=0)

    @property
    def tasks(self) -> tuple[TaskSpec, ...]:
        """All tasks, group by group."""
        return tuple(task for group in self.groups for task in group.tasks)

    @property
    def simulated_runtime(self) -> float | None:
        """Seconds from the label `osmo/simulated-runtime`, if there is one."""
        return simulated_runtime_seconds(self.labels)
