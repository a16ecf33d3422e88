"""Waiting work at rest: every waiting gang is in the queue once, with one reason, and the reason is true."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.history.checker.history import History, Row, State
from tests.history.checker.violations import Event, Violation, row

QUEUE = "queue"
"""The name of the reading that shows the whole queue."""

WAITING_STATUSES = frozenset({"SUBMITTING", "WAITING", "PROCESSING", "SCHEDULING"})
NEEDS_ROOM = frozenset({"no_room", "fragmented"})


@dataclass(frozen=True, slots=True)
class WaitingFacts:
    """What the tables of one state say about a waiting gang. `quota` and `used` are those of its leaf in scheduling."""

    group: Row
    workflow: Row
    leaf: Row
    root: Row
    quota: int
    used: int
    root_quota: int
    root_used: int
    total: int
    offline: bool


def every_waiting_gang_has_one_true_reason(history: History) -> Iterator[Violation]:
    """At rest the queue shows exactly the waiting gangs, each once and with one reason; the numbers of a quota reason
    are those of the tables, work that its quota stops says so, and nothing waits that could start."""
    reading = history.record.readings.get(QUEUE)
    if reading is None or reading["status"] != 200:
        return
    shown: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for each in reading["body"]["entries"]:
        shown[each["workflow"], each["group"]].append(each)
    waiting = {(facts.workflow["name"], facts.group["name"]): facts for facts in waiting_gangs(history.final)}
    for key, facts in waiting.items():
        name = f"workflow/{key[0]}/{key[1]}"
        evidence = (Event("reading", QUEUE), *row("scheduling_group", facts.group["uuid"]))
        if len(shown[key]) != 1:
            sentence = f"it waits, and the queue shows it {len(shown[key])} times."
            yield Violation("every_waiting_gang_has_one_true_reason", name, sentence, evidence)
            continue
        if text := _fault(facts, shown[key][0], history):
            yield Violation("every_waiting_gang_has_one_true_reason", name, text, evidence)
    for key, found in shown.items():
        if found and key not in waiting:
            sentence = "the queue shows it, and it does not wait."
            name = f"workflow/{key[0]}/{key[1]}"
            yield Violation("every_waiting_gang_has_one_true_reason", name, sentence, (Event("reading", QUEUE),))
    for backend, positions in _positions(reading["body"]["entries"]).items():
        if sorted(positions) != list(range(1, len(positions) + 1)):
            sentence = f"the positions of {len(positions)} waiting gangs are {sorted(positions)[:20]}."
            yield Violation(
                "every_waiting_gang_has_one_true_reason", f"backend/{backend}", sentence, (Event("reading", QUEUE),)
            )


def _positions(found: list[Mapping[str, Any]]) -> Mapping[str, list[int]]:
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for each in found:
        positions[each["backend"]].append(each["position"])
    return positions


def waiting_gangs(state: State) -> Iterator[WaitingFacts]:
    """The gangs that wait in a state that was read in one snapshot."""
    workflows = {each["uuid"]: each for each in state.rows("scheduling_workflow")}
    usage = {each["pool_id"]: each for each in state.rows("pools_leafusage")}
    offline = {each["id"]: each["offline"] for each in state.rows("pools_backend")}
    pools = {each["id"]: each for each in state.rows("pools_pool")}
    parts: defaultdict[Any, list[Row]] = defaultdict(list)
    for pool in pools.values():
        if pool["parent_id"] is not None:
            parts[pool["parent_id"]].append(pool)
    for group in state.rows("scheduling_group"):
        workflow = workflows[group["workflow_id"]]
        if group["status"] not in WAITING_STATUSES or workflow["status"] not in {"PENDING", "RUNNING"}:
            continue
        leaf, root = pools[workflow["pool_id"]], pools[workflow["root_pool_id"]]
        quotas = {part["id"]: _scheduling_quota(part, usage[part["id"]]) for part in parts[root["id"]]}
        guarantee = -1 if root["guarantee"] is None else root["guarantee"]
        shared = max(0, guarantee - sum(quotas.values()))
        quotas[root["id"]] = -1 if guarantee < 0 else shared
        root_quota = -1 if guarantee < 0 else max(guarantee, sum(quotas.values()))
        members = [root["id"], *(part["id"] for part in parts[root["id"]])]
        yield WaitingFacts(
            group, workflow, leaf, root, quotas[leaf["id"]], usage[leaf["id"]]["used"], root_quota,
            sum(usage[each]["used"] for each in members), sum(usage[each]["total_usage"] for each in members),
            offline[root["backend_id"]],
        )  # fmt: skip


def _scheduling_quota(part: Row, usage: Row) -> int:
    if part["subpool_state"] == "DELETING":
        return min(int(part["last_quota"]), int(usage["committed"]))
    return int(part["last_quota"]) if part["subpool_state"] == "ACTIVE" else 0


def _fault(facts: WaitingFacts, shown: Mapping[str, Any], history: History) -> str:
    """What is wrong with the reason of a gang, "" if nothing is."""
    reason = shown["reason"]
    code, need = reason["code"], facts.group["gpus"]
    if not reason["message"]:
        return f"its reason {code} says nothing."
    if shown["gpus"] != need:
        return f"the queue says that it asks for {shown['gpus']} GPUs, and it asks for {need}."
    guaranteed = facts.workflow["priority"] != "LOW"
    over_leaf = guaranteed and 0 <= facts.quota < facts.used + need
    over_root = guaranteed and 0 <= facts.root_quota < facts.root_used + need
    if facts.group["status"] == "WAITING":
        return "" if code == "waiting_for_groups" else f"it waits for other groups, and its reason is {code}."
    if code == "waiting_for_groups":
        return "its reason is waiting_for_groups, and it waits for GPUs."
    if facts.offline or code == "backend_offline":
        return (
            "" if facts.offline and code == "backend_offline" else f"offline is {facts.offline}, the reason is {code}."
        )
    if code == "next_pass":
        return "its reason is next_pass, and everything is at rest: the next pass did not start it."
    if code == "over_quota":
        return _wrong_numbers(facts, reason, need)
    if (over_leaf or over_root) and code != "never_fits":
        name = facts.leaf["name"] if over_leaf else facts.root["name"]
        quota, used = (facts.quota, facts.used) if over_leaf else (facts.root_quota, facts.root_used)
        return f"the quota of {name} ({quota}) has {used} GPUs in use and it asks for {need}, and its reason is {code}."
    if code in NEEDS_ROOM and reason["missing"] is not None and reason["requested"] is not None:
        free = free_gpus(history.final, facts.root["backend_id"])
        if sum(free.values()) >= need and code == "no_room" and fits(facts, free, history.final):
            return f"its reason is no_room, and all its tasks fit on the nodes, which have {dict(free)} GPUs free."
    return ""


def _wrong_numbers(facts: WaitingFacts, reason: Mapping[str, Any], need: int) -> str:
    """An elastic gang may ask for more than its minimum: its first choice of tasks."""
    is_leaf = "--" in reason["queue"]
    name = facts.leaf["name"] if is_leaf else facts.root["name"]
    quota, used = (facts.quota, facts.used) if is_leaf else (facts.root_quota, facts.root_used)
    request = reason["requested"]
    if request != need and (facts.group["gang"] is None or request < need):
        return f"its reason says that it asks for {request} GPUs, and it asks for {need}."
    if facts.workflow["priority"] == "LOW" or quota < 0 or used + request <= quota:
        return f"its reason is over_quota, and {name} has {used} GPUs of {quota} in use; it asks for {request}."
    expected, found = (max(0, quota - used), used + request - quota), (reason["free"], reason["missing"])
    if found != expected:
        return f"its reason says free and missing {found} on {name}, and the tables say {expected}."
    return ""


def free_gpus(state: State, backend: Any) -> Counter[str]:
    """The free GPUs of each node of a backend."""
    free = Counter({node["name"]: node["gpus"] for node in state.rows("pools_node") if node["backend_id"] == backend})
    groups = {each["uuid"]: each["workflow_id"] for each in state.rows("scheduling_group")}
    roots = {each["uuid"]: each["root_pool_id"] for each in state.rows("scheduling_workflow")}
    backends = {each["id"]: each["backend_id"] for each in state.rows("pools_pool")}
    for task in state.rows("scheduling_task"):
        if task["status"] == "RUNNING" and backends[roots[groups[task["group_id"]]]] == backend:
            free[task["node_name"]] -= task["gpu_count"]
    return free


def fits(facts: WaitingFacts, free: Counter[str], state: State) -> bool:
    """Whether the tasks of a plain gang fit: largest first, each on the fullest node that holds it. (Best fit finds a
    place for tasks of one size whenever there is one; gangs with several sizes are not judged.)"""
    tasks = [
        task["gpu_count"]
        for task in state.rows("scheduling_task")
        if task["group_id"] == facts.group["uuid"] and task["status"] in WAITING_STATUSES
    ]
    if facts.group["gang"] is not None or len(set(tasks)) != 1 or not tasks[0]:
        return False
    return sum(room // tasks[0] for room in free.values()) >= len(tasks)
