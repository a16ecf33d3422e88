"""Everybody who waits on one backend, in line and with the reason: found once for all readers, kept until it changes.

What the engine says of a backend is the same for everybody; who may read how much of it is another question
(:mod:`scheduling.selectors.queue`). So the explained line is kept in the process with a fingerprint of the rows it was
made from, and made anew when they changed. Where so many wait that this takes its time, a line may be some seconds old.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import starmap
from threading import Lock
from typing import Any
from uuid import UUID

from django.db import connection

from pools.domain.names import SHARED, queue_name, split
from pools.models import Backend
from pools.services.verify import one_snapshot
from scheduling.domain.engine.explain import Code, Reason
from scheduling.domain.engine.outcome import places, reasons
from scheduling.domain.engine.remedies import Remedy
from scheduling.domain.engine.world import World
from scheduling.domain.statuses import LIVE_WORKFLOW, UNFINISHED_TASK, TaskStatus
from scheduling.models import Group
from scheduling.selectors.cluster_reasons import told_by_cluster
from scheduling.selectors.live_facts import LiveFacts, live_facts

LARGE = 2000
"""So many waiting gangs make a line large: it is not made anew for every look at a busy house."""
MAY_BE_OLD = 5.0
"""Seconds that a large line is shown without asking whether something changed."""

WAITS_FOR_GROUPS = "waiting_for_groups"
WAITS_FOR_CLUSTER = "waiting_for_cluster"


@dataclass(frozen=True, slots=True)
class Owned:
    """Whose work a gang is: enough to know who may see it. `root` is the top-level pool's name, `workflow` its id."""

    workflow: str
    root: str
    owner_id: int


@dataclass(frozen=True, slots=True)
class InLine:
    """One gang that waits. `position` counts everybody on the backend, `position_in_queue` its own queue, from 1;
    `gpus` is the least it starts with."""

    owned: Owned
    group: str
    pool: str
    queue: str
    owner: str
    priority: str
    submit_time: datetime
    gpus: int
    position: int
    position_in_queue: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Line:
    """One backend at one moment: who waits, by position; the same by the group's row; whose every gang is, by the names
    that remedies use."""

    backend: str
    entries: tuple[InLine, ...]
    by_group: Mapping[UUID, InLine]
    owned: Mapping[str, Owned]


def line_of(backend: Backend) -> Line:
    """The line of this backend, as it is now (see `MAY_BE_OLD`). One cheap query when nothing changed."""
    return _KEPT.setdefault(backend.pk, _Kept()).line(backend)


class _Kept:
    """The last line of one backend in this process. One thread makes it, the others wait for it."""

    def __init__(self) -> None:
        self._making = Lock()
        self._line: Line | None = None
        self._fingerprint: object = None
        self._good_until = 0.0

    def line(self, backend: Backend) -> Line:
        """The line, made anew if it has to be."""
        # Inside a transaction there may be changes that are never committed: a dry run.
        is_trial = connection.in_atomic_block
        with self._making:
            large = self._line is not None and len(self._line.entries) >= LARGE
            if self._line is not None and large and not is_trial and time.monotonic() < self._good_until:
                return self._line
            if self._line is None or self._fingerprint != _fingerprint(backend):
                with one_snapshot():
                    self._line, self._fingerprint = _made(backend), _fingerprint(backend)
            self._good_until = 0.0 if is_trial else time.monotonic() + MAY_BE_OLD
            return self._line


_KEPT: dict[int, _Kept] = {}

# Every version of a row has its own (ctid, xmin), so the sum of their hashes moves with any change of any of them.
_FINGERPRINT = f"""
    WITH roots AS (SELECT id FROM pools_pool WHERE backend_id = %(backend)s),
    pool AS (SELECT pool.id, pool.ctid, pool.xmin FROM pools_pool pool
        WHERE pool.id IN (SELECT id FROM roots) OR pool.parent_id IN (SELECT id FROM roots)),
    gang AS (SELECT gang.uuid, gang.ctid, gang.xmin FROM scheduling_group gang
        JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
        WHERE work.root_pool_id IN (SELECT id FROM roots)
            AND work.status IN ({", ".join(f"'{status}'" for status in sorted(LIVE_WORKFLOW))})),
    -- in a tree of cohorts what waits here depends on every pool in it, wherever it runs
    lent AS (SELECT pool.id, pool.ctid, pool.xmin
        FROM pools_pool pool JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id)
        WHERE root.cohort_id IS NOT NULL
            AND EXISTS (SELECT FROM pools_pool WHERE backend_id = %(backend)s AND cohort_id IS NOT NULL)),
    bound AS (SELECT config ->> 'gpu_quota_namespace' AS namespace FROM pools_pool WHERE id IN (SELECT id FROM roots)),
    version AS (
        SELECT 'b' || ctid || xmin AS is FROM pools_backend WHERE id = %(backend)s
        UNION ALL SELECT 'n' || ctid || xmin FROM pools_node WHERE backend_id = %(backend)s
        UNION ALL SELECT 'p' || ctid || xmin FROM pool
        UNION ALL SELECT 'u' || ctid || xmin FROM pools_leafusage WHERE pool_id IN (SELECT id FROM pool)
        UNION ALL SELECT 'l' || ctid || xmin FROM lent
        UNION ALL SELECT 'v' || ctid || xmin FROM pools_leafusage WHERE pool_id IN (SELECT id FROM lent)
        UNION ALL SELECT 'c' || ctid || xmin FROM pools_cohort WHERE EXISTS (SELECT FROM lent)
        UNION ALL SELECT 'q' || ctid || xmin FROM pools_gpuquota WHERE namespace IN (SELECT namespace FROM bound)
        UNION ALL SELECT 'h' || ctid || xmin FROM pools_gpuusage WHERE namespace IN (SELECT namespace FROM bound)
        UNION ALL SELECT 'g' || ctid || xmin FROM gang
        UNION ALL SELECT 't' || task.ctid || task.xmin FROM scheduling_task task
            WHERE task.group_id IN (SELECT uuid FROM gang)
    )
    SELECT count(*), sum(hashtextextended(version.is, 0)) FROM version
"""


def _fingerprint(backend: Backend) -> object:
    with connection.cursor() as cursor:
        cursor.execute(_FINGERPRINT, {"backend": backend.pk})
        return cursor.fetchone()


@dataclass(frozen=True, slots=True)
class _Row:
    """An open group of a live workflow, from its rows."""

    group: UUID
    name: str
    status: str
    gpus: int
    upstream: list[str]
    position: int
    workflow: str
    owner_id: int
    owner: str
    pool: str
    root: str
    priority: str
    submit_time: datetime
    waiting_reason: Mapping[str, Any] | None

    @property
    def owned(self) -> Owned:
        return Owned(self.workflow, self.root, self.owner_id)


def _made(backend: Backend) -> Line:
    live, rows = live_facts(backend), _rows(backend)
    found = [*_engine_says(backend, live, rows), *_behind_others(backend, rows.values())]
    found.sort(key=lambda entry: entry[1].position)
    placed, in_queue = [], dict[str, int]()
    for position, (group, entry) in enumerate(found, 1):
        in_queue[entry.queue] = in_queue.get(entry.queue, 0) + 1
        placed.append((group, replace(entry, position=position, position_in_queue=in_queue[entry.queue])))
    owned = {name: rows[gang.group].owned for name, gang in live.gangs.items() if gang.group in rows}
    return Line(backend.name, tuple(entry for _, entry in placed), dict(placed), owned)


def _rows(backend: Backend) -> dict[UUID, _Row]:
    work = Group.objects.filter(
        workflow__root_pool__backend=backend, workflow__status__in=LIVE_WORKFLOW, status__in=UNFINISHED_TASK
    )
    columns = work.order_by("workflow__submit_time", "workflow__name", "position").values_list(
        "pk", "name", "status", "gpus", "upstream", "position", "workflow__name", "workflow__submitted_by_id",
        "workflow__submitted_by__username", "workflow__pool__name", "workflow__root_pool__name", "workflow__priority",
        "workflow__submit_time", "waiting_reason",
    )  # fmt: skip
    return {row.group: row for row in starmap(_Row, columns)}


def _engine_says(backend: Backend, live: LiveFacts, rows: Mapping[UUID, _Row]) -> Iterable[tuple[UUID, InLine]]:
    """Those who are in line for GPUs, in the order of the next pass."""
    world = World(live.facts)
    where = places(world)
    for name, reason in reasons(world).items():
        row = rows.get(live.gangs[name].group)
        if row is not None:
            said = reason
            if backend.kind == Backend.Kind.KUBERNETES:
                said = told_by_cluster(row.waiting_reason, _cluster_decides(reason))
            yield row.group, _entry(backend, row, where[name].overall, said)


def _behind_others(backend: Backend, rows: Iterable[_Row]) -> Iterable[tuple[UUID, InLine]]:
    """Those whose turn has not come, behind everybody who is in line, by age."""
    statuses: dict[tuple[str, str], str] = {}
    waiting = []
    for row in rows:
        statuses[row.workflow, row.name] = row.status
        if row.status == TaskStatus.WAITING:
            waiting.append(row)
    for place, row in enumerate(waiting):
        before = [(name, statuses[row.workflow, name]) for name in row.upstream if (row.workflow, name) in statuses]
        yield row.group, _entry(backend, row, 10**9 + place, _waits_for(before, queue=_queue(backend, row.pool)))


def _waits_for(before: list[tuple[str, str]], *, queue: str) -> Reason:
    told = " and ".join(f"{name} ({status})" for name, status in before)
    message = f"It starts when the groups before it have completed: {told or 'they just did'}."
    remedies = tuple(Remedy(f"Group {name}, which is {status}, completes") for name, status in before)
    return Reason(WAITS_FOR_GROUPS, message, queue, remedies=remedies)


def _cluster_decides(reason: Reason) -> Reason:
    """Where a cluster places the work, nothing in our way does not mean that it starts in our next pass."""
    if reason.code != Code.NEXT_PASS:
        return reason
    message = "Every quota lets it start; it waits until the scheduler of the cluster has placed it."
    return Reason(WAITS_FOR_CLUSTER, message, reason.queue, remedies=(Remedy("The cluster has room for it"),))


def _entry(backend: Backend, row: _Row, position: int, reason: Reason) -> InLine:
    return InLine(
        owned=row.owned,
        group=row.name,
        pool=row.pool,
        queue=_queue(backend, row.pool),
        owner=row.owner,
        priority=row.priority,
        submit_time=row.submit_time,
        gpus=row.gpus,
        position=position,
        position_in_queue=0,
        reason=reason,
    )


def _queue(backend: Backend, pool: str) -> str:
    path = split(pool)
    return queue_name(backend.namespace, path.parent, path.subpool or SHARED)
