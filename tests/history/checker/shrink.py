"""The shortest part of a record that still breaks one promise, and its text.

A part keeps whole things: a call with its answer, a workflow with its groups, attempts, decisions and audit entries, a
pool with its subpools, a namespace, a sample. A smaller part counts only if it shows the same violation: the same rule,
the same subject and the same first event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.history.checker.history import Call, Entry, History
from tests.history.checker.violations import Event, Violation
from tests.history.record import Line, Record, build

MAX_SHOWN_BODY = 300
SHOWN_FAULTS, FAULT_DISTANCE = 6, 2e6
"""How many faults a text shows, and how near (in microseconds) they are to one of its events."""
_WORKFLOW_COLUMN = {
    "scheduling_workflow": "uuid",
    "scheduling_group": "workflow_id",
    "scheduling_decision": "workflow_id",
    "pools_reservation": "workflow",
}
_NAMESPACE_TABLES = frozenset({"pools_gpuquota", "pools_gpuusage", "pools_gpuallocation"})

Find = Callable[[Record], list[Violation]]


@dataclass(frozen=True, slots=True)
class Part:
    """What of a record is kept, by the keys of whole things."""

    calls: frozenset[str]
    workflows: frozenset[str]
    roots: frozenset[Any]
    namespaces: frozenset[str]
    samples: frozenset[int]

    @property
    def size(self) -> int:
        """The number of things."""
        return sum(len(getattr(self, name)) for name in ("calls", "workflows", "roots", "namespaces", "samples"))


class Shrinker:
    """Shrinks one record for one violation."""

    def __init__(self, record: Record, violation: Violation, find: Find) -> None:
        """`find` runs the rule of the violation on a record."""
        self._record, self._violation, self._find = record, violation, find
        history = History(record)
        rows = [*history.rows("pools_pool"), *history.start.rows("pools_pool")]
        self._root_of = {row["id"]: row["parent_id"] or row["id"] for row in rows}
        groups = [*history.rows("scheduling_group"), *history.start.rows("scheduling_group")]
        groups += [row for sample in history.samples for row in sample.rows("scheduling_group")]
        self._workflow_of = {row["uuid"]: row["workflow_id"] for row in groups}
        self._root_of_workflow = {
            (image := entry.after or entry.before or {}).get("uuid"): image.get("root_pool_id")
            for entry in history.entries
            if entry.kind == "workflow"
        }
        self.whole = Part(
            frozenset(call.id for call in history.calls),
            frozenset(self._workflow_of.values()),
            frozenset(self._root_of.values()),
            frozenset(row["namespace"] for table in _NAMESPACE_TABLES for row in history.rows(table)),
            frozenset(line["sample"] for line, _ in record.samples),
        )
        self._clients = {call.id: call.client for call in history.calls}

    def shrink(self) -> Record:
        """The smallest part found. Where no order of calls exists, an order without one of the writes proves nothing:
        the evidence is the place at which every order ends, and it is the part."""
        if self._violation.rule == "an_order_of_calls_exists":
            return self.keep(replace(self.whole, calls=self._evidence, samples=frozenset()))
        part = self._first_part()
        for client in sorted(set(self._clients.values())):
            of_client = frozenset(key for key, owner in self._clients.items() if owner == client)
            part = self._keep_smaller(part, replace(part, calls=part.calls - of_client))
        for name in ("samples", "roots", "namespaces", "workflows", "calls"):
            part = self._minimize(part, name)
        return self.keep(part)

    @property
    def _evidence(self) -> frozenset[str]:
        return frozenset(event.key for event in self._violation.events if event.kind == "call")

    def _first_part(self) -> Part:
        """Only the evidence, if this is enough; else the whole record."""
        calls = self._evidence
        for small in (
            replace(self.whole, calls=calls, samples=frozenset()),
            replace(self.whole, samples=frozenset()),
            replace(self.whole, calls=calls),
        ):
            if self._is_same(small):
                return small
        return self.whole

    def _keep_smaller(self, part: Part, smaller: Part) -> Part:
        return smaller if smaller.size < part.size and self._is_same(smaller) else part

    def _minimize(self, part: Part, name: str) -> Part:
        """Remove chunks of one kind of things, in the order of their keys, then smaller chunks, down to single ones."""
        chunks = 1
        while keys := sorted(getattr(part, name), key=str):
            size = math.ceil(len(keys) / chunks)
            before = part
            for place in range(0, len(keys), size):
                rest = getattr(part, name) - frozenset(keys[place : place + size])
                part = self._keep_smaller(part, replace(part, **{name: rest}))
            if size == 1 and part == before:
                break
            chunks = min(len(keys), chunks * 2) if part == before else 2
        return part

    def _is_same(self, part: Part) -> bool:
        first = self._violation.events[:1]
        return any(
            (each.rule, each.subject, each.events[:1]) == (self._violation.rule, self._violation.subject, first)
            for each in self._find(self.keep(part))
        )

    def keep(self, part: Part) -> Record:
        """The record of a part."""
        return build([self._record.lines[0], *self._lines(part)])

    def _lines(self, part: Part) -> Iterator[Line]:
        for line in self._record.lines[1:]:
            match line["kind"]:
                case "call" | "answer" | "lost":
                    if str(line["id"]) in part.calls:
                        yield line
                case "rows":
                    if line["when"] != "sample" or line["sample"] in part.samples:
                        yield {**line, "rows": [row for row in line["rows"] if self._has(part, line["table"], row)]}
                case _:
                    yield line

    def _has_workflow(self, part: Part, key: Any) -> bool:
        root = self._root_of_workflow.get(key)
        return key in part.workflows and (root is None or root in part.roots)

    def _has(self, part: Part, table: str, row: Mapping[str, Any]) -> bool:
        if table in _WORKFLOW_COLUMN:
            return self._has_workflow(part, row[_WORKFLOW_COLUMN[table]])
        if table == "scheduling_task":
            return self._has_workflow(part, self._workflow_of.get(row["group_id"]))
        if table in _NAMESPACE_TABLES:
            return row["namespace"] in part.namespaces
        if table == "pools_pool":
            return self._root_of.get(row["id"]) in part.roots
        if table == "pools_leafusage":
            return self._root_of.get(row["pool_id"]) in part.roots
        if table != "pools_auditentry":
            return True
        kind, image = str(row["object"]).partition("/")[0], row["after"] or row["before"] or {}
        if kind == "workflow":
            return self._has_workflow(part, image.get("uuid"))
        if kind == "pool":
            return self._root_of.get(image.get("id"), image.get("parent_id")) in part.roots
        if kind in {"gpu_quota", "gpu_allocation"}:
            return image.get("namespace") in part.namespaces
        return True


def describe(record: Record, violation: Violation) -> str:
    """The violation with its events in the order of time, as text for a reader. `record` may be a part."""
    history = History(record)
    wanted = {event.key for event in violation.events if event.kind == "entry"}
    found: list[tuple[float, str]] = [(call.begin, _call_text(call)) for call in history.calls]
    shown = [entry for entry in history.entries if str(entry.id) in wanted]
    found += [(-math.inf if each.committed is None else each.committed, _entry_text(each)) for each in shown]
    times = [at for at, _ in found if at > -math.inf]
    if times:
        found += _near_faults(record, times)
    begin = record.header["t"] / 1e3
    lines = [f"{violation.rule}: {violation.subject}", f"  {violation.sentence}"]
    for at, text in sorted(found, key=lambda each: each[0]):
        when = "before" if at == -math.inf else f"{(at - begin) / 1e6:.3f} s"
        lines.append(f"  {when:>12}  {text}")
    others = [event for event in violation.events if event.kind in {"row", "sample", "reading"}]
    lines += [f"  {'at rest':>12}  {_row_text(history, event)}" for event in others]
    return "\n".join(lines)


def _near_faults(record: Record, times: list[float]) -> list[tuple[float, str]]:
    """The faults that are nearest to these times, if they are near."""
    by_distance = sorted(
        (min(abs(fault["t"] / 1e3 - at) for at in times), fault["n"], fault) for fault in record.faults
    )
    return [
        (
            fault["t"] / 1e3,
            f"fault {fault['fault']} {fault['name']} ({fault['phase']}) {fault.get('target') or ''}".rstrip(),
        )
        for distance, _, fault in by_distance[:SHOWN_FAULTS]
        if distance < FAULT_DISTANCE
    ]


def _call_text(call: Call) -> str:
    query = "?" + "&".join(f"{key}={value}" for key, value in call.query.items()) if call.query else ""
    body = "" if call.body is None else f" {_short(call.body)}"
    if call.status is None:
        outcome = "no answer"
    else:
        took = (call.end - call.begin) / 1e3
        outcome = f"{call.status} after {took:.1f} ms {_short(call.message or call.answer)}"
    return f"call {call.id} of {call.user}: {call.method} {call.path}{query}{body} → {outcome}"


def _entry_text(entry: Entry) -> str:
    before, after = entry.before or {}, entry.after or {}
    changed = {
        key: f"{_short(before.get(key))} → {_short(after.get(key))}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and (entry.before or after.get(key) not in ({}, "", None, []))
    }
    text = ", ".join(f"{key} {value}" for key, value in list(changed.items())[:8])
    return f"entry {entry.id} {entry.action} {entry.object} by {entry.actor} ({entry.request_id or '-'}): {text}"


def _row_text(history: History, event: Event) -> str:
    if event.kind != "row":
        return f"{event.kind} {event.key}"
    table, _, key = event.key.partition("/")
    for row in history.rows(table):
        if key in {str(row.get(name)) for name in ("id", "uuid", "pool_id", "workflow", "namespace")}:
            return f"{table} {_short(row)}"
    return f"{table} {key}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN_BODY else f"{text[: MAX_SHOWN_BODY - 1]}…"
