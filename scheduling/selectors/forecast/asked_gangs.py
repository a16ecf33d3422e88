"""Work that is not submitted yet, as gangs of the facts of a backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pools.database.transactions import one_snapshot
from pools.models import Node, Pool
from scheduling.domain.engine.facts import GangFacts, TaskFacts
from scheduling.domain.forecast.runtimes import WorkKind
from scheduling.domain.gang import GangTree
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.domain.workflow_spec import GroupSpec, WorkflowSpec
from scheduling.selectors.forecast.forecast_facts import ForecastFacts, read_forecast_facts
from scheduling.selectors.queue.live_facts import SharedObjects

_MARK = "~asked"
"""Begins the names of these gangs; no name of a workflow begins so."""


@dataclass(frozen=True, slots=True)
class AskedWork:
    """A workflow that a person might submit to a leaf."""

    leaf: Pool
    spec: WorkflowSpec
    priority: Priority
    username: str

    @property
    def first_groups(self) -> list[GroupSpec]:
        """The groups that wait for no other group."""
        return [group for group in self.spec.groups if not group.inputs]


def asked_tasks(shapes: SharedObjects, group: GroupSpec) -> tuple[tuple[TaskFacts, ...], GangTree | None]:
    """The waiting tasks of a group that is not submitted yet, and its tree."""
    tasks = tuple(
        shapes.task(
            task.name, task.sub_group, TaskStatus.SCHEDULING.value, task.gpu, task.cpu, task.memory_bytes,
            task.storage_bytes, task.platform or "default", json.dumps(list(task.nodes_excluded)), "",
        )
        for task in group.tasks
    )  # fmt: skip
    return tasks, shapes.tree(None if group.gang is None else json.dumps(group.gang))


class BackendPresent:
    """The facts of one backend, to which asked work is added."""

    def __init__(self, root: Pool) -> None:
        """Read all in one snapshot. The number of queries is fixed."""
        assert root.backend is not None
        self.backend = root.backend
        with one_snapshot():
            facts = read_forecast_facts(self.backend, even_if_nothing_waits=True)
            assert facts is not None
            self.facts: ForecastFacts = facts
            self._shapes = SharedObjects(list(Node.objects.filter(backend=self.backend)))
        self._queue_of_leaf = {leaf: queue for queue, leaf in facts.live.leaves.items()}
        self._latest = max((gang.submitted for gang in facts.present.facts.gangs), default=0)

    def gangs(self, asked: AskedWork, number: int = 0) -> Iterator[tuple[GangFacts, WorkKind]]:
        """The gangs that could start at once, behind all work of their queue; none where the leaf has no queue. The
        `number` tells workflows apart that are asked for together, and is their order."""
        queue = self._queue_of_leaf.get(asked.leaf.pk)
        if queue is None:
            return
        limit = asked.spec.exec_timeout
        seconds = None if limit is None else limit.total_seconds()
        expected = asked.spec.simulated_runtime
        for position, group in enumerate(asked.first_groups):
            tasks, tree = asked_tasks(self._shapes, group)
            fact = GangFacts(
                f"{_MARK}{number:04}/{group.name}",
                queue,
                tasks,
                priority=asked.priority.priority_class_value,
                preemptible=asked.priority.is_preemptible,
                submitted=self._latest + 1 + number * 10**6 + position,
                tree=tree,
                waiting_since=int(self.facts.present.now),
                time_limit=None if seconds is None else int(seconds),
                expected_time=None if expected is None else int(expected),
            )
            yield fact, WorkKind(asked.leaf.name, group.gpus, asked.username, asked.spec.name, seconds)
