"""The next steps of a PodGroup with its pods: readiness, the next attempt, the order of giving up (api.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pools.domain.errors import BadInput, Violation
from scheduling.domain.gang import DEFAULT_SUB_GROUP, ROOT, GangTree, Growth
from scheduling.domain.podgroup_rules import is_structural, read_pod_group

ACTIVE_STATES = ("Bound", "Running")
POD_STATES = ("Pending", "Gated", *ACTIVE_STATES, "Releasing", "Succeeded", "Failed")


@dataclass(slots=True)
class _Pods:
    """The names of the pods of each leaf, in the order they were given."""

    pending: dict[int, list[str]] = field(default_factory=dict)
    active: dict[int, list[str]] = field(default_factory=dict)


def plan_pod_group(body: object) -> dict[str, Any]:
    """The answer to `{"podgroup": manifest, "pods": [{"name", "sub_group", "state"}]}`.

    Raises `BadInput` for structural faults of the PodGroup and for invalid pods. Other violations are listed in the
    answer, where a minimum of 0 requires nothing."""
    if not isinstance(body, Mapping):
        raise BadInput.of([Violation("", "bad_value", "The body is a map with `podgroup` and `pods`.")])
    unknown = [
        Violation(str(key), "unknown_key", f"'{key}' is not known here; use `podgroup` and `pods`.")
        for key in body
        if key not in {"podgroup", "pods"}
    ]
    if unknown:
        raise BadInput.of(unknown)
    group, violations = read_pod_group(body.get("podgroup"))
    if is_structural(violations):
        raise BadInput.of(violations)
    tree = group.tree()
    pods, faults = _read_pods(tree, body.get("pods"))
    if faults:
        raise BadInput.of(faults)
    return {**_answer(tree, pods), "violations": [dict(v.as_dict(), severity=v.severity) for v in violations]}


def _read_pods(tree: GangTree, written: object) -> tuple[_Pods, list[Violation]]:
    pods, faults, seen = _Pods(), [], set()
    if written is None:
        written = []
    if not isinstance(written, list):
        return pods, [Violation("pods", "bad_value", "`pods` is a list.")]
    for position, item in enumerate(written):
        path = f"pods[{position}]"
        if not isinstance(item, Mapping):
            faults.append(Violation(path, "bad_value", "A pod is a map with `name` and `state`."))
            continue
        name, state = item.get("name"), item.get("state", "Pending")
        group = item.get("sub_group")
        group = DEFAULT_SUB_GROUP if group is None else group
        faults.extend(
            Violation(f"{path}.{key}", "unknown_key", f"'{key}' is not known here; use name, sub_group and state.")
            for key in item
            if key not in {"name", "sub_group", "state"}
        )
        if not isinstance(name, str) or not name:
            faults.append(Violation(f"{path}.name", "bad_value", "A pod needs a name."))
        elif name in seen:
            faults.append(Violation(f"{path}.name", "duplicate_name", f"Pod '{name}' is listed twice."))
        else:
            seen.add(name)
        leaf = tree.index.get(group) if isinstance(group, str) else None
        if leaf is None or not tree.is_leaf(leaf):
            message = f"'{group}' is not a leaf SubGroup of this PodGroup."
            faults.append(Violation(f"{path}.sub_group", "unknown_name", message))
        if state not in POD_STATES:
            faults.append(Violation(f"{path}.state", "bad_value", f"A pod's state is one of {', '.join(POD_STATES)}."))
        elif leaf is not None and state == "Pending":
            pods.pending.setdefault(leaf, []).append(str(name))
        elif leaf is not None and state in ACTIVE_STATES:
            pods.active.setdefault(leaf, []).append(str(name))
    return pods, faults


def _answer(tree: GangTree, pods: _Pods) -> dict[str, Any]:
    nodes = range(len(tree.names))
    active = [len(pods.active.get(x, ())) for x in nodes]
    waiting = [len(pods.pending.get(x, ())) for x in nodes]
    counts = tree.counts(active)
    ready = tree.counts([a + w for a, w in zip(active, waiting, strict=True)])
    return {
        "ready": ready[ROOT] >= tree.thresholds[ROOT],
        "satisfied": counts[ROOT] >= tree.thresholds[ROOT],
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
        "next": _next(tree, pods, active, waiting),
        "give_up_order": _give_up_order(tree, pods, active),
        "non_preemptible_pods": tree.min_pods(),
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


def _next(tree: GangTree, pods: _Pods, active: Sequence[int], waiting: Sequence[int]) -> list[str]:
    chosen: list[str] = []

    def place(leaf: int, count: int) -> bool:
        chosen.extend(pods.pending.get(leaf, [])[:count])
        return True

    def undo(mark: int) -> None:
        del chosen[mark:]

    Growth(tree, active, waiting, place, mark=lambda: len(chosen), undo=undo).attempt()
    return chosen


def _give_up_order(tree: GangTree, pods: _Pods, active: Sequence[int]) -> list[list[str]]:
    left = {leaf: list(names) for leaf, names in pods.active.items()}
    held = list(active)
    order = []
    while step := tree.give_up_step(held):
        names: list[str] = []
        for leaf, count in step:
            names.extend(left[leaf].pop() for _ in range(count))
            held[leaf] -= count
        order.append(names)
    return order
