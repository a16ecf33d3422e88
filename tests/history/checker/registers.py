"""The quota of each subpool as a register: an order of the calls on it exists, without looking at the audit trail.

The state is (state, last quota, version) of the row. A call that was answered shows the state after it; a call whose
answer was lost may have been made, and a draining subpool may be archived at any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from tests.history.checker.history import Call, History
from tests.history.checker.linearize import Operation, find_order
from tests.history.checker.violations import Violation, calls

Row = tuple[str, int, int] | None
"""State, last quota and version; None before the first creation."""

CHANGES = {"POST": "create", "PATCH": "resize", "DELETE": "delete"}


def an_order_of_calls_exists(history: History) -> Iterator[Violation]:
    """For each subpool there is an order of all calls on it, each at one moment between its call and its answer, in
    which every answer was right."""
    at_start = {
        row["name"]: (row["subpool_state"], row["last_quota"], row["version"])
        for row in history.start.rows("pools_pool")
        if row["parent_id"] is not None
    }
    operations: defaultdict[str, list[Operation]] = defaultdict(list)
    for call in history.calls:
        match call.parts:
            case ["configs", "pool", pool, "subpool", *rest]:
                _collect(call, pool, rest, operations)
            case _:
                pass
    for name, found in operations.items():
        verdict = find_order(found, [at_start.get(name)], _step)
        if verdict.is_right is not False:
            continue
        last = verdict.longest[-1] if verdict.longest else None
        sentence = (
            f"no order of its {len(found)} calls is right: after {'nothing' if last is None else f'call {last.name}'} "
            f"none of {', '.join(f'call {each.name}' for each in verdict.stuck[:6])} can come next."
        )
        evidence = calls(*(each.name for each in [*verdict.longest[-2:], *verdict.stuck[:6]]))
        yield Violation("an_order_of_calls_exists", f"pool/{name}", sentence, evidence)


def _collect(call: Call, pool: str, rest: list[str], operations: defaultdict[str, list[Operation]]) -> None:
    if call.headers.get("Idempotent-Replayed", "").lower() == "true" or call.is_refused:
        return
    if call.is_ok and isinstance(call.answer, dict):
        if isinstance(call.answer.get("subpools"), list):
            shown = call.answer["subpools"]
        elif "dry_run" in call.answer:
            shown = (call.answer.get("before") or {}).get("subpools", [])
        else:
            shown = [call.answer]
        for part in shown:
            after = (part["subpool_state"], part["last_quota"], part["version"])
            what = "read" if call.is_read else CHANGES[call.method]
            operations[part["name"]].append(Operation(call.begin, call.end, (what, after), call.id))
        return
    short = rest[0] if rest else (call.body or {}).get("subpool_name")
    if call.is_unknown and not call.is_read and call.method in CHANGES and short:
        value = (CHANGES[call.method], (call.body or {}).get("quota"))
        operations[f"{pool}--{short}"].append(Operation(call.begin, inf, value, call.id, must_happen=False))


def _step(state: Any, value: tuple[str, Any]) -> Iterable[Any]:
    what, outcome = value
    for before in _with_drain(state):
        if not isinstance(outcome, tuple):
            yield from _unknown(what, before, outcome)
        elif _shows(before, outcome) if what == "read" else _may_become(what, before, outcome):
            yield outcome


def _with_drain(state: Row) -> Iterator[Row]:
    """The state, and the state after its drain."""
    yield state
    if state is not None and state[0] == "DELETING":
        yield "ARCHIVED", state[1], state[2] + 1


def _shows(before: Any, outcome: tuple[str, int, int]) -> bool:
    """Whether a read in this state has this outcome; the quota after a call without an answer may be unknown."""
    return before is not None and (before[0], before[2]) == (outcome[0], outcome[2]) and before[1] in {None, outcome[1]}


def _may_become(what: str, before: Any, after: tuple[str, int, int]) -> bool:
    if what == "create":
        if before is None:
            return after[0] == "ACTIVE" and after[2] == 1
        return before[0] == "ARCHIVED" and after[0] == "ACTIVE" and after[2] == before[2] + 1
    if before is None or before[0] != "ACTIVE":
        return False
    if what == "resize":
        changed = {0, 1} if before[1] is None else {int(after[1] != before[1])}
        return after[0] == "ACTIVE" and after[2] - before[2] in changed
    is_same_quota = before[1] in {None, after[1]}
    return after[0] in {"DELETING", "ARCHIVED"} and is_same_quota and after[2] == before[2] + 1


def _unknown(what: str, before: Row, quota: Any) -> Iterator[Any]:
    """The states after a call without an answer; a quota in percent is not known."""
    if not isinstance(quota, int) and what != "delete":
        quota = None
    if what == "create" and (before is None or before[0] == "ARCHIVED"):
        yield "ACTIVE", quota, 1 if before is None else before[2] + 1
    elif before is not None and before[0] == "ACTIVE":
        if what == "resize":
            yield "ACTIVE", quota, before[2] + 1
        elif what == "delete":
            yield "DELETING", before[1], before[2] + 1
            yield "ARCHIVED", before[1], before[2] + 1
