"""The states of a pool with its subpools, one after each transaction, rebuilt from the audit trail and the attempts.

The audit trail has every change of quotas, states and of the status of workflows; the final rows of attempts, with the
decisions that started them, have every GPU that was held. Both carry the commit time, so one order of transactions
contains both. `pool_timelines` replays them with plain sums.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tests.history.checker.history import Entry, History, Row, transaction_number

ACTIVE_STATUSES = frozenset({"PENDING", "RUNNING", "WAITING"})
OPEN_STATUSES = frozenset({"SUBMITTING", "WAITING", "PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"})
SHARED = ""
"""The short name of the shared leaf."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf. `state` and `version` are None for the shared leaf; `quota` is the last quota of a subpool."""

    name: str
    state: str | None = None
    quota: int = 0
    version: int | None = None
    used: int = 0
    total: int = 0
    live: int = 0

    @property
    def accounting_quota(self) -> int:
        """0 unless ACTIVE."""
        return self.quota if self.state == "ACTIVE" else 0


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool after one transaction. `guarantee` is -1 without a limit; `begin` and `end` are the times between which it
    was the committed state; `entries` are the audit entries of the transaction, `started` the leaves and priorities of
    work that it started."""

    root: Any
    name: str
    guarantee: int
    maximum: int
    version: int | None
    archived: bool
    leaves: Mapping[str, Leaf]
    begin: float
    end: float = math.inf
    entries: tuple[Entry, ...] = ()
    started: tuple[tuple[str, str, str], ...] = ()
    """(leaf, priority, workflow) of each start."""

    @property
    def allocated(self) -> int:
        """Sum of the quotas of the ACTIVE subpools."""
        return sum(leaf.accounting_quota for leaf in self.leaves.values())

    @property
    def total(self) -> int:
        """GPUs of all running work."""
        return sum(leaf.total for leaf in self.leaves.values())

    def guaranteed_limit(self, short: str) -> float:
        """The most GPUs that HIGH and NORMAL work of a leaf may hold when some of it starts."""
        if short != SHARED:
            leaf = self.leaves[short]
            return leaf.quota if leaf.state in {"ACTIVE", "DELETING"} else 0
        if self.guarantee < 0:
            return math.inf
        others = [leaf for name, leaf in self.leaves.items() if name != SHARED]
        draining = sum(min(leaf.quota, leaf.used) for leaf in others if leaf.state == "DELETING")
        return max(0, self.guarantee - self.allocated - draining)

    def container_limit(self) -> float:
        """The most GPUs that HIGH and NORMAL work of the whole pool may hold when some of it starts."""
        if self.guarantee < 0:
            return math.inf
        draining = sum(leaf.quota for leaf in self.leaves.values() if leaf.state == "DELETING")
        return max(self.guarantee, self.allocated + draining)


@dataclass(slots=True)
class Timeline:
    """The states of one pool in the order of commits. `knows_usage` is False where a cluster decides."""

    states: list[PoolState] = field(default_factory=list)
    knows_usage: bool = True

    def between(self, begin: float, end: float) -> list[PoolState]:
        """The states that were current at some moment between two times."""
        first = max(0, bisect.bisect_right(self.states, begin, key=lambda state: state.begin) - 1)
        last = bisect.bisect_right(self.states, end, key=lambda state: state.begin)
        return self.states[first : max(last, first + 1)]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One started attempt with the commits of its start and of its end (infinite while it runs)."""

    row: Row
    workflow: Row
    begin: float
    begin_transaction: int | None
    end: float
    end_transaction: int | None


def start_decisions(history: History) -> dict[tuple[str, str], list[Row]]:
    """By group and task: the decisions that started an attempt, by id."""
    found: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for decision in sorted(history.rows("scheduling_decision"), key=lambda each: int(each["id"])):
        if decision["action"] in {"start", "move"}:
            for task in decision["tasks"]:
                found[decision["group_id"], task].append(decision)
    return dict(found)


def attempts_by_task(history: History) -> dict[tuple[str, str], list[Row]]:
    """By group and task: all attempts, by number."""
    found: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for task in history.rows("scheduling_task"):
        found[task["group_id"], task["name"]].append(task)
    return {key: sorted(rows, key=lambda row: int(row["retry_id"])) for key, rows in found.items()}


def started_attempts(history: History) -> list[Attempt]:
    """Every attempt on a simulated backend that ran, with the commits between which it held its GPUs."""
    groups = {row["uuid"]: row for row in history.rows("scheduling_group")}
    workflows = {row["uuid"]: row for row in history.rows("scheduling_workflow")}
    decisions = start_decisions(history)
    found = []
    for key, rows in attempts_by_task(history).items():
        group = groups.get(key[0])
        workflow = None if group is None else workflows.get(group["workflow_id"])
        if workflow is None:
            continue
        by_time: defaultdict[str, list[Row]] = defaultdict(list)
        for decision in decisions.get(key, ()):
            by_time[decision["time"]].append(decision)
        for row in rows:
            # A start and its decision have the time of one scheduling cycle, which may start a task and then move it.
            same_cycle = by_time[row["start_time"]]
            if not same_cycle:
                continue
            decision = same_cycle.pop(0)
            begin = history.commit_time(decision.get("_committed"))
            is_open = row["status"] in OPEN_STATUSES
            end = math.inf if is_open else history.commit_time(row.get("_committed"))
            found.append(
                Attempt(
                    row, workflow,
                    -math.inf if begin is None else begin, transaction_number(decision.get("_xid")),
                    -math.inf if end is None else end, None if is_open else transaction_number(row.get("_xid")),
                )
            )  # fmt: skip
    return found


def entry_versions(history: History) -> dict[int, int]:
    """Audit id → version that this change gave to its pool row."""
    at_start = {str(row["id"]): row["version"] for row in history.start.rows("pools_pool")}
    found: dict[int, int] = {}
    for (kind, key), chain in history.entries_by_row.items():
        if kind != "pool":
            continue
        old = [entry for entry in chain if entry.id <= history.last_old_entry]
        base = int(at_start[key]) - len(old) if key in at_start else 0
        found |= {entry.id: base + place for place, entry in enumerate(chain, 1)}
    return found


@dataclass(slots=True)
class _Step:
    """All changes of one transaction to one pool."""

    at: float
    order: int = 0
    entries: list[Entry] = field(default_factory=list)
    usage: list[tuple[Any, str, int, Row | None]] = field(default_factory=list)
    """(leaf row, priority, GPUs gained, the workflow that it started or None)."""


def pool_timelines(history: History) -> dict[Any, Timeline]:
    """The timeline of each top-level pool, by its id."""
    parents = {key: row["parent_id"] or key for key, row in history.pools.items()}
    versions = entry_versions(history)
    steps: defaultdict[Any, dict[tuple[float, int | None], _Step]] = defaultdict(dict)

    def step(root: Any, at: float | None, transaction: int | None) -> _Step:
        moment = -math.inf if at is None else at
        return steps[root].setdefault((moment, transaction), _Step(moment))

    for entry in history.entries:
        image = entry.after or entry.before
        if image is None or entry.kind not in {"pool", "workflow"}:
            continue
        root = image.get("root_pool_id") if entry.kind == "workflow" else image.get("parent_id") or image.get("id")
        place = step(root, entry.committed, transaction_number(entry.transaction))
        place.entries.append(entry)
        place.order = max(place.order, entry.id)
    for attempt in started_attempts(history):
        leaf, priority = attempt.workflow["pool_id"], attempt.workflow["priority"]
        root, gpus = parents.get(leaf, leaf), int(attempt.row["gpu_count"])
        step(root, attempt.begin, attempt.begin_transaction).usage.append((leaf, priority, gpus, attempt.workflow))
        if attempt.end < math.inf:
            step(root, attempt.end, attempt.end_transaction).usage.append((leaf, priority, -gpus, None))
    found = {}
    for root, by_moment in steps.items():
        ordered = sorted(by_moment.values(), key=lambda each: (each.at, each.order))
        found[root] = Timeline(list(_close(_replay(history, root, ordered, versions))), root in history.simulated_roots)
    return found


def _replay(history: History, root: Any, steps: list[_Step], versions: Mapping[int, int]) -> Iterator[PoolState]:
    shorts: dict[Any, str] = {
        key: row["subpool_name"] or SHARED
        for key, row in history.pools.items()
        if key == root or row["parent_id"] == root
    }
    state = PoolState(root, history.pool_name(root), -1, -1, None, False, {SHARED: Leaf(SHARED)}, -math.inf)
    for step in steps:
        leaves = dict(state.leaves)
        changes: dict[str, Any] = {}
        for entry in step.entries:
            image = entry.after
            if entry.kind == "workflow":
                _count_live(entry, leaves, shorts)
            elif image is None:
                continue
            elif image["id"] == root:
                changes |= {
                    "name": image["name"],
                    "guarantee": -1 if image["guarantee"] is None else image["guarantee"],
                    "maximum": -1 if image["maximum"] is None else image["maximum"],
                    "archived": image["archived"],
                    "version": versions.get(entry.id),
                }
            else:
                short = shorts.setdefault(image["id"], image["subpool_name"])
                leaf = leaves.get(short, Leaf(short))
                leaves[short] = replace(
                    leaf, state=image["subpool_state"], quota=image["last_quota"], version=versions.get(entry.id)
                )
        for leaf_row, priority, gpus, _ in step.usage:
            short = shorts.get(leaf_row, SHARED)
            leaf = leaves.get(short, Leaf(short))
            guaranteed = 0 if priority == "LOW" else gpus
            leaves[short] = replace(leaf, used=leaf.used + guaranteed, total=leaf.total + gpus)
        started = tuple(
            (shorts.get(leaf_row, SHARED), priority, workflow["name"])
            for leaf_row, priority, _, workflow in step.usage
            if workflow is not None
        )
        state = replace(state, leaves=leaves, begin=step.at, entries=tuple(step.entries), started=started, **changes)
        yield state


def _count_live(entry: Entry, leaves: dict[str, Leaf], shorts: Mapping[Any, str]) -> None:
    for image, sign in ((entry.before, -1), (entry.after, 1)):
        if image is not None and image["status"] in ACTIVE_STATUSES:
            short = shorts.get(image["pool_id"], SHARED)
            leaf = leaves.get(short, Leaf(short))
            leaves[short] = replace(leaf, live=leaf.live + sign)


def _close(states: Iterator[PoolState]) -> Iterator[PoolState]:
    found = list(states)
    for state, following in pairwise(found):
        yield replace(state, end=following.begin)
    yield from found[-1:]
