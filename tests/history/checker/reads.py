"""Reads: each answer agrees with itself, with one state between its call and its answer, and with what was known before
it began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.history.checker.history import SLACK, Call, History
from tests.history.checker.pool_states import SHARED, Leaf, PoolState, Timeline, pool_timelines
from tests.history.checker.violations import Violation, calls, entries

JITTER = 5_000.0
"""Microseconds by which two transactions on different leaves may become visible in another order than they have commit
times; quotas and states of one pool change under one lock and have no jitter."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A subpool, or a pool with all its subpools, in one answer. `whole` says that subpools that are missing in it were
    not there (ARCHIVED ones are left out)."""

    call: Call
    pool: str
    leaves: Mapping[str, Mapping[str, Any]]
    root: Mapping[str, Any] | None


def seen_pools(history: History) -> list[Seen]:
    """All answers that show a subpool or a pool with its subpools, in the order of their calls."""
    found = []
    for call in history.calls:
        body = call.answer
        if not call.is_ok or not isinstance(body, dict):
            continue
        match call.parts:
            case ["configs", "pool", pool, "subpool"] if call.method == "GET":
                found.append(_whole(call, pool, body))
            case ["configs", "pool", _, "subpool", *_] if call.method == "GET" or not call.is_read:
                found.append(Seen(call, body["parent_pool"], {body["subpool_name"]: body}, None))
            case ["configs", "pool", pool, "subpool", *_] if isinstance(body.get("before"), dict):
                found.append(_whole(call, pool, body["before"]))
            case _:
                pass
    return found


def _whole(call: Call, pool: str, body: Mapping[str, Any]) -> Seen:
    leaves = {part["subpool_name"]: part for part in body["subpools"]}
    return Seen(call, pool, leaves | {SHARED: body["shared"]}, body)


def answers_agree_with_themselves(history: History) -> Iterator[Violation]:
    """Within one answer: quotas of the leaves add up to the quota of the pool, `available` is quota minus use, a
    subpool that is not ACTIVE has quota 0, and the usage of a pool in the quota tree is the sum of its leaves."""
    for seen in history.once(seen_pools):
        for text in _contradictions(seen):
            yield Violation("answers_agree_with_themselves", f"pool/{seen.pool}", text, calls(seen.call.id))
            break
    for call in history.calls:
        if call.is_ok and call.method == "GET" and call.parts == ["quota_tree"]:
            yield from _check_tree(call)


def _contradictions(seen: Seen) -> Iterator[str]:
    for short, part in seen.leaves.items():
        name = f"{seen.pool}--{short or '_shared'}"
        if seen.root is not None and seen.root["quota"] < 0 and short == SHARED:
            continue
        if part["available"] != part["quota"] - part["used"]:
            yield (
                f"call {seen.call.id} showed {name} with {part['available']} available, quota {part['quota']} and "
                f"{part['used']} used."
            )
        if part["total_usage"] < part["used"] or part["used"] < 0:
            yield f"call {seen.call.id} showed {name} with {part['used']} used of {part['total_usage']} in total."
        if short != SHARED and part["quota"] != (part["last_quota"] if part["subpool_state"] == "ACTIVE" else 0):
            yield (
                f"call {seen.call.id} showed {name} {part['subpool_state']} with quota {part['quota']} and last quota "
                f"{part['last_quota']}."
            )
    if seen.root is not None and seen.root["quota"] >= 0:
        allocated = sum(part["quota"] for short, part in seen.leaves.items() if short != SHARED)
        shared, quota = seen.leaves[SHARED]["quota"], seen.root["quota"]
        if shared + allocated != quota or seen.root["unallocated"] != shared:
            yield (
                f"call {seen.call.id} showed shared {shared} (unallocated {seen.root['unallocated']}) and ACTIVE "
                f"{allocated}, together {shared + allocated}; the quota is {quota}."
            )


def _check_tree(call: Call) -> Iterator[Violation]:
    children: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for node in call.answer["nodes"]:
        if node["kind"] in {"shared", "subpool"}:
            children[node["parent"]].append(node)
    for node in call.answer["nodes"]:
        if node["kind"] != "pool" or not children[node["name"]]:
            continue
        usage = sum(_gpus(child).get("usage", 0) for child in children[node["name"]])
        if _gpus(node).get("usage", 0) != usage:
            shown = _gpus(node).get("usage", 0)
            sentence = f"call {call.id} showed a usage of {shown} GPUs, and its leaves add up to {usage}."
            yield Violation("answers_agree_with_themselves", f"pool/{node['name']}", sentence, calls(call.id))


def _gpus(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((each for each in node["quotas"] if (each["flavor"], each["resource"]) == ("default", "gpu")), {})


def reads_show_one_state(history: History) -> Iterator[Violation]:
    """What an answer shows of a pool (quotas, states, versions, usage, active workflows) was the state of the pool at
    one moment between the call and its answer."""
    timelines = {timeline.states[-1].name: timeline for timeline in history.once(pool_timelines).values()}
    for seen in history.once(seen_pools):
        call, timeline = seen.call, timelines.get(seen.pool)
        if timeline is None or _is_replay(call):
            continue
        window = timeline.between(call.begin - SLACK, call.end + SLACK)
        differences = [_differences(seen, state, timeline) for state in window]
        if any(not each for each in differences):
            continue
        best, state = min(zip(differences, window, strict=True), key=lambda each: len(each[0]))
        sentence = (
            f"call {call.id} showed {'; '.join(best[:3])} in the state of {len(window)} that is nearest; at no moment "
            "between call and answer was it so."
        )
        known = entries(entry.id for each in window for entry in each.entries if entry.kind == "pool")
        nearest = entries(entry.id for entry in state.entries)
        evidence = calls(call.id) + tuple(dict.fromkeys(known + nearest))
        yield Violation("reads_show_one_state", f"pool/{seen.pool}", sentence, evidence)


def _differences(seen: Seen, state: PoolState, timeline: Timeline) -> list[str]:
    found = []
    if seen.root is not None:
        for column, value in (("quota", state.guarantee), ("version", state.version)):
            if seen.root[column] != value:
                found.append(f"{column} {seen.root[column]} and not {value}")
        shown = {short for short in seen.leaves if short != SHARED}
        if seen.call.query.get("include_archived", "").lower() != "true":
            exist = {short for short, leaf in state.leaves.items() if leaf.state in {"ACTIVE", "DELETING"}}
            shown = {short for short in shown if seen.leaves[short]["subpool_state"] != "ARCHIVED"}
            if shown != exist:
                found.append(f"subpools {sorted(shown)} and not {sorted(exist)}")
    near = timeline.between(state.begin - JITTER, min(state.end, seen.call.end + SLACK) + JITTER)
    for short, part in seen.leaves.items():
        leaf = state.leaves.get(short, Leaf(short))
        if short != SHARED:
            for column, value in (
                ("subpool_state", leaf.state), ("last_quota", leaf.quota), ("version", leaf.version)
            ):  # fmt: skip
                if part[column] != value:
                    found.append(f"{short}: {column} {part[column]} and not {value}")
        used = (part["used"], part["total_usage"], part.get("live_workflows", leaf.live))
        if timeline.knows_usage and all(_usage(each.leaves.get(short, Leaf(short))) != used for each in near):
            found.append(f"{short or 'shared'}: used, total and active {used} and not {_usage(leaf)}")
    return found


def _usage(leaf: Leaf) -> tuple[int, int, int]:
    return leaf.used, leaf.total, leaf.live


def _is_replay(call: Call) -> bool:
    return call.headers.get("Idempotent-Replayed", "").lower() == "true"


def reads_never_go_back(history: History) -> Iterator[Violation]:
    """A call that began after another was answered shows the version of that answer or a later one. (Decided from calls
    alone, without any commit time.)"""
    observed: defaultdict[tuple[str, str], list[tuple[Call, int]]] = defaultdict(list)
    for seen in history.once(seen_pools):
        if _is_replay(seen.call):
            continue
        for short, part in seen.leaves.items():
            if short != SHARED:
                observed[seen.pool, short].append((seen.call, part["version"]))
        if seen.root is not None:
            observed[seen.pool, SHARED].append((seen.call, seen.root["version"]))
    for (pool, short), found in observed.items():
        waiting = sorted(found, key=lambda each: each[0].end)
        newest: tuple[Call, int] | None = None
        place = 0
        for call, version in sorted(found, key=lambda each: each[0].begin):
            while place < len(waiting) and waiting[place][0].end < call.begin:
                if newest is None or waiting[place][1] > newest[1]:
                    newest = waiting[place]
                place += 1
            if newest is not None and version < newest[1]:
                sentence = (
                    f"call {call.id} showed version {version}, and call {newest[0].id}, which was answered before it "
                    f"began, had shown version {newest[1]}."
                )
                name = f"pool/{pool}--{short}" if short else f"pool/{pool}"
                yield Violation("reads_never_go_back", name, sentence, calls(newest[0].id, call.id))


def workflow_reads_are_true(history: History) -> Iterator[Violation]:
    """The status that an answer shows of a workflow was its status at some moment between the call and its answer."""
    for call in history.calls:
        if not call.is_ok or _is_replay(call) or not isinstance(call.answer, dict):
            continue
        match call.method, call.parts:
            case ("GET", ["workflow", name]) | ("POST", ["workflow", name, "end"]):
                pass
            case _:
                continue
        chain = history.entries_by_object.get(f"workflow/{name}", [])
        possible = set()
        for place, entry in enumerate(chain):
            begin = entry.committed if entry.committed is not None else float("-inf")
            following = chain[place + 1].committed if place + 1 < len(chain) else None
            end = float("inf") if following is None else following
            if begin <= call.end + SLACK and end >= call.begin - SLACK:
                possible.add((entry.after or {}).get("status"))
        if call.answer.get("status") not in possible:
            sentence = (
                f"call {call.id} showed {call.answer.get('status')}; between call and answer it was "
                f"{' or '.join(sorted(map(str, possible))) or 'not there'}."
            )
            evidence = calls(call.id) + entries(entry.id for entry in chain)
            yield Violation("workflow_reads_are_true", f"workflow/{name}", sentence, evidence)


def quota_refusals_are_true(history: History) -> Iterator[Violation]:
    """A change of a subpool that is refused for its quota, its name, its state or its version was impossible at some
    moment between the call and its answer, with the numbers of the refusal."""
    timelines = {timeline.states[-1].name: timeline for timeline in history.once(pool_timelines).values()}
    for call in history.calls:
        match call.parts:
            case ["configs", "pool", pool, "subpool", *rest] if pool in timelines and call.status in {400, 409, 412}:
                short = rest[0] if rest else (call.body or {}).get("subpool_name")
            case _:
                continue
        window = timelines[pool].between(call.begin - SLACK, call.end + SLACK)
        for detail in call.details or ([{"code": "version"}] if call.status == 412 else []):
            if detail.get("code") not in {"quota_exceeds_parent", "name_taken", "wrong_state", "version"}:
                continue
            if not any(_is_true(call, detail, state, short) for state in window):
                text = f"{call.status} {detail['code']}: {detail.get('message', '')}"
                sentence = f"call {call.id} was refused ({text}), which was never so between call and answer."
                known = entries(entry.id for state in window for entry in state.entries if entry.kind == "pool")
                yield Violation("quota_refusals_are_true", f"pool/{pool}--{short}", sentence, calls(call.id) + known)


def _is_true(call: Call, detail: Mapping[str, Any], state: PoolState, short: str) -> bool:
    leaf = state.leaves.get(short, Leaf(short))
    match detail["code"]:
        case "quota_exceeds_parent":
            free = state.guarantee - state.allocated + leaf.accounting_quota
            return detail.get("free", free) == free and detail.get("requested", free + 1) > free
        case "name_taken":
            return leaf.state in {"ACTIVE", "DELETING"}
        case "wrong_state":
            return leaf.state in {"DELETING", "ARCHIVED"}
        case _:
            return call.if_match is None or call.if_match.strip('"') != str(leaf.version)
