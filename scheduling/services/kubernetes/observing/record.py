"""Keeps the work of an observed cluster in the ledger: what is new, what has changed, and what is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from pools.database.one_by_one import work_in_batch
from pools.database.transactions import DatabaseLost, change, database_time
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.domain.subpool_lifecycle import SubpoolState
from pools.locking import lock_pool_tree
from pools.models import Backend, Node, Pool, User
from pools.selectors.clusters import is_observed
from scheduling.domain.flavor_choices import FlavorNeed, GangNeeds, TaskGpus, counts_by_flavor
from scheduling.domain.observed.leaf_names import leaf_names, leaf_of
from scheduling.domain.observed.observed_object import OWNER_PREFIX
from scheduling.domain.observed.seen_pods import SeenPod, SeenWork
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, ObservedWork, Task, Workflow
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.services.kubernetes.leased_loop import BackendRemoved
from scheduling.services.kubernetes.observing.seen_transition import (
    DELETED,
    HANDED_OVER,
    OTHER_POOL,
    SeenTransition,
    new_rows,
)
from scheduling.services.workflows.insert_rows import insert_workflows

MAX_PER_TRANSACTION = 200  # every other change of that pool waits for the transaction


@dataclass(frozen=True, slots=True)
class RecordResult:
    """What a look has written. `counted` are the uids of the pods with an open attempt in a pool, `unassigned` the work
    that no pool takes, each with the pool that its queue names (empty for none), `failed` the work that the database
    did not take. Look again soon where it `is_unfinished`: some trees were locked by others, or work left a pool."""

    counted: frozenset[str]
    unassigned: tuple[tuple[SeenWork, str], ...]
    failed: tuple[SeenWork, ...]
    is_unfinished: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """Work that is followed (with both; if it is gone, to its end), ended (with a mark, and the reason), or new on a
    leaf (without a mark)."""

    mark: ObservedWork | None = None
    work: SeenWork | None = None
    message: str = ""
    leaf: int = 0


class WorkRecorder:
    """Writes the work of one backend. What it has written it does not write again while it stays the same. `may_write`
    is called under each lock and raises LeaseLost where another process works with the backend: what it writes is newer
    than this look."""

    def __init__(self, may_write: Callable[[], None] = lambda: None) -> None:
        self._may_write = may_write
        self._written: dict[str, SeenWork] = {}
        self._without_flavor: dict[str, frozenset[str]] = {}
        self._pods: dict[str, frozenset[str]] = {}
        self._has_looked = False

    def write(self, backend: Backend, works: Sequence[SeenWork], unread: Collection[str] = ()) -> RecordResult:
        """Write what differs from the last look; the record of objects that cannot be read now (by their uids) stays.
        Raises DatabaseLost, and BackendRemoved when the mode has changed since the look."""
        leaves = {leaf.name: leaf for leaf in _open_leaves(backend)}
        by_name, queue_pools = leaf_names(leaves), backend.kubernetes.queue_pools
        open_marks = {mark.uid: mark for mark in _open_marks(backend)}
        self._pods = {uid: frozenset(mark.pods) for uid, mark in open_marks.items()}
        for uid in unread:
            open_marks.pop(uid, None)
        late = self._with_new_flavors(backend)
        trees: defaultdict[int, list[_Step]] = defaultdict(list)
        unassigned, has_left = [], False
        for work in works:
            name, mark = leaf_of(work, queue_pools, by_name), open_marks.pop(work.uid, None)
            leaf = leaves.get(name)
            if mark is not None and (leaf is None or mark.workflow.pool_id != leaf.pk):
                trees[mark.workflow.root_pool_id].append(_Step(mark, message=OTHER_POOL))
                has_left = True
            elif leaf is None or (mark is None and not _takes_work(leaf)):
                if work.is_live and not work.is_gone:
                    unassigned.append((work, name))
            elif mark is None:
                if work.may_be_new:
                    trees[leaf.root.pk].append(_Step(work=work, leaf=leaf.pk))
            elif self._written.get(work.uid) != work or work.uid in late:
                trees[mark.workflow.root_pool_id].append(_Step(mark, work))
        for mark in open_marks.values():
            trees[mark.workflow.root_pool_id].append(_Step(mark, message=DELETED))
        self._written = {uid: work for uid, work in self._written.items() if uid in self._pods}
        busy = self._write_trees(backend, trees)
        unwritten = [
            (root_id, step.work)
            for root_id, steps in trees.items()
            for step in steps
            if step.work is not None and self._written.get(step.work.uid) != step.work
        ]
        failed = tuple(work for root_id, work in unwritten if root_id not in busy)
        counted = {pod for pods in self._pods.values() for pod in pods}
        for _, work in unwritten:  # its new pods hold GPUs, and no attempt has them
            counted -= {pod.uid for pod in work.pods} - self._ran_before(work)
        seen = {*unread, *(work.uid for work in works)}
        self._written = {uid: work for uid, work in self._written.items() if uid in seen}
        self._without_flavor = {uid: nodes for uid, nodes in self._without_flavor.items() if uid in seen}
        self._has_looked = self._has_looked or not busy
        return RecordResult(frozenset(counted), tuple(unassigned), failed, bool(busy) or has_left)

    def _with_new_flavors(self, backend: Backend) -> set[str]:
        """The work with pods of no flavor on a node that the ledger knows by now."""
        nodes = {node for of_work in self._without_flavor.values() for node in of_work}
        if not nodes:
            return set()
        known = set(Node.objects.filter(backend=backend, name__in=nodes).values_list("name", flat=True))
        return {uid for uid, of_work in self._without_flavor.items() if of_work & known}

    @property
    def misses_flavors(self) -> bool:
        """Whether pods run without a flavor, on nodes that the ledger did not know when they were written."""
        return bool(self._without_flavor)

    @property
    def has_looked(self) -> bool:
        """Whether the decisions since the last look are known; before the first look they are not."""
        return self._has_looked

    def with_losses(self, work: SeenWork) -> SeenWork:
        """The work with the pods that ran at the last look and that its scheduler has taken away since, as preempted:
        Kueue deletes them."""
        known = self._written.get(work.uid)
        if not work.taken_away or known is None:
            return work
        there = {pod.uid for pod in work.pods}
        lost = [pod for pod in known.pods if pod.status is TaskStatus.RUNNING and pod.uid not in there]
        taken = [replace(pod, status=TaskStatus.FAILED_PREEMPTED, message=work.taken_away) for pod in lost]
        return replace(work, pods=(*work.pods, *taken))

    def before_decisions(self, work: SeenWork) -> SeenWork:
        """The work without the starts and preemptions since the last look, but with the ends."""
        known, ran = self._written.get(work.uid), self._ran_before(work)
        pods = work.pods
        if known is not None and any(pod.uid in ran and pod.status is TaskStatus.FAILED_PREEMPTED for pod in pods):
            there = {pod.uid for pod in known.pods}
            pods = tuple(pod for pod in pods if pod.uid in there)  # those that follow the lost ones come after them
        pods = tuple(_before_decision(pod, did_run=pod.uid in ran) for pod in pods)
        return replace(work, pods=pods, is_gone=False)

    def _ran_before(self, work: SeenWork) -> set[str]:
        """The uids of its pods that ran when it was written last."""
        known = self._written.get(work.uid)
        return {pod.uid for pod in known.pods if pod.status is TaskStatus.RUNNING} if known is not None else set()

    def _write_trees(self, backend: Backend, trees: Mapping[int, Sequence[_Step]]) -> set[int]:
        """Write these steps, and return the trees that were locked by others."""
        if not trees:
            return set()
        user_id = _owner_id(backend)
        flavors = dict(Node.objects.filter(backend=backend).values_list("name", "flavor"))
        busy = set[int]()
        removed: list[BackendRemoved] = []
        for root_id, steps in sorted(trees.items()):
            for first in range(0, len(steps), MAX_PER_TRANSACTION):

                def write_some(some: Sequence[_Step], root_id: int = root_id) -> int:
                    try:
                        self._write_some(backend, root_id, some, user_id, flavors)
                    except DatabaseLost:
                        raise
                    except Busy:
                        busy.add(root_id)
                    except BackendRemoved as error:
                        removed.append(error)  # no fault of these rows
                    return len(some)

                work_in_batch("work of an observed cluster", steps[first : first + MAX_PER_TRANSACTION], write_some)
                if removed:
                    raise removed[0]
        return busy

    def _write_some(
        self, backend: Backend, root_id: int, steps: Sequence[_Step], user_id: int, flavors: Mapping[str, str]
    ) -> None:
        with change(actor=SYSTEM, description="observed", controller_of=backend.pk):
            root = lock_pool_tree(root_id)
            root.backend = backend
            if not is_observed(backend):
                raise BackendRemoved
            self._may_write()
            follows = [(_copy(step.mark), step.work) for step in steps if step.mark and step.work]
            follows += _insert(root, [step for step in steps if step.mark is None], user_id)
            ends = [(_copy(step.mark), step.message) for step in steps if step.mark and step.work is None]
            marks = [mark for mark, _ in (*follows, *ends)]
            ends += [(mark, DELETED) for mark, work in follows if work.is_gone]
            seen = SeenTransition(root, marks, now=database_time(), node_flavors=flavors, tells_starts=self._has_looked)
            for mark, work in follows:
                seen.follow(mark, work)
            for mark, message in ends:
                seen.end(mark, message)
            seen.save()
        for mark in marks:
            self._pods[mark.uid] = frozenset(mark.pods if mark.is_open else ())
            self._without_flavor.pop(mark.uid, None)
        self._written |= {work.uid: work for _, work in follows}
        self._without_flavor |= seen.without_flavor


def _copy(mark: ObservedWork) -> ObservedWork:
    """A mark to change: where the transaction fails, its rows are written again one by one, from the same facts."""
    found = copy(mark)
    found.pods, found.pod_names = dict(mark.pods), dict(mark.pod_names)
    return found


def _before_decision(pod: SeenPod, *, did_run: bool) -> SeenPod:
    if pod.status is TaskStatus.RUNNING and not did_run:
        return replace(pod, status=TaskStatus.SCHEDULING, node="", started=None)
    if pod.status is TaskStatus.FAILED_PREEMPTED and did_run:
        return replace(pod, status=TaskStatus.RUNNING, message="", exit_code=None)
    return pod


def end_observation(backend: Backend, only: Pool | None = None) -> int:
    """End the record of the work that was seen here, of all or of one tree; the work itself goes on. Returns its
    number. The caller holds the locks of the trees."""
    marks = defaultdict(list)
    for mark in _open_marks(backend):
        if only is None or mark.workflow.root_pool_id == only.pk:
            marks[mark.workflow.root_pool_id].append(mark)
    for root_id, of_root in sorted(marks.items()):
        root = Pool.objects.get(pk=root_id)
        root.backend = backend
        seen = SeenTransition(root, of_root, now=database_time(), node_flavors={}, tells_starts=False)
        for mark in of_root:
            seen.end(mark, HANDED_OVER)
        seen.save()
    return sum(map(len, marks.values()))


def _insert(root: Pool, new: Sequence[_Step], user_id: int) -> list[tuple[ObservedWork, SeenWork]]:
    """The rows of new work, each as if it waited. The caller holds the lock of the tree."""
    if not new:
        return []
    leaves = {leaf.pk: leaf for leaf in Pool.objects.filter(pk__in={step.leaf for step in new})}
    for leaf in leaves.values():
        if leaf.parent_id is not None:
            leaf.parent = root
        else:
            leaves[leaf.pk] = root
    flavors = read_pool_flavors(root)
    seen = [(step.work, leaves[step.leaf]) for step in new if step.work is not None]
    rows = [(work, *new_rows(work, leaf, user_id)) for work, leaf in seen]
    workflows: list[Workflow] = [row[1] for row in rows]
    groups: list[Group] = [row[2] for row in rows]
    tasks: list[Task] = [task for row in rows for task in row[3]]
    by_flavor: list[Mapping[str, tuple[int, int]]] = []
    for _, _, group, of_group, _ in rows:
        needs: tuple[FlavorNeed, GangNeeds] = (
            {},
            flavors.needs([TaskGpus(task.gpu_count, (), task.platform, "") for task in of_group], group.gpus, None),
        )
        by_flavor.append(counts_by_flavor([needs]) if flavors.names else {})
    owner = User.objects.values_list("username", flat=True).get(pk=user_id)
    insert_workflows(owner, workflows, groups, tasks, [group.gpus for group in groups], by_flavor)
    ObservedWork.objects.bulk_create([row[4] for row in rows])
    return [(row[4], row[0]) for row in rows]


def _open_leaves(backend: Backend) -> Collection[Pool]:
    """The leaves that may have work; one that drains keeps what it has."""
    roots = Pool.objects.roots().filter(backend=backend, archived=False)
    parts = Pool.objects.filter(parent__in=roots).exclude(subpool_state=SubpoolState.ARCHIVED)
    return [*roots, *parts.select_related("parent")]


def _takes_work(leaf: Pool) -> bool:
    return leaf.subpool_state in {None, SubpoolState.ACTIVE}


def _open_marks(backend: Backend) -> Collection[ObservedWork]:
    rows = ObservedWork.objects.filter(backend=backend, is_open=True).select_related("workflow")
    return rows.defer("workflow__spec", "workflow__template_spec")


def _owner_id(backend: Backend) -> int:
    """The account that owns the observed work of this cluster; nobody can sign in as it."""
    name = f"{OWNER_PREFIX}{backend.name}"
    found = User.objects.filter(username=name).values_list("pk", flat=True).first()
    if found is not None:
        return found
    with change(actor=SYSTEM, description="observed"):
        user = User(username=name, is_active=False, created_by=SYSTEM.username)
        user.set_unusable_password()
        user.save()
    return user.pk
