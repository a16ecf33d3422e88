"""The workloads of a scenario: tasks, gangs, where they run (design section 6)."""

from __future__ import annotations

from scheduling.domain.engine.facts import HIGH, LOW, NON_PREEMPTIBLE_FROM, NORMAL, Gang, Task, TaskState
from scheduling.domain.gang import DEFAULT_GROUP, GangTree, Group
from scheduling.domain.podgroup import MOST_PODS, Names, PodGroup, check, is_structural
from scheduling.scenario.draft import Draft
from scheduling.scenario.fields import Fault, Record, read_resources

WORKLOAD_KEYS = ("name", "queue", "priority", "preemptible", "submitted", "state", "gang", "tasks")
TASK_KEYS = ("name", "count", "gpus", "resources", "state", "node", "sub_group")
GANG_KEYS = ("min_member", "min_sub_group", "sub_groups")
GROUP_KEYS = ("name", "parent", "min_member", "min_sub_group")
PRIORITIES = {"HIGH": HIGH, "NORMAL": NORMAL, "LOW": LOW}
STATES = ("pending", "running", "releasing")


def read_workload(draft: Draft, entry: Record) -> None:
    """One workload; it is added to the draft if it has a name of its own."""
    entry.only(*WORKLOAD_KEYS)
    draft.submitted += 1
    name = entry.text("name", needed=True)
    if name is not None and name in draft.gangs:
        draft.faults.note(entry.at("name"), Fault.DUPLICATE, f"There are two workloads '{name}'.")
    queue = entry.text("queue", needed=True)
    if queue is not None and queue not in draft.queues:
        draft.faults.note(entry.at("queue"), Fault.UNKNOWN_NAME, f"There is no queue '{queue}'.")
    priority = _priority(entry)
    preemptible = entry.flag("preemptible")
    submitted = entry.number("submitted", draft.submitted)
    state = entry.one_of("state", STATES, "pending")
    tree = _gang(draft, entry)
    tasks = _Tasks(draft, entry, name or "", state, tree).read()
    if name is None:
        return
    draft.gangs[name] = Gang(
        name,
        queue or "",
        tasks,
        priority=priority,
        preemptible=priority < NON_PREEMPTIBLE_FROM if preemptible is None else preemptible,
        submitted=submitted,
        tree=tree,
    )
    draft.gang_paths[name] = entry.path


def _priority(entry: Record) -> int:
    value = entry.get("priority")
    if isinstance(value, str):
        if value in PRIORITIES:
            return PRIORITIES[value]
        entry.faults.bad(entry.at("priority"), "'priority' is HIGH, NORMAL, LOW or a whole number", value)
        return NORMAL
    return entry.whole("priority", NORMAL, least=-MOST_PODS, most=MOST_PODS) or 0


def _gang(draft: Draft, entry: Record) -> GangTree | None:
    if entry.get("gang") is None:
        return None
    gang = Record(entry.get("gang"), entry.at("gang"), draft.faults, "a gang")
    gang.only(*GANG_KEYS)
    before = len(draft.faults.found)

    def minimum(holder: Record, key: str) -> int | None:
        return holder.whole(key, None, least=-MOST_PODS, most=MOST_PODS)

    own = (minimum(gang, "min_member"), minimum(gang, "min_sub_group"))
    groups = []
    for sub in gang.items("sub_groups", "a sub-group"):
        sub.only(*GROUP_KEYS)
        group = sub.text("name", needed=True) or ""
        groups.append(Group(group, sub.text("parent"), minimum(sub, "min_member"), minimum(sub, "min_sub_group")))
    if len(draft.faults.found) > before:
        return None
    pod_group = PodGroup(*own, tuple(groups))
    violations = check(pod_group, Names(gang.path, "sub_groups", "min_member", "min_sub_group"))
    if is_structural(violations):
        for violation in violations:
            code = Fault.UNKNOWN_NAME if violation.code == "unknown_parent" else violation.code
            draft.faults.note(violation.path, code, violation.message)
        return None
    draft.notes.extend(violations)
    return pod_group.tree()


class _Tasks:
    """The task lines of one workload, counted out."""

    def __init__(self, draft: Draft, entry: Record, workload: str, state: str, tree: GangTree | None) -> None:
        self._draft, self._entry, self._workload, self._state, self._tree = draft, entry, workload, state, tree
        self._names: set[str] = set()
        self._tasks: list[Task] = []

    def read(self) -> tuple[Task, ...]:
        for line in self._entry.items("tasks", "a task"):
            line.only(*TASK_KEYS)
            self._line(line)
        if not self._entry.listed("tasks"):
            message = "A workload needs at least one task in 'tasks'."
            self._draft.faults.note(self._entry.at("tasks"), Fault.BAD_VALUE, message)
        return tuple(self._tasks)

    def _line(self, line: Record) -> None:
        draft = self._draft
        count = line.whole("count", 1, least=1, most=draft.bounds.tasks) or 1
        draft.tasks += count
        if draft.tasks > draft.bounds.tasks:
            message = f"A scenario has at most {draft.bounds.tasks} tasks here."
            line.faults.note(line.at("count"), Fault.BAD_VALUE, message)
            return
        request = read_resources(line)
        state = TaskState(line.one_of("state", STATES, self._state))
        node = self._node(line, state)
        group = self._group(line)
        queue = self._entry.get("queue")
        allowed = draft.allowed.get(queue) if isinstance(queue, str) else None
        own = line.text("name")
        for i in range(count):
            base, number = (self._workload, len(self._tasks)) if own is None else (own, i)
            name = base if own is not None and count == 1 else f"{base}-{number}"
            if name in self._names:
                line.faults.note(line.at("name"), Fault.DUPLICATE, f"Two tasks of this workload are called '{name}'.")
            self._names.add(name)
            self._tasks.append(Task(name, request, group, state, node, allowed))

    def _node(self, line: Record, state: TaskState) -> str | None:
        nodes, node = self._draft.nodes, line.text("node")
        if node is not None and node not in (nodes or {}):
            line.faults.note(line.at("node"), Fault.UNKNOWN_NAME, f"There is no node '{node}'.")
            return None
        if state is TaskState.PENDING:
            if node is not None:
                message = "A task that waits stands on no node; leave 'node' out, or say that it runs."
                line.faults.note(line.at("node"), Fault.BAD_VALUE, message)
            return None
        if node is None and nodes is not None and line.get("node") is None:
            message = f"A {state.value} task needs a 'node', since the file has nodes."
            line.faults.note(line.at("node"), Fault.BAD_VALUE, message)
        return node

    def _group(self, line: Record) -> str:
        tree, group = self._tree, line.text("sub_group")
        name = DEFAULT_GROUP if group is None else group
        if tree is None:
            known = name == DEFAULT_GROUP or self._entry.get("gang") is not None
        else:
            known = name in tree.index and tree.is_leaf(tree.index[name])
        if not known:
            path = line.at("sub_group")
            if group is None:
                line.faults.note(path, Fault.BAD_VALUE, "The gang has sub-groups; say to which the task belongs.")
            else:
                line.faults.note(path, Fault.UNKNOWN_NAME, f"'{name}' is no leaf sub-group of this gang.")
        return name
