"""The capacity of nodes, and the usage of running tasks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db.models import Q

from pools.database.prepared import read_rows
from pools.database.statements import execute_sql
from pools.domain.configuration.flavors import flavor_of_labels, flavors_of, matches_text
from pools.domain.configuration.node_sets import NodeGroup
from pools.domain.values.amounts import DEFAULT_FLAVOR, gpu_words
from pools.domain.values.byte_sizes import exact_size_text
from pools.domain.values.counting import counted
from pools.models import Backend
from pools.selectors.change_tokens import KeptResult, read_backends_token
from scheduling.domain.changes.nodes import DRAINED_NOTE
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """One node with the sums of its running tasks and the state that a cluster reports: whether it takes new work, the
    usage of foreign pods (`other_…`), and sentences about both (`observed_notes`). `ending_…` are the amounts that pods
    of ours hold in addition to running tasks: the task has ended and the pod not yet, or the pod is about to start.
    `failures` and `suspect_since` are of a suspect node, `physical_gpus` and `advertised_gpus` of one that shares its
    GPUs. `flavor` is None where the backend names no flavors; `matching_flavors` are all whose labels the node has,
    `counted_as` the GPUs of running work that count in other flavors, in which it was admitted; `parts` are the flavors
    that count parts of shared GPUs.
    Memory and storage in bytes."""

    backend_id: int
    name: str
    platform: str
    gpus: int
    cpu: int
    memory_bytes: int
    storage_bytes: int
    used_gpus: int
    used_cpu: int
    used_memory: int
    used_storage: int
    ending_gpus: int = 0
    ending_cpu: int = 0
    ending_memory: int = 0
    ending_storage: int = 0
    ready: bool = True
    conditions: Sequence[str] | None = None
    labels: Mapping[str, str] | None = None
    taints: Sequence[Mapping[str, str]] = ()
    observed_notes: Sequence[str] = ()
    other_gpus: int = 0
    other_cpu: int = 0
    other_memory: int = 0
    other_storage: int = 0
    failures: int = 0
    suspect_since: datetime | None = None
    physical_gpus: int | None = None
    advertised_gpus: int | None = None
    flavor: str | None = None
    matching_flavors: Sequence[str] = ()
    counted_as: Mapping[str, int] = field(default_factory=dict)
    parts: Collection[str] = ()

    @property
    def state(self) -> str:
        """`ready`, `drained` by an admin, or `not ready`."""
        return "ready" if self.ready else "drained" if DRAINED_NOTE in self.observed_notes else "not ready"

    @property
    def is_shared(self) -> bool:
        """Whether the node advertises parts of GPUs."""
        return self.advertised_gpus is not None

    @property
    def offered_gpus(self) -> int:
        """The GPUs and parts of GPUs that work can hold here, also those that do not count."""
        return max(self.gpus, self.advertised_gpus or 0)

    @property
    def words(self) -> tuple[str, str]:
        """What one and several of its GPUs are called."""
        return gpu_words(self.flavor or "", self.parts, is_named=False)

    @property
    def size_text(self) -> str:
        """Its GPUs for people: `8 GPUs`, or `8 parts of GPUs`."""
        return counted(self.gpus, *self.words)

    @property
    def free_gpus(self) -> int:
        """The GPUs on which work may still start: none on a node that takes no new work."""
        return self.free(self.gpus, self.used_gpus, self.ending_gpus, self.other_gpus)

    @property
    def usable_gpus(self) -> int:
        """The GPUs that are free or held: what is held of a node that takes no new work."""
        return self.gpus if self.ready else min(self.gpus, self.held_gpus)

    @property
    def held_gpus(self) -> int:
        """The GPUs that running work, ending pods and foreign pods hold."""
        return self.used_gpus + self.ending_gpus + self.other_gpus

    @property
    def overfull(self) -> str:
        """What running work holds here of more than there is, for people; empty where the node has it all."""
        amounts = (
            (self.used_gpus, self.offered_gpus, self.words[1], str),
            (self.used_cpu, self.cpu, "cores", str),
            (self.used_memory, self.memory_bytes, "memory", exact_size_text),
            (self.used_storage, self.storage_bytes, "storage", exact_size_text),
        )
        return ", ".join(f"{text(used)} of {text(size)} {unit}" for used, size, unit, text in amounts if used > size)

    @property
    def notes(self) -> list[str]:
        """Sentences about the node: what keeps work away, and what its numbers do not say."""
        suspect = [f"suspect: {self.failures} different workflows failed here within minutes"] if self.failures else []
        shrunk = [f"running work holds more than the node has: {self.overfull}"] if self.overfull else []
        several = [matches_text(self.matching_flavors)] if len(self.matching_flavors) > 1 else []
        moved = [
            f"running work with {counted(gpus, *gpu_words(flavor, self.parts, is_named=False))} counts as {flavor}, in "
            "which it was admitted, until it ends"
            for flavor, gpus in self.counted_as.items()
        ]
        return [*self.observed_notes, *suspect, *shrunk, *several, *moved]

    def free(self, size: int, *held: int) -> int:
        """The part of an amount of this node with which work may still start; 0 where more is held than there is."""
        return max(0, size - sum(held)) if self.ready else 0


# The name of a node is unique only on its backend, so tasks are grouped by the backend of their pool.
# A task of a simulated backend has no pod: it holds its node while it runs. A pod holds its node from its binding until
# it is gone or has stopped, whatever the state of its task. Each part has an index of its own.
_AMOUNTS = {"gpus": "gpu_count", "cpu": "cpu_count", "memory": "memory_bytes", "storage": "storage_bytes"}
_COLUMNS = f"group_id, node_name, status, {', '.join(_AMOUNTS.values())}"
_RUNNING = "status = 'RUNNING'"
_WITH_POD = "dispatched_at IS NOT NULL AND pod_gone_at IS NULL AND status <> 'RUNNING'"
_SUMS = ", ".join(
    f"COALESCE(sum(task.{column}) FILTER (WHERE task.status {sign} 'RUNNING'), 0)::bigint AS {part}_{name}"
    for part, sign in (("used", "="), ("ending", "<>"))
    for name, column in _AMOUNTS.items()
)
_HELD_SQL = f"""
    SELECT root.backend_id, task.node_name, {_SUMS}
    FROM (
        SELECT {_COLUMNS} FROM scheduling_task WHERE {_RUNNING}
        UNION ALL SELECT {_COLUMNS} FROM scheduling_task WHERE {_WITH_POD}
    ) task
    JOIN scheduling_group gang ON gang.uuid = task.group_id
    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    WHERE task.node_name <> '' {{condition}}
    GROUP BY root.backend_id, task.node_name
"""
_HELD_AMOUNTS = ", ".join(f"COALESCE(held.{part}_{name}, 0)" for part in ("used", "ending") for name in _AMOUNTS)


def gpus_by_node_set() -> dict[NodeGroup, tuple[int, int]]:
    """(capacity, usage) in GPUs of all nodes of each backend, platform and flavor; one query more if nodes or work have
    changed. Usage is that of running tasks and, in a cluster, of pods that end and of foreign pods; on each node at
    most its size, so that a node which has shrunk takes nothing from the others. The capacity of a node that takes no
    new work is its usage, so nothing is free."""
    return {
        (backend, platform, flavor): (gpus, used)
        for backend, platform, flavor, gpus, used, _ in _gpus_by_node_set.get()
    }


def usable_and_excess_gpus() -> dict[int, tuple[dict[str, dict[str, int]], int]]:
    """By backend: the GPUs of nodes that take work, with those that are in use on the others, by flavor and platform,
    and the GPUs that work holds on nodes beyond their sizes. One query, always."""
    found: dict[int, tuple[dict[str, dict[str, int]], int]] = {}
    for backend, platform, flavor, gpus, _, excess in _read_gpus_by_node_set():
        usable, more = found.get(backend, ({}, 0))
        usable.setdefault(flavor, {})[platform] = gpus
        found[backend] = usable, more + excess
    return found


def _read_gpus_by_node_set() -> list[tuple[int, str, str, int, int, int]]:
    """Backend, platform, flavor, and GPUs: usable, in use, in use beyond the sizes of nodes."""
    rows = read_rows(_GPUS_BY_NODE_SET_SQL)
    return [
        (backend, platform, flavor, int(gpus), int(used), int(excess))
        for backend, platform, flavor, gpus, used, excess in rows
    ]


_gpus_by_node_set = KeptResult(read_backends_token, _read_gpus_by_node_set)

# Most names of nodes exist on one backend only. Their running tasks are found by an index that holds their GPUs; the
# three joins to the backend of a task, which cost ten times as much, are made for the other names only. A node that a
# cluster removed keeps its tasks until their pods are gone: for so long, they count on another backend's node of the
# same name.
_GPUS_BY_NODE_SET_SQL = f"""
    WITH ambiguous AS MATERIALIZED (
        SELECT name FROM pools_node GROUP BY name HAVING count(*) > 1
    ), by_name AS MATERIALIZED (
        SELECT node_name, sum(gpus) AS gpus FROM (
            SELECT node_name, sum(gpu_count) AS gpus FROM scheduling_task WHERE {_RUNNING} GROUP BY node_name
            UNION ALL SELECT node_name, sum(gpu_count) FROM scheduling_task WHERE {_WITH_POD} GROUP BY node_name
        ) held GROUP BY node_name
    )
    SELECT backend_id, platform, flavor, sum(CASE WHEN ready THEN gpus ELSE LEAST(gpus, used) END),
        sum(LEAST(gpus, used)), sum(GREATEST(used - offered, 0))
    FROM (
        SELECT node.backend_id, node.platform, node.flavor, node.gpus,
            GREATEST(node.gpus, node.advertised_gpus) AS offered,
            COALESCE(state.ready, true) AS ready,
            COALESCE(
                CASE WHEN ambiguous.name IS NULL THEN by_name.gpus ELSE held.used_gpus + held.ending_gpus END, 0
            )
            + COALESCE(state.other_gpus, 0) AS used
        FROM pools_node node
        LEFT JOIN scheduling_nodestate state ON state.node_id = node.id
        LEFT JOIN ambiguous ON ambiguous.name = node.name
        LEFT JOIN by_name ON by_name.node_name = node.name
        LEFT JOIN ({_HELD_SQL.format(condition="AND task.node_name IN (SELECT name FROM ambiguous)")}) held
            ON held.backend_id = node.backend_id AND held.node_name = node.name
    ) node_usage
    GROUP BY backend_id, platform, flavor
"""


def read_attempts_with_pods(backend: Backend) -> set[str]:
    """The ids of the attempts whose amounts count on the nodes of a backend."""
    counts = Q(status=TaskStatus.RUNNING) | Q(dispatched_at__isnull=False, pod_gone_at=None)
    found = Task.objects.filter(counts, group__workflow__root_pool__backend=backend)
    return set(map(str, found.values_list("pk", flat=True)))


def gpus_of_nodes(uses: Iterable[NodeUsage]) -> dict[int, tuple[dict[str, dict[str, int]], int]]:
    """The numbers of `usable_and_excess_gpus` from nodes that have been read."""
    found: dict[int, tuple[dict[str, dict[str, int]], int]] = {}
    for use in uses:
        usable, excess = found.get(use.backend_id, ({}, 0))
        of_platforms = usable.setdefault(use.flavor or DEFAULT_FLAVOR, {})
        of_platforms[use.platform] = of_platforms.get(use.platform, 0) + use.usable_gpus
        found[use.backend_id] = usable, excess + max(0, use.held_gpus - use.offered_gpus)
    return found


def read_node_usage(name: str | None = None, *, backend: int | None = None) -> list[NodeUsage]:
    """All nodes (those of one name, those of the backend with this id) by backend and name; one query, three where a
    backend names flavors."""
    rows = execute_sql(
        f"""
        SELECT node.backend_id, node.name, node.platform, node.gpus, node.cpu, node.memory_bytes,
            node.storage_bytes, {_HELD_AMOUNTS},
            COALESCE(state.ready, true), state.conditions, COALESCE(state.labels, NULLIF(node.labels, '{{}}')),
            COALESCE(state.taints, '[]'),
            COALESCE(state.notes || state.other_notes, '[]'),
            COALESCE(state.other_gpus, 0), COALESCE(state.other_cpu, 0), COALESCE(state.other_memory_bytes, 0),
            COALESCE(state.other_storage_bytes, 0), COALESCE(suspect.failures, 0), suspect.since,
            node.physical_gpus, node.advertised_gpus,
            CASE WHEN backend.flavors <> '[]' THEN node.flavor END
        FROM pools_node node
        JOIN pools_backend backend ON backend.id = node.backend_id
        LEFT JOIN scheduling_nodestate state ON state.node_id = node.id
        LEFT JOIN scheduling_suspectnode suspect ON suspect.node_id = node.id AND suspect.cleared_at IS NULL
        LEFT JOIN ({_HELD_SQL.format(condition="")}) held
            ON held.backend_id = node.backend_id AND held.node_name = node.name
        WHERE (%(name)s::text IS NULL OR node.name = %(name)s)
            AND (%(backend)s::bigint IS NULL OR node.backend_id = %(backend)s)
        ORDER BY node.backend_id, node.name COLLATE "C"
        """,
        {"name": name, "backend": backend},
    )
    uses = [
        NodeUsage(*row[:16], *(None if text is None else json.loads(text) for text in row[16:20]), *row[20:])
        for row in rows
    ]
    return _with_flavors(uses) if any(use.flavor for use in uses) else uses


def _with_flavors(uses: Iterable[NodeUsage]) -> list[NodeUsage]:
    """The nodes with all flavors that match them, and those in which work counts that was admitted in another one. Two
    queries."""
    flavors = {pk: flavors_of(stored) for pk, stored in Backend.objects.values_list("pk", "flavors")}
    elsewhere: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for backend, node, flavor, gpus in execute_sql(_COUNTED_AS):
        elsewhere[backend, node][flavor] = gpus
    return [
        replace(
            use,
            matching_flavors=flavor_of_labels(use.labels or {}, flavors[use.backend_id])[1],
            counted_as=elsewhere.get((use.backend_id, use.name), {}),
            parts=frozenset(each.name for each in flavors[use.backend_id] if each.is_of_parts),
        )
        for use in uses
    ]


# Most of the work on the nodes counts in their flavor, and is not listed.
_COUNTED_AS = f"""
    SELECT node.backend_id, node.name, COALESCE(NULLIF(task.flavor, ''), '{DEFAULT_FLAVOR}'),
        sum(task.gpu_count)::bigint
    FROM scheduling_task task
    JOIN scheduling_group gang ON gang.uuid = task.group_id
    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    JOIN pools_node node ON node.backend_id = root.backend_id AND node.name = task.node_name
    WHERE task.{_RUNNING} AND task.gpu_count > 0
        AND node.flavor <> COALESCE(NULLIF(task.flavor, ''), '{DEFAULT_FLAVOR}')
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
