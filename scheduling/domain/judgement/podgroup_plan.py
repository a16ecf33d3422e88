"""The next steps of a PodGroup with its pods: readiness, the next attempt, the order of giving up (design, A6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.values.amounts import GPU, UNLIMITED
from pools.domain.values.query_values import MAX_INTEGER
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, NodeFacts, QueueFacts, TaskFacts, TaskState
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.gang import DEFAULT_SUB_GROUP, ROOT, GangTree, Growth
from scheduling.domain.judgement.podgroup_rules import api_violations, is_structural, read_pod_group

ACTIVE_STATES = ("Bound", "Running")
MAX_ROOM = 10_000
COMPLETED_STATE = "Succeeded"
POD_STATES = (
    "Pending", "Gated", *ACTIVE_STATES, "Releasing", "Terminating", COMPLETED_STATE, "Failed", "Unknown",
)  # fmt: skip
"""Completed pods count like active ones. Those that wait for a gate, are being deleted, have failed or are lost count
for nothing."""


@dataclass(slots=True)
class _Pods:
    """The names of the pods of each leaf, in the order they were given."""

    pending: dict[int, list[str]] = field(default_factory=dict)
    active: dict[int, list[str]] = field(default_factory=dict)
    completed: dict[int, list[str]] = field(default_factory=dict)
    gpus: dict[str, int] = field(default_factory=dict)


class ProgressAnswer(TypedDict):
    """How far a gang or a SubGroup is."""

    ready: bool
    satisfied: bool
    threshold: int
    count: int


class PlannedSubGroupAnswer(ProgressAnswer):
    """A SubGroup of a plan."""

    name: str
    parent: str | None
    required: bool


class RankedViolationAnswer(TypedDict):
    """A broken rule of a manifest."""

    path: str
    code: str
    message: str
    severity: Annotated[str, Literal["error", "warning"]]


class PlanAnswer(ProgressAnswer):
    """The next steps of a PodGroup with its present pods."""

    stale: bool
    to_evict: list[str]
    sub_groups: list[PlannedSubGroupAnswer]
    next: list[str]
    give_up_order: list[list[str]]
    non_preemptible_pods: int
    violations: list[RankedViolationAnswer]


def ranked_violations(violations: Iterable[Violation]) -> list[RankedViolationAnswer]:
    """The broken rules of a manifest with their severity."""
    return [
        {"path": each.path, "code": str(each.code), "message": each.message, "severity": each.severity}
        for each in violations
    ]


def plan_pod_group(body: object) -> PlanAnswer:
    """The answer to `{"podgroup": manifest, "pods": [{"name", "sub_group", "state", "gpus"}], "room": {node: GPUs}}`.

    With `room`, the free GPUs of each node, `next` are the pods that start there first, each with `gpus` (1 if not
    given); nothing is taken from other work. Without it, everything has room.

    Raises `BadInput` for structural faults of the PodGroup and for invalid pods. Other violations are listed in the
    answer, where a minimum of 0 requires nothing."""
    if not isinstance(body, Mapping):
        raise BadInput.of([Violation("", Fault.BAD_VALUE, "The body is a map with `podgroup`, `pods` and `room`.")])
    unknown = [
        Violation(str(key), Fault.UNKNOWN_KEY, f"'{key}' is not known here; use `podgroup`, `pods` and `room`.")
        for key in body
        if key not in {"podgroup", "pods", "room"}
    ]
    if unknown:
        raise BadInput.of(unknown)
    group, violations = read_pod_group(body.get("podgroup"))
    violations = [*api_violations(body.get("podgroup")), *violations]
    if is_structural(violations):
        raise BadInput.of(violations)
    tree = group.tree()
    pods, faults = _read_pods(tree, body.get("pods"))
    room, room_faults = _read_room(body.get("room"))
    if faults or room_faults:
        raise BadInput.of([*faults, *room_faults])
    return _answer(tree, pods, room, violations)


def _read_pods(tree: GangTree, written: object) -> tuple[_Pods, list[Violation]]:
    pods, faults, seen = _Pods(), [], set()
    if written is None:
        written = []
    if not isinstance(written, list):
        return pods, [Violation("pods", Fault.BAD_VALUE, "`pods` is a list.")]
    for position, item in enumerate(written):
        path = f"pods[{position}]"
        if not isinstance(item, Mapping):
            faults.append(Violation(path, Fault.BAD_VALUE, "A pod is a map with `name` and `state`."))
            continue
        name, state = item.get("name"), item.get("state", "Pending")
        group = item.get("sub_group")
        group = DEFAULT_SUB_GROUP if group is None else group
        faults.extend(
            Violation(
                f"{path}.{key}", Fault.UNKNOWN_KEY, f"'{key}' is not known here; use name, sub_group, state and gpus."
            )
            for key in item
            if key not in {"name", "sub_group", "state", "gpus"}
        )
        gpus = item.get("gpus", 1)
        if not _is_count(gpus):
            faults.append(Violation(f"{path}.gpus", Fault.BAD_VALUE, f"A pod has 0 to {MAX_INTEGER:,} whole GPUs."))
        elif isinstance(name, str):
            pods.gpus[name] = gpus
        if not isinstance(name, str) or not name:
            faults.append(Violation(f"{path}.name", Fault.BAD_VALUE, "A pod needs a name."))
        elif name in seen:
            faults.append(Violation(f"{path}.name", Fault.DUPLICATE_NAME, f"Pod '{name}' is listed twice."))
        else:
            seen.add(name)
        leaf = tree.index.get(group) if isinstance(group, str) else None
        if leaf is None or not tree.is_leaf(leaf):
            message = f"'{group}' is not a leaf SubGroup of this PodGroup."
            faults.append(Violation(f"{path}.sub_group", Fault.UNKNOWN_NAME, message))
        if state not in POD_STATES:
            faults.append(
                Violation(f"{path}.state", Fault.BAD_VALUE, f"A pod's state is one of {', '.join(POD_STATES)}.")
            )
        elif leaf is not None and state == "Pending":
            pods.pending.setdefault(leaf, []).append(str(name))
        elif leaf is not None and state in ACTIVE_STATES:
            pods.active.setdefault(leaf, []).append(str(name))
        elif leaf is not None and state == COMPLETED_STATE:
            pods.completed.setdefault(leaf, []).append(str(name))
    return pods, faults


def _read_room(written: object) -> tuple[dict[str, int] | None, list[Violation]]:
    """The free GPUs of each node; None if they are not given."""
    if written is None:
        return None, []
    if not isinstance(written, Mapping) or not all(isinstance(name, str) for name in written):
        return None, [Violation("room", Fault.BAD_VALUE, "`room` is a map from the name of a node to its free GPUs.")]
    if len(written) > MAX_ROOM:
        message = f"`room` has {len(written):,} nodes; {MAX_ROOM:,} are the most."
        return None, [Violation("room", Fault.TOO_LARGE, message)]
    message = f"A node has 0 to {MAX_INTEGER:,} whole free GPUs."
    faults = [
        Violation(f"room.{name}", Fault.BAD_VALUE, message) for name, free in written.items() if not _is_count(free)
    ]
    return dict(written), faults


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER


def _answer(tree: GangTree, pods: _Pods, room: Mapping[str, int] | None, violations: Iterable[Violation]) -> PlanAnswer:
    nodes = range(len(tree.names))
    active = [len(pods.active.get(x, ())) for x in nodes]
    completed = [len(pods.completed.get(x, ())) for x in nodes]
    waiting = [len(pods.pending.get(x, ())) for x in nodes]
    held = [a + c for a, c in zip(active, completed, strict=True)]
    counts = tree.counts(held)
    ready = tree.counts([h + w for h, w in zip(held, waiting, strict=True)])
    is_stale = any(active) and not any(completed) and counts[ROOT] < tree.thresholds[ROOT]
    return {
        "ready": ready[ROOT] >= tree.thresholds[ROOT],
        "satisfied": counts[ROOT] >= tree.thresholds[ROOT],
        "stale": is_stale,
        "threshold": tree.thresholds[ROOT],
        "count": counts[ROOT],
        "sub_groups": [
            {
                "name": tree.names[x],
                "parent": tree.names[tree.parents[x]] if tree.parents[x] > 0 else None,
                "threshold": tree.thresholds[x],
                "count": counts[x],
                "ready": ready[x] >= tree.thresholds[x],
                "satisfied": counts[x] >= tree.thresholds[x],
                "required": required,
            }
            for x, required in _serving_order(tree, counts, ready)
        ],
        "next": _next(tree, pods, held, waiting) if room is None else _next_in_room(tree, pods, room),
        "to_evict": [name for names in pods.active.values() for name in names] if is_stale else [],
        "give_up_order": _give_up_order(tree, pods, active, completed),
        "non_preemptible_pods": tree.min_pods(),
        "violations": ranked_violations(violations),
    }


def _serving_order(tree: GangTree, counts: Sequence[int], ready: Sequence[int]) -> list[tuple[int, bool]]:
    """Every group with whether it is required now, in serving order, parents before their children."""
    if tree.is_single_leaf:
        return [(ROOT, counts[ROOT] < tree.thresholds[ROOT])]
    order: list[tuple[int, bool]] = []
    stack = [(ROOT, False)]
    while stack:
        x, required = stack.pop()
        if x != ROOT:
            order.append((x, required))
        needed = set(tree.needed_children(x, counts, ready))
        stack.extend((child, child in needed) for child in reversed(tree.serving_order(x, counts)))
    return order


def _next(tree: GangTree, pods: _Pods, held: Sequence[int], waiting: Sequence[int]) -> list[str]:
    chosen: list[str] = []

    def place(leaf: int, count: int) -> bool:
        chosen.extend(pods.pending.get(leaf, [])[:count])
        return True

    def undo(mark: int) -> None:
        del chosen[mark:]

    Growth(tree, held, waiting, place, mark=lambda: len(chosen), undo=undo).attempt()
    return chosen


def _next_in_room(tree: GangTree, pods: _Pods, room: Mapping[str, int]) -> list[str]:
    """The pods of the first start of the scheduling engine, on nodes with this room and without any quota."""
    tasks = [
        TaskFacts(name, {GPU: pods.gpus[name]}, tree.names[leaf], state)
        for state, by_leaf in ((TaskState.RUNNING, pods.active), (TaskState.PENDING, pods.pending))
        for leaf, names in by_leaf.items()
        for name in names
    ]
    tasks += [  # they count, and hold nothing
        TaskFacts(name, {}, tree.names[leaf], TaskState.RUNNING)
        for leaf, names in pods.completed.items()
        for name in names
    ]
    facts = ClusterFacts(
        queues=(QueueFacts("all", quota={GPU: UNLIMITED}),),
        gangs=(GangFacts("gang", "all", tuple(tasks), tree=tree),),
        nodes=tuple(NodeFacts(name, {GPU: free}) for name, free in room.items()),
    )
    starts = (step for step in run_cycle(facts).steps if step.action is StepAction.START)
    first = next(starts, None)
    return [] if first is None else list(first.tasks)


def _give_up_order(tree: GangTree, pods: _Pods, active: Sequence[int], completed: Sequence[int]) -> list[list[str]]:
    left = {leaf: list(names) for leaf, names in pods.active.items()}
    held = list(active)
    order = []
    while step := tree.give_up_step(held, completed):
        names: list[str] = []
        for leaf, count in step:
            names.extend(left[leaf].pop() for _ in range(count))
            held[leaf] -= count
        order.append(names)
    return order
