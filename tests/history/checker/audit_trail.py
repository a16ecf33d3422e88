"""The audit trail: complete, in order, and in agreement with the tables and with the calls."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from tests.history.checker.history import SLACK, Entry, History, Row
from tests.history.checker.violations import Event, Violation, calls, entries, row

TABLES = {
    "pool": "pools_pool",
    "workflow": "scheduling_workflow",
    "cohort": "pools_cohort",
    "backend": "pools_backend",
    "node": "pools_node",
    "gpu_quota": "pools_gpuquota",
    "gpu_allocation": "pools_gpuallocation",
}
"""Kind of object → its table. Every change of these rows has exactly one audit entry."""

NAMES_OF_OTHERS = frozenset({"pool", "cohort", "parent"})
"""Keys of an image that are the name of another row, which may be renamed."""


def audit_is_complete(history: History) -> Iterator[Violation]:
    """Each row's audit entries form a chain: each begins with the row that the one before left, the last one leaves the
    row of the final tables, and a row that the run made has an entry that made it."""
    for (kind, _), chain in history.entries_by_row.items():
        if kind not in TABLES:
            continue
        for earlier, later in pairwise(chain):
            if difference := _difference(earlier.after, later.before):
                sentence = (
                    f"entry {later.id} begins with {difference[0]} = {_text(difference[2])}, and entry {earlier.id} "
                    f"before it left {_text(difference[1])}: a change between them has no entry."
                )
                yield Violation("audit_is_complete", later.object, sentence, entries([earlier.id, later.id]))
    for kind, table in TABLES.items():
        last = {key: chain[-1] for (each, key), chain in history.entries_by_row.items() if each == kind}
        for found in history.rows(table):
            key = str(found.get("id", found.get("uuid")))
            if kind == "gpu_allocation" and found["source"] != "api":
                continue
            entry = last.get(key)
            name = f"{kind}/{found.get('name', found.get('namespace'))}"
            evidence = row(table, key)
            if entry is None:
                yield Violation("audit_is_complete", name, "The row has no audit entry at all.", evidence)
            elif difference := _difference(entry.after, found):
                sentence = (
                    f"its last entry {entry.id} left {difference[0]} = {_text(difference[1])}, the final row has "
                    f"{_text(difference[2])}: a change without an entry, or an entry without its change."
                )
                yield Violation("audit_is_complete", name, sentence, entries([entry.id]) + evidence)
        existing = {str(found.get("id", found.get("uuid"))) for found in history.rows(table)}
        for key, entry in last.items():
            is_row_of_table = entry.after is not None and entry.after.keys() & {"id", "uuid"}
            if is_row_of_table and key not in existing:
                sentence = f"its last entry {entry.id} is {entry.action}, and the final tables do not have it."
                yield Violation("audit_is_complete", entry.object, sentence, entries([entry.id]))


def _difference(before: Row | None, after: Row | None) -> tuple[str, Any, Any] | None:
    if before is None or after is None:
        return None if before is None and after is None else ("row", before and "present", after and "present")
    for column in before.keys() & after.keys() - NAMES_OF_OTHERS:
        if before[column] != after[column]:
            return column, before[column], after[column]
    return None


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


def versions_have_no_gap(history: History) -> Iterator[Violation]:
    """The version of a pool, a subpool or a GPU quota is the number of its changes: one more with each audit entry. (An
    alert changes the row of a GPU quota, with an entry and without a version.)"""
    for kind in ("pool", "gpu_quota"):
        table = TABLES[kind]
        at_start = {str(each["id"]): int(each["version"]) for each in history.start.rows(table)}
        for found in history.rows(table):
            key = str(found["id"])
            chain = history.entries_by_row.get((kind, key), [])
            new = [entry for entry in chain if entry.id > history.last_old_entry and _counts(entry)]
            if key not in at_start and (not new or new[0].before is not None):
                continue
            expected = at_start.get(key, 0) + len(new)
            if found["version"] != expected:
                name = f"{kind}/{found.get('name', found.get('namespace'))}"
                sentence = (
                    f"{len(new)} audited changes since version {at_start.get(key, 0)} give version {expected}, and the "
                    f"final row has version {found['version']}."
                )
                evidence = entries(entry.id for entry in new) + row(table, key)
                yield Violation("versions_have_no_gap", name, sentence, evidence)


def _counts(entry: Entry) -> bool:
    if entry.kind != "gpu_quota" or entry.before is None or entry.after is None:
        return True
    return any(entry.before.get(column) != entry.after.get(column) for column in ("spec", "faults", "source"))


def audit_is_in_order(history: History) -> Iterator[Violation]:
    """The entries of one row are in the order of their commits; an entry of a call was committed between the call and
    its answer; and where one call was answered before another began, their entries of one row are in that order."""
    for chain in history.entries_by_row.values():
        for earlier, later in pairwise(chain):
            if earlier.committed is not None and later.committed is not None and later.committed < earlier.committed:
                sentence = (
                    f"entry {later.id} was committed {(earlier.committed - later.committed) / 1e3:.3f} ms before entry "
                    f"{earlier.id}."
                )
                yield Violation("audit_is_in_order", later.object, sentence, entries([earlier.id, later.id]))
        yield from _check_real_time(history, chain)
    for request, found in history.entries_by_request.items():
        call = history.calls_by_request[request]
        for entry in found:
            if entry.committed is None:
                continue
            if entry.committed < call.begin - SLACK:
                how, by = "before the call began", call.begin - entry.committed
            elif call.is_ok and entry.committed > call.end + SLACK:
                how, by = "after the call was answered with success", entry.committed - call.end
            else:
                continue
            sentence = f"entry {entry.id} was committed {by / 1e3:.1f} ms {how}."
            yield Violation("audit_is_in_order", entry.object, sentence, calls(call.id) + entries([entry.id]))


def _check_real_time(history: History, chain: list[Entry]) -> Iterator[Violation]:
    latest_begin, holder = float("-inf"), None
    for entry in chain:
        call = history.calls_by_request.get(entry.request_id)
        if call is None or call.user != entry.actor:
            continue
        if call.end < latest_begin and holder is not None:
            sentence = (
                f"call {call.id} was answered before call {holder[0].id} began, and its entry {entry.id} comes after "
                f"entry {holder[1].id}."
            )
            evidence = calls(call.id, holder[0].id) + entries([holder[1].id, entry.id])
            yield Violation("audit_is_in_order", entry.object, sentence, evidence)
        if call.begin > latest_begin:
            latest_begin, holder = call.begin, (call, entry)


def no_change_without_a_call(history: History) -> Iterator[Violation]:
    """Every entry of the run that has a request id of a client's user belongs to a call of that user."""
    users = {call.user for call in history.calls}
    for entry in history.new_entries:
        if entry.actor not in users or not entry.request_id:
            continue
        call = history.calls_by_request.get(entry.request_id)
        if call is None:
            sentence = f"entry {entry.id} ({entry.action}) of {entry.actor} has a request id that no call had."
            yield Violation("no_change_without_a_call", entry.object, sentence, entries([entry.id]))
        elif call.user != entry.actor:
            sentence = f"entry {entry.id} ({entry.action}) names {entry.actor}; call {call.id} was made by {call.user}."
            evidence = calls(call.id) + entries([entry.id])
            yield Violation("no_change_without_a_call", entry.object, sentence, evidence)


STATE_STEPS = frozenset({"ACTIVE>DELETING", "ACTIVE>ARCHIVED", "DELETING>ARCHIVED", "ARCHIVED>ACTIVE"})
ENDED_PREFIXES = ("COMPLETED", "FAILED")


def states_move_as_promised(history: History) -> Iterator[Violation]:
    """A subpool moves ACTIVE → DELETING → ARCHIVED → ACTIVE (or ACTIVE → ARCHIVED); a workflow that has ended does not
    change; an ARCHIVED subpool has no active work."""
    for entry in history.new_entries:
        before, after = entry.before or {}, entry.after or {}
        if entry.kind == "pool" and after.get("parent_id") is not None:
            step = f"{before.get('subpool_state')}>{after.get('subpool_state')}"
            is_new = entry.before is None and after["subpool_state"] == "ACTIVE"
            is_same = before.get("subpool_state") == after.get("subpool_state")
            if not is_new and not is_same and step not in STATE_STEPS:
                sentence = f"entry {entry.id} moves it {step.replace('>', ' → ')}, which is not allowed."
                yield Violation("states_move_as_promised", entry.object, sentence, entries([entry.id]))
        if (
            entry.kind == "workflow"
            and str(before.get("status", "")).startswith(ENDED_PREFIXES)
            and before["status"] != after.get("status")
        ):
            sentence = f"entry {entry.id} changes it from {before['status']} to {after.get('status')} after its end."
            yield Violation("states_move_as_promised", entry.object, sentence, entries([entry.id]))
    for state in history.states:
        active: defaultdict[Any, list[str]] = defaultdict(list)
        for workflow in state.rows("scheduling_workflow"):
            if workflow["status"] in {"PENDING", "RUNNING"}:
                active[workflow["pool_id"]].append(workflow["name"])
        yield from _check_archived(state.label, state.rows("pools_pool"), active)


def _check_archived(label: str, pools: Iterable[Row], active: dict[Any, list[str]]) -> Iterator[Violation]:
    for pool in pools:
        work = active.get(pool["id"])
        if work and (pool["archived"] or pool["subpool_state"] == "ARCHIVED"):
            sentence = f"In {label} it is archived and {work[0]} ({len(work)} in total) is active on it."
            evidence = (Event("sample", label), *row("pools_pool", pool["id"]))
            yield Violation("states_move_as_promised", pool["name"], sentence, evidence)
