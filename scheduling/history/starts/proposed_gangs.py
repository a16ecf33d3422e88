"""Work that is not submitted yet, as gangs of the facts of a backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pools.database.prepared import read_rows
from pools.database.transactions import one_snapshot
from pools.models import Node, Pool
from scheduling.domain.engine.facts import GangFacts
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.domain.workflow_spec import GroupSpec, WorkflowSpec
from scheduling.history.forecast.runtimes import WorkKind
from scheduling.history.starts.forecast_facts import ForecastFacts, read_forecast_facts
from scheduling.selectors.queue.live_facts import SharedObjects, proposed_variants

_MARK = "~proposed"
"""Begins the names of these gangs; no name of a workflow begins so."""

MOST_NODES, MOST_LIVE = 64, 100
"""The largest cluster whose state is read for each dry run: nodes, and workflows that have not ended."""

_LIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))

_IS_SMALL_SQL = f"""
    SELECT (SELECT count(*) FROM (SELECT FROM pools_node WHERE backend_id = %s LIMIT {MOST_NODES + 1}) node)
            <= {MOST_NODES}
        AND (
            SELECT count(*) FROM (
                SELECT FROM scheduling_workflow work JOIN pools_pool root ON root.id = work.root_pool_id
                WHERE root.backend_id = %s AND work.status IN ({_LIVE}) LIMIT {MOST_LIVE + 1}
            ) live
        ) <= {MOST_LIVE}
"""


@dataclass(frozen=True, slots=True)
class ProposedWork:
    """A workflow that a person might submit to a leaf."""

    leaf: Pool
    spec: WorkflowSpec
    priority: Priority
    username: str

    @property
    def first_groups(self) -> list[GroupSpec]:
        """The groups that wait for no other group."""
        return [group for group in self.spec.groups if not group.inputs]


def is_small_cluster(backend_id: int) -> bool:
    """Whether the whole state of this backend can be read for a single request. One query."""
    return bool(read_rows(_IS_SMALL_SQL, [backend_id, backend_id])[0][0])


class BackendPresent:
    """The facts of one backend, to which proposed work is added."""

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

    def gangs(self, proposed: ProposedWork, number: int = 0) -> Iterator[tuple[GangFacts, WorkKind]]:
        """The gangs that could start at once, behind all work of their queue; none where the leaf has no queue. The
        `number` tells workflows of one question apart, and is their order."""
        queue = self._queue_of_leaf.get(proposed.leaf.pk)
        if queue is None:
            return
        limit = proposed.spec.exec_timeout
        seconds = None if limit is None else limit.total_seconds()
        expected = proposed.spec.simulated_runtime
        for position, group in enumerate(proposed.first_groups):
            variants, tree = proposed_variants(self._shapes, group, proposed.leaf.root.gpu_flavors)
            fact = GangFacts(
                f"{_MARK}{number:04}/{group.name}",
                queue,
                variants.tasks,
                alternatives=variants.alternatives,
                priority=proposed.priority.priority_class_value,
                preemptible=proposed.priority.is_preemptible,
                submitted=self._latest + 1 + number * 10**6 + position,
                tree=tree,
                waiting_since=int(self.facts.present.now),
                time_limit=None if seconds is None else int(seconds),
                expected_time=None if expected is None else int(expected),
            )
            yield fact, WorkKind(proposed.leaf.name, group.gpus, proposed.username, proposed.spec.name, seconds)
