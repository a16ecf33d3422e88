"""The workloads of a scenario: tasks, gangs, where they run (docs/scenarios.md)."""

from __future__ import annotations

from pools.domain.errors import Fault
from pools.domain.values.amounts import GPU, Number, gpu_key
from scheduling.domain.engine.facts import HIGH, LOW, NON_PREEMPTIBLE_FROM, NORMAL, GangFacts, TaskFacts, TaskState
from scheduling.domain.gang import DEFAULT_SUB_GROUP, GangTree, SubGroup
from scheduling.domain.judgement.podgroup_rules import MAX_PODS, FieldNames, PodGroup, check_pod_group, is_structural
from scheduling.scenario.draft import ScenarioDraft
from scheduling.scenario.fields import RecordReader, read_choices, read_resources

TIME_KEYS = ("started", "time_limit", "expected_time", "checkpoint_every")
"""Keys of workloads that only a policy reads."""
WORKLOAD_KEYS = (
    "name",
    "queue",
    "priority",
    "preemptible",
    "submitted",
    "state",
    *TIME_KEYS,
    "restarts",
    "gang",
    "choice",
    "tasks",
)
TASK_KEYS = ("name", "count", "gpus", "resources", "any_of", "state", "node", "sub_group")
GANG_KEYS = ("min_member", "min_sub_group", "sub_groups")
GROUP_KEYS = ("name", "parent", "min_member", "min_sub_group")
PRIORITIES = {"HIGH": HIGH, "NORMAL": NORMAL, "LOW": LOW}
STATES = ("pending", "running", "releasing")


def read_workload(draft: ScenarioDraft, entry: RecordReader) -> None:
    """One workload; it is added to the draft if it has a name."""
    entry.reject_unknown_keys(WORKLOAD_KEYS)
    draft.last_submitted += 1
    name = entry.name("name", required=True)
    if name is not None and name in draft.gangs:
        draft.faults.add(entry.path_of("name"), Fault.DUPLICATE_NAME, "Two workloads have this name.")
    queue = entry.name("queue", required=True)
    if queue is not None and queue not in draft.queues:
        draft.faults.add(entry.path_of("queue"), Fault.UNKNOWN_NAME, "There is no queue of this name.")
    priority = _priority(entry)
    preemptible = entry.boolean("preemptible") if entry.is_given("preemptible") else None
    submitted = entry.number("submitted", draft.last_submitted)
    state = entry.choice("state", STATES, "pending")
    times = {key: entry.number(key, 0, minimum=0) if entry.is_given(key) else None for key in TIME_KEYS}
    tree = _gang(draft, entry)
    choices = _Tasks(draft, entry, name or "", state, tree).read()
    choice = (entry.whole_number("choice", 1, minimum=1, maximum=len(choices)) or 1) - 1
    if name is None:
        return
    draft.gangs[name] = GangFacts(
        name,
        queue or "",
        choices[choice],
        priority=priority,
        preemptible=priority < NON_PREEMPTIBLE_FROM if preemptible is None else preemptible,
        submitted=submitted,
        tree=tree,
        started=times["started"],
        time_limit=times["time_limit"],
        expected_time=times["expected_time"],
        checkpoint_every=times["checkpoint_every"] or None,
        restarts=entry.boolean("restarts", default=True),
        alternatives=(*choices[:choice], *choices[choice + 1 :]),
        choice=choice,
    )
    draft.gang_paths[name] = entry.path


def _priority(entry: RecordReader) -> int:
    value = entry.raw_value("priority")
    if isinstance(value, str):
        if value in PRIORITIES:
            return PRIORITIES[value]
        entry.field("priority").refuse("HIGH, NORMAL, LOW or a whole number")
        return NORMAL
    return entry.whole_number("priority", NORMAL, minimum=-MAX_PODS, maximum=MAX_PODS) or 0


def _gang(draft: ScenarioDraft, entry: RecordReader) -> GangTree | None:
    if entry.raw_value("gang") is None:
        return None
    gang = RecordReader(entry.raw_value("gang"), entry.path_of("gang"), draft.faults, "a gang")
    gang.reject_unknown_keys(GANG_KEYS)
    before = len(draft.faults.violations)

    def minimum(holder: RecordReader, key: str) -> int | None:
        if not holder.is_given(key):
            return None
        return holder.whole_number(key, 0, minimum=-MAX_PODS, maximum=MAX_PODS)

    own = (minimum(gang, "min_member"), minimum(gang, "min_sub_group"))
    groups = []
    for sub in gang.records("sub_groups", "a sub-group"):
        sub.reject_unknown_keys(GROUP_KEYS)
        group = sub.name("name", required=True) or ""
        groups.append(SubGroup(group, sub.name("parent"), minimum(sub, "min_member"), minimum(sub, "min_sub_group")))
    if len(draft.faults.violations) > before:
        return None
    pod_group = PodGroup(*own, tuple(groups))
    violations = check_pod_group(pod_group, FieldNames(gang.path, "sub_groups", "min_member", "min_sub_group"))
    if is_structural(violations):
        for violation in violations:
            code = Fault.UNKNOWN_NAME if violation.code == Fault.UNKNOWN_PARENT else violation.code
            draft.faults.add(violation.path, code, violation.message)
        return None
    draft.rule_violations.extend(violations)
    return pod_group.tree()


class _Tasks:
    """The tasks of one workload, as single tasks."""

    def __init__(
        self, draft: ScenarioDraft, entry: RecordReader, workload: str, state: str, tree: GangTree | None
    ) -> None:
        self._draft, self._entry, self._workload, self._state, self._tree = draft, entry, workload, state, tree
        self._names: set[str] = set()
        self._tasks: list[TaskFacts] = []
        self._others: list[list[TaskFacts]] = []
        """The same tasks with the requests of the second entry of `any_of`, the third, and so on."""
        self._entries: int | None = None

    def read(self) -> list[tuple[TaskFacts, ...]]:
        """The tasks in each choice of the workload."""
        for line in self._entry.records("tasks", "a task"):
            line.reject_unknown_keys(TASK_KEYS)
            self._line(line)
        if not self._entry.list_items("tasks"):
            message = "A workload needs at least one task in 'tasks'."
            self._draft.faults.add(self._entry.path_of("tasks"), Fault.BAD_VALUE, message)
        return [tuple(self._tasks), *map(tuple, self._others)]

    def _line(self, line: RecordReader) -> None:
        draft = self._draft
        count = line.whole_number("count", 1, minimum=1, maximum=draft.bounds.tasks) or 1
        request, *others = self._requests(line)
        draft.task_count += count * (1 + len(others))
        if draft.task_count > draft.bounds.tasks:
            message = f"A scenario has at most {draft.bounds.tasks} tasks here."
            line.faults.add(line.path_of("count"), Fault.BAD_VALUE, message)
            return
        state = TaskState(line.choice("state", STATES, self._state))
        node = self._node(line, state)
        group = self._group(line)
        queue = self._entry.raw_value("queue")
        allowed = draft.allowed_nodes.get(queue) if isinstance(queue, str) else None
        bars = draft.bars.get(queue, ()) if isinstance(queue, str) else ()
        own = line.name("name")
        for i in range(count):
            base, number = (self._workload, len(self._tasks)) if own is None else (own, i)
            name = base if own is not None and count == 1 else f"{base}-{number}"
            if name in self._names:
                line.faults.add(
                    line.path_of("name"),
                    Fault.DUPLICATE_NAME,
                    "Two tasks of this workload have this name.",
                )
            self._names.add(name)
            self._tasks.append(TaskFacts(name, request, group, state, node, allowed, bars))
            for tasks, other in zip(self._others, others, strict=False):
                tasks.append(TaskFacts(name, other, group, state, node, allowed, bars))

    def _requests(self, line: RecordReader) -> list[dict[str, Number]]:
        """The request of a task in each choice; as many for each line of the workload, because all tasks start in one
        choice."""
        requests = [read_resources(line)]
        if line.is_given("any_of"):
            if any(line.is_given(key) for key in ("gpus", "resources")):
                message = "Give 'any_of', or one of 'gpus' and 'resources', not both."
                line.faults.add(line.path_of("any_of"), Fault.BAD_VALUE, message)
            requests = read_choices(line)
        else:
            requests = self._in_flavors(line, requests[0])
        if self._entries is None:
            self._entries = len(requests)
            self._others = [[] for _ in requests[1:]]
        elif self._entries != len(requests):
            message = "All tasks of a workload start in one choice, so each line has as many entries in 'any_of'."
            line.faults.add(line.path_of("any_of"), Fault.BAD_VALUE, message)
        return requests

    def _in_flavors(self, line: RecordReader, request: dict[str, Number]) -> list[dict[str, Number]]:
        """GPUs that name no flavor, in each one of a live pool, as work of it gets them; on a node in that of the
        node."""
        draft, queue, node = self._draft, self._entry.raw_value("queue"), line.raw_value("node")
        flavors = draft.flavors.get(queue, ()) if isinstance(queue, str) else ()
        named = line.raw_value("resources")
        if not flavors or GPU not in request or (isinstance(named, dict) and GPU in named):
            return [request]
        there = (draft.nodes or {}).get(node) if isinstance(node, str) else None
        if there is not None:
            flavors = [flavor for flavor in flavors if gpu_key(flavor) in there.resources] or flavors[:1]
        return [
            {gpu_key(flavor) if key == GPU else key: amount for key, amount in request.items()} for flavor in flavors
        ]

    def _node(self, line: RecordReader, state: TaskState) -> str | None:
        nodes, node = self._draft.nodes, line.name("node")
        if node is not None and node not in (nodes or {}):
            line.faults.add(line.path_of("node"), Fault.UNKNOWN_NAME, "There is no node of this name.")
            return None
        if state is TaskState.PENDING:
            if node is not None:
                message = "A pending task has no node; leave 'node' out, or set the state to running."
                line.faults.add(line.path_of("node"), Fault.BAD_VALUE, message)
            return None
        if node is None and nodes is not None and line.raw_value("node") is None:
            message = f"A {state.value} task needs a 'node', since the file has nodes."
            line.faults.add(line.path_of("node"), Fault.BAD_VALUE, message)
        return node

    def _group(self, line: RecordReader) -> str:
        tree, group = self._tree, line.name("sub_group")
        name = DEFAULT_SUB_GROUP if group is None else group
        if tree is None:
            known = name == DEFAULT_SUB_GROUP or self._entry.raw_value("gang") is not None
        else:
            known = name in tree.index and tree.is_leaf(tree.index[name])
        if not known:
            path = line.path_of("sub_group")
            if group is None:
                line.faults.add(path, Fault.BAD_VALUE, "The gang has sub-groups; name the sub-group of the task.")
            else:
                line.faults.add(path, Fault.UNKNOWN_NAME, "This is not a leaf sub-group of this gang.")
        return name
