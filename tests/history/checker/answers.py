"""Answers that promise something about a change: done, refused, or (when lost) done entirely or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.history.checker.history import Call, Entry, History
from tests.history.checker.pool_states import ACTIVE_STATUSES
from tests.history.checker.violations import Event, Violation, calls, entries, row


@dataclass(frozen=True, slots=True)
class Expected:
    """The audit entry that an acknowledged call must have, or the reason why it may have none: `already` says whether
    the object was already as the answer says, at some moment before the answer."""

    object: str
    actions: frozenset[str]
    is_right: Callable[[Entry], bool]
    already: Callable[[History, Call], bool] | None = None


def _never(_history: History, _call: Call) -> bool:
    return False


def expected_of(call: Call) -> list[Expected]:
    """The changes that the answer of a successful call acknowledges. Empty for calls that this checker does not know;
    their entries are still checked by the other rules."""
    body = call.answer if isinstance(call.answer, dict) else {}
    match call.method, call.parts:
        case "POST", ["configs", "pool", _, "subpool"]:
            return [_subpool(body, {"subpool.created", "subpool.reactivated"})]
        case "PATCH", ["configs", "pool", _, "subpool", _]:
            return [_subpool(body, {"subpool.updated"}, already=_had_state("last_quota"))]
        case "DELETE", ["configs", "pool", _, "subpool", _]:
            return [_subpool(body, {"subpool.deleting", "subpool.archived"})]
        case "POST", ["pool", _, "workflow"]:
            return [_submission(body, call)]
        case "POST", ["pool", _, "workflows"]:
            return [_submission(each, call) for each in body.get("workflows", [])]
        case "POST", ["workflow", name, "cancel"]:
            return [
                Expected(
                    f"workflow/{name}", frozenset({"workflow.canceled"}), lambda entry: True,
                    _had_ended if call.query.get("force", "").lower() == "true" else _never,
                )
            ]  # fmt: skip
        case "PUT", ["configs", "gpu_quota", namespace]:
            wanted = {"gpu_quota.created", "gpu_quota.updated"}
            return [Expected(f"gpu_quota/{namespace}", frozenset(wanted), lambda entry: True, _had_spec)]
        case "POST", ["gpu_quota", namespace, "allocation"]:
            name = f"gpu_allocation/{namespace}/{body.get('id')}"
            wanted = {"gpu_allocation.assumed", "gpu_allocation.committed"}
            return [Expected(name, frozenset(wanted), lambda entry: entry.before is None, _had_live_allocation)]
        case "POST", ["gpu_quota", namespace, "allocation", each, "commit"]:
            name = f"gpu_allocation/{namespace}/{each}"
            return [Expected(name, frozenset({"gpu_allocation.committed"}), lambda entry: True, _had_committed)]
        case "PATCH", ["gpu_quota", namespace, "allocation", each]:
            name = f"gpu_allocation/{namespace}/{each}"
            return [Expected(name, frozenset({"gpu_allocation.adjusted"}), lambda entry: True, _had_live_allocation)]
        case "DELETE", ["gpu_quota", namespace, "allocation", each]:
            name = f"gpu_allocation/{namespace}/{each}"
            return [Expected(name, frozenset({"gpu_allocation.released"}), lambda entry: True, _had_released)]
        case _:
            return []


def _subpool(body: dict[str, Any], actions: set[str], *, already: Callable[[History, Call], bool] = _never) -> Expected:
    def is_right(entry: Entry) -> bool:
        after = entry.after or {}
        return after.get("last_quota") == body.get("last_quota") and after.get("subpool_state") == body.get(
            "subpool_state"
        )

    return Expected(f"pool/{body.get('name')}", frozenset(actions), is_right, already)


def _submission(body: dict[str, Any], call: Call) -> Expected:
    priority = call.query.get("priority")

    def is_right(entry: Entry) -> bool:
        after = entry.after or {}
        return (
            after.get("uuid") == body.get("workflow_uuid")
            and after.get("pool", body.get("pool")) == body.get("pool") == call.parts[1]
            and (priority is None or after.get("priority") == priority)
        )

    return Expected(f"workflow/{body.get('name')}", frozenset({"workflow.submitted"}), is_right, _never)


def _entries_until(history: History, call: Call, name: str) -> list[Entry]:
    """The entries of an object that an answer could know."""
    return [each for each in history.entries_by_object.get(name, []) if (each.committed or 0) <= call.end + 1e6]


def _had_state(column: str) -> Callable[[History, Call], bool]:
    def check(history: History, call: Call) -> bool:
        body = call.answer
        found = _entries_until(history, call, f"pool/{body['name']}")
        return any((entry.after or {}).get(column) == body[column] for entry in found)

    return check


def _had_ended(history: History, call: Call) -> bool:
    found = _entries_until(history, call, f"workflow/{call.parts[1]}")
    return any((entry.after or {}).get("status") not in ACTIVE_STATUSES for entry in found)


def _had_spec(history: History, call: Call) -> bool:
    found = _entries_until(history, call, f"gpu_quota/{call.parts[2]}")
    return bool(found) and found[-1].after is not None


def _allocation_entries(history: History, call: Call) -> list[Entry]:
    name = call.parts[3] if len(call.parts) > 3 else call.answer["id"]
    return _entries_until(history, call, f"gpu_allocation/{call.parts[1]}/{name}")


def _had_live_allocation(history: History, call: Call) -> bool:
    return any(
        (entry.after or {}).get("state") in {"assumed", "committed"} for entry in _allocation_entries(history, call)
    )


def _had_committed(history: History, call: Call) -> bool:
    return any((entry.after or {}).get("state") == "committed" for entry in _allocation_entries(history, call))


def _had_released(history: History, call: Call) -> bool:
    return any((entry.after or {}).get("state") == "released" for entry in _allocation_entries(history, call))


def acknowledged_changes_are_kept(history: History) -> Iterator[Violation]:
    """Every change that was answered with success is in the audit trail, with the values of the answer; the rule
    `audit_is_complete` shows that the final tables follow from the trail. Every acknowledged workflow is in the final
    tables."""
    workflows = {each["name"]: each for each in history.rows("scheduling_workflow")}
    for call in history.calls:
        if not call.is_ok or call.is_read:
            continue
        mine = history.entries_of_chain(call)
        for expected in expected_of(call):
            if expected.object.startswith("workflow/") and expected.object.partition("/")[2] not in workflows:
                sentence = f"call {call.id} was answered with success, and the workflow is not in the final tables."
                yield Violation("acknowledged_changes_are_kept", expected.object, sentence, calls(call.id))
                continue
            own = [each for each in mine if each.object == expected.object and each.action in expected.actions]
            if not own:
                if expected.already is not None and expected.already(history, call):
                    continue
                wanted = " or ".join(sorted(expected.actions))
                sentence = (
                    f"call {call.id} was answered with {call.status}, and no audit entry {wanted} belongs to it: the "
                    "change was lost."
                )
                yield Violation("acknowledged_changes_are_kept", expected.object, sentence, calls(call.id))
            elif not expected.is_right(own[0]):
                sentence = f"call {call.id} was answered with other values than its entry {own[0].id} has."
                evidence = calls(call.id) + entries([own[0].id])
                yield Violation("acknowledged_changes_are_kept", expected.object, sentence, evidence)


def workflows_are_answered_once(history: History) -> Iterator[Violation]:
    """No two submissions are acknowledged with the same workflow, except repeats of one another."""
    owners: dict[str, Call] = {}
    for call in history.calls:
        if not call.is_ok or call.is_read or call.method != "POST" or call.parts[:1] != ["pool"]:
            continue
        body = call.answer if isinstance(call.answer, dict) else {}
        for each in body.get("workflows", [body]):
            name = each.get("name")
            first = owners.setdefault(name, call)
            if (first.repeats or first.id) != (call.repeats or call.id):
                sentence = f"calls {first.id} and {call.id} were both acknowledged with it."
                yield Violation("workflows_are_answered_once", f"workflow/{name}", sentence, calls(first.id, call.id))


def refused_calls_change_nothing(history: History) -> Iterator[Violation]:
    """A refused call, a dry run and a read leave no audit entry."""
    for call in history.calls:
        if not (call.is_refused or call.is_read):
            continue
        if found := history.entries_of(call):
            what = f"was answered with {call.status}" if call.is_refused else "only reads or previews"
            sentence = f"call {call.id} {what}, and it wrote entry {found[0].id} ({found[0].action})."
            evidence = calls(call.id) + entries(each.id for each in found)
            yield Violation("refused_calls_change_nothing", found[0].object, sentence, evidence)


def calls_happen_entirely_or_not(history: History) -> Iterator[Violation]:
    """All entries of one call belong to one transaction, and a submission of several workflows made all of them or
    none; so a call whose answer was lost happened entirely or not at all."""
    for call in history.calls:
        found = history.entries_of(call)
        transactions = {each.transaction for each in found}
        if len(transactions) > 1:
            sentence = (
                f"call {call.id} wrote {len(found)} entries in {len(transactions)} transactions; half of it could fail."
            )
            evidence = calls(call.id) + entries(each.id for each in found)
            yield Violation("calls_happen_entirely_or_not", found[0].object, sentence, evidence)
        if call.method == "POST" and call.parts[2:] == ["workflows"] and isinstance(call.body, dict):
            made = [each for each in history.entries_of_chain(call) if each.action == "workflow.submitted"]
            requested = len(call.body.get("workflows", []))
            if len(made) not in {0, requested}:
                sentence = f"call {call.id} asked for {requested} workflows, and {len(made)} were made."
                evidence = calls(call.id) + entries(each.id for each in made)
                yield Violation("calls_happen_entirely_or_not", f"pool/{call.parts[1]}", sentence, evidence)
    yield from _whole_workflows(history)


def _whole_workflows(history: History) -> Iterator[Violation]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for group in history.rows("scheduling_group"):
        groups[group["workflow_id"]].append(group["uuid"])
    with_tasks = {task["group_id"] for task in history.rows("scheduling_task")}
    for workflow in history.rows("scheduling_workflow"):
        name = f"workflow/{workflow['name']}"
        evidence = row("scheduling_workflow", workflow["uuid"])
        if not groups[workflow["uuid"]]:
            yield Violation("calls_happen_entirely_or_not", name, "It has no group: half of it was made.", evidence)
        elif empty := [each for each in groups[workflow["uuid"]] if each not in with_tasks]:
            sentence = f"Its group {empty[0]} has no task: half of it was made."
            yield Violation("calls_happen_entirely_or_not", name, sentence, evidence)


def repeats_are_answered_alike(history: History) -> Iterator[Violation]:
    """Requests with one Idempotency-Key and one body change something once, and every success among their answers is
    the same. A repeat that began after a success is a replay."""
    for chain in history.chains.values():
        if len(chain) < 2 or not chain[0].key:
            continue
        done = [call for call in chain if call.is_ok]
        writers = [call for call in chain if history.entries_of(call)]
        subject = f"key {chain[0].key}"
        if len(writers) > 1:
            found = [entry for call in writers for entry in history.entries_of(call)]
            sentence = f"calls {' and '.join(call.id for call in writers)} both changed something."
            evidence = calls(*(call.id for call in writers)) + entries(each.id for each in found)
            yield Violation("repeats_are_answered_alike", subject, sentence, evidence)
        for call in done[1:]:
            if (call.status, call.answer) != (done[0].status, done[0].answer):
                sentence = f"calls {done[0].id} and {call.id} were answered differently."
                evidence = calls(done[0].id, call.id)
                yield Violation("repeats_are_answered_alike", subject, sentence, evidence)
        first_end = min((call.end for call in done), default=float("inf"))
        for call in done:
            is_replay = call.headers.get("Idempotent-Replayed", "").lower() == "true"
            if call.begin > first_end and not is_replay:
                sentence = f"call {call.id} began after the success of an equal request, and its answer is another one."
                yield Violation("repeats_are_answered_alike", subject, sentence, calls(done[0].id, call.id))


def each_change_has_one_entry(history: History) -> Iterator[Violation]:
    """One call writes one entry for each row that it changes (a workflow that is cancelled with its subpool too)."""
    for found in history.entries_by_request.values():
        by_row: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in found:
            by_row[entry.row_key].append(entry)
        for same in by_row.values():
            actions = [entry.action for entry in same]
            if len(same) > 1 and len(set(actions)) < len(actions):
                sentence = f"{len(same)} entries of one call describe it: {', '.join(actions)}."
                events: tuple[Event, ...] = entries(entry.id for entry in same)
                yield Violation("each_change_has_one_entry", same[0].object, sentence, events)
