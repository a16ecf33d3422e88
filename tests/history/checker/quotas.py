"""Quotas: never promised twice, never exceeded by a start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from tests.history.checker.history import History, Row
from tests.history.checker.pool_states import SHARED, PoolState, pool_timelines, started_attempts
from tests.history.checker.violations import Event, Violation, calls, entries, row


def quotas_promised_once(history: History) -> Iterator[Violation]:
    """The quotas of the ACTIVE subpools of a pool never exceed the quota of the pool: after no transaction, in no
    sample and in no answer."""
    for timeline in history.once(pool_timelines).values():
        for state in timeline.states:
            if text := _overcommitment(state.name, state.guarantee, state.allocated):
                yield Violation(
                    "quotas_promised_once", state.name, f"After one transaction {text}", _last_quota_entries(state)
                )
                break
    for each in history.states:
        parts: defaultdict[Any, list[Row]] = defaultdict(list)
        for pool in each.rows("pools_pool"):
            parts[pool["parent_id"]].append(pool)
        for root in parts[None]:
            active = [part for part in parts[root["id"]] if part["subpool_state"] == "ACTIVE"]
            guarantee = -1 if root["guarantee"] is None else root["guarantee"]
            if text := _overcommitment(root["name"], guarantee, sum(part["last_quota"] for part in active)):
                evidence = tuple(event for part in [root, *active] for event in row("pools_pool", part["id"]))
                sample = (Event("sample", each.label),)
                yield Violation("quotas_promised_once", root["name"], f"In {each.label} {text}", sample + evidence)
    for call in history.calls:
        body = call.answer
        if call.is_ok and isinstance(body, dict) and isinstance(body.get("subpools"), list) and "quota" in body:
            allocated = sum(part["quota"] for part in body["subpools"])
            if text := _overcommitment(body["pool"], body["quota"], allocated):
                yield Violation("quotas_promised_once", body["pool"], f"In an answer {text}", calls(call.id))


def _overcommitment(name: str, guarantee: int, allocated: int) -> str:
    if guarantee < 0 or allocated <= guarantee:
        return "" if guarantee >= 0 or not allocated else f"{name} has no quota and subpools with {allocated} GPUs."
    return f"the ACTIVE subpools of {name} have quotas of {allocated} GPUs together, the pool has {guarantee}."


def _last_quota_entries(state: PoolState) -> tuple[Event, ...]:
    return entries(entry.id for entry in state.entries if entry.kind == "pool")


def guaranteed_work_within_quota(history: History) -> Iterator[Violation]:
    """HIGH and NORMAL work starts only within the quota of its leaf and of its pool; all work starts only within the
    maximum of its pool, where no cohort stands above it."""
    for timeline in history.once(pool_timelines).values():
        root = history.pools.get(timeline.states[0].root, {})
        for state in timeline.states:
            evidence = entries(entry.id for entry in state.entries)
            for short, priority, workflow in dict.fromkeys(state.started):
                leaf = state.leaves[short]
                name = f"{state.name}--{short}" if short != SHARED else state.name
                if priority != "LOW" and leaf.used > (limit := state.guaranteed_limit(short)):
                    sentence = (
                        f"{workflow} started on {name}, and HIGH and NORMAL work held {leaf.used} GPUs there; the "
                        f"quota was {limit:g}."
                    )
                    yield Violation("guaranteed_work_within_quota", name, sentence, evidence)
                used = sum(each.used for each in state.leaves.values())
                if priority != "LOW" and used > (limit := state.container_limit()):
                    sentence = (
                        f"{workflow} started on {name}, and HIGH and NORMAL work held {used} GPUs in the whole pool "
                        f"{state.name}; the quota was {limit:g}."
                    )
                    yield Violation("guaranteed_work_within_quota", state.name, sentence, evidence)
                if root.get("cohort_id") is None and 0 <= state.maximum < state.total:
                    sentence = f"{workflow} started, and {state.name} held {state.total} GPUs of {state.maximum}."
                    yield Violation("guaranteed_work_within_quota", state.name, sentence, evidence)


def nodes_hold_their_work(history: History) -> Iterator[Violation]:
    """No start puts more GPUs on a node than the node has."""
    sizes: dict[tuple[Any, str], int] = {}
    for each in history.states:
        for node in each.rows("pools_node"):
            key = node["backend_id"], node["name"]
            sizes[key] = max(sizes.get(key, 0), int(node["gpus"]))
    backends = {key: pool["backend_id"] for key, pool in history.pools.items()}
    changes: defaultdict[tuple[Any, str], list[tuple[float, int, str]]] = defaultdict(list)
    for attempt in started_attempts(history):
        node = backends.get(attempt.workflow["root_pool_id"]), attempt.row["node_name"]
        gpus, name = int(attempt.row["gpu_count"]), attempt.workflow["name"]
        changes[node].append((attempt.begin, gpus, name))
        changes[node].append((attempt.end, -gpus, name))
    for node, moves in changes.items():
        held, at_moment = 0, 0.0
        # Within one transaction ends count before starts: a preempted task makes room for the next.
        for at, gpus, name in sorted(moves, key=lambda each: (each[0], each[1])):
            held, at_moment = held + gpus, at
            if gpus > 0 and node in sizes and held > sizes[node]:
                sentence = (
                    f"{name} started on node {node[1]}, which has {sizes[node]} GPUs, and then {held} were in use "
                    f"({at_moment / 1e6:.3f} s)."
                )
                yield Violation("nodes_hold_their_work", node[1], sentence)
                break


def low_work_within_the_tree(history: History) -> Iterator[Violation]:
    """LOW work of a pool in a cohort without a parent starts only within the borrowing limit of the pool and within the
    quota that the cohort and its pools leave."""
    cohorts = {each["id"]: each for each in history.rows("pools_cohort")}
    members: defaultdict[Any, list[Any]] = defaultdict(list)
    for key, pool in history.pools.items():
        if pool["cohort_id"] is not None and key in history.simulated_roots:
            members[pool["cohort_id"]].append(key)
    has_children = {each["parent_id"] for each in cohorts.values()}
    for key, roots in members.items():
        cohort = cohorts.get(key)
        if cohort is None or cohort["parent_id"] is not None or key in has_children:
            continue
        yield from _check_cohort(history, cohort, roots)


def _nominal_changes(history: History, cohort: Row) -> Iterator[tuple[float, int, int]]:
    for entry in history.entries_by_row.get(("cohort", str(cohort["id"])), []):
        if entry.after is not None:
            at = float("-inf") if entry.committed is None else entry.committed
            yield at, entry.id, nominal_gpus(entry.after)


def nominal_gpus(cohort: Row) -> int:
    """The GPUs that a cohort owns itself, as its row stores them."""
    stored = cohort["quotas"]
    if isinstance(stored, dict):
        found = stored.get("default/gpu", 0)
        return int(found.get("nominal", 0) if isinstance(found, dict) else found)
    return sum(int(each["nominal"]) for each in stored if (each["flavor"], each["resource"]) == ("default", "gpu"))


def _check_cohort(history: History, cohort: Row, roots: list[Any]) -> Iterator[Violation]:
    timelines = history.once(pool_timelines)
    moments: list[tuple[float, int, Any]] = [(at, 0, value) for at, _, value in _nominal_changes(history, cohort)]
    for root in roots:
        moments += [(state.begin, 1, state) for state in timelines[root].states if root in timelines]
    nominal, now = 0, dict[Any, PoolState]()
    for _, together in groupby(sorted(moments, key=lambda each: each[:2]), key=lambda each: each[0]):
        # One transaction preempts work of one pool for work of another: no state is between them.
        states = []
        for _, _, item in together:
            if isinstance(item, PoolState):
                now[item.root] = item
                states.append(item)
            else:
                nominal = item
        for state in states:
            yield from _check_low_starts(history, cohort, state, nominal, now)


def _check_low_starts(
    history: History, cohort: Row, item: PoolState, nominal: int, now: Mapping[Any, PoolState]
) -> Iterator[Violation]:
    low = [workflow for _, priority, workflow in item.started if priority == "LOW"]
    if not low:
        return
    pool = history.pools[item.root]
    evidence = entries(entry.id for entry in item.entries)
    limit = pool["borrowing_limit"]
    if limit is not None and item.total > item.container_limit() + limit:
        sentence = (
            f"{low[0]} started, and {item.name} held {item.total} GPUs; its quota is {item.container_limit():g}, "
            f"and it may borrow {limit}."
        )
        yield Violation("low_work_within_the_tree", item.name, sentence, evidence)
    protected = _protected(history, item)
    if item.total <= protected or any(state.guarantee < 0 for state in now.values()):
        return
    borrowed = sum(max(0, state.total - _protected(history, state)) for state in now.values())
    # A pool whose subpools drain counts with the quota that they keep until then.
    lendable = nominal + sum(state.container_limit() - _protected(history, state) for state in now.values())
    if borrowed > lendable:
        sentence = (
            f"{low[0]} started on {item.name}, and the pools of cohort {cohort['name']} used {borrowed} GPUs "
            f"beyond what they keep for themselves; together they have {lendable:g} to share."
        )
        yield Violation("low_work_within_the_tree", item.name, sentence, evidence)


def _protected(history: History, state: PoolState) -> int:
    """The part of a pool's quota that it does not lend."""
    lending = history.pools[state.root]["lending_limit"]
    return 0 if lending is None else max(0, state.guarantee - int(lending))
