"""An index over a record: calls with their intervals, audit entries with their commits, tables by key.

All times are microseconds of the writer's clock. A commit time of PostgreSQL is converted with the wall time of the
header; both clocks belong to one machine, but they are read at different places, so comparisons between a call and a
commit allow `SLACK`. Comparisons between two calls, and between two commits, allow nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from tests.history.record import Record

SLACK = 50_000.0
"""Microseconds between the wall clock of the header and the commit times."""

NOTHING_CHANGED = "nothing was changed"
"""With these words a 503 promises that the request had no effect; without them its outcome is unknown."""

Row = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(slots=True)
class Call:
    """One request. `status` is None if the answer was lost; `end` is then infinite, because it may act later."""

    id: str
    client: str
    user: str
    operation: str
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    key: str | None
    if_match: str | None
    request_id: str
    repeats: str | None
    begin: float
    end: float = math.inf
    status: int | None = None
    answer: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[int, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Answered with success."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_refused(self) -> bool:
        """Answered with a promise that nothing was changed: every 4xx, and a 503 that says so."""
        if self.status is None:
            return False
        return 400 <= self.status < 500 or (self.status == 503 and NOTHING_CHANGED in self.message)

    @property
    def is_unknown(self) -> bool:
        """Without an answer that says whether it was done."""
        return not self.is_ok and not self.is_refused

    @property
    def is_read(self) -> bool:
        """A request that promises to change nothing: a GET, or a dry run."""
        dry = any(self.query.get(name, "").lower() in {"true", "1"} for name in ("dry_run", "validation_only"))
        return self.method == "GET" or dry

    @property
    def message(self) -> str:
        """The text of an error."""
        return str(self.answer.get("message", "")) if isinstance(self.answer, dict) else str(self.answer or "")

    @property
    def details(self) -> list[Row]:
        """The details of an error."""
        found = self.answer.get("details") if isinstance(self.answer, dict) else None
        return [each for each in found or [] if isinstance(each, dict)]

    @property
    def parts(self) -> list[str]:
        """The parts of the path, without `api`."""
        return self.path.strip("/").split("/")[1:]


@dataclass(slots=True)
class Entry:
    """One audit entry. `committed` is None if the commit time is unknown (before the run)."""

    id: int
    actor: str
    action: str
    object: str
    before: Row | None
    after: Row | None
    request_id: str
    transaction: str
    committed: float | None

    @property
    def kind(self) -> str:
        """The first part of the object: `pool`, `workflow`, …"""
        return self.object.partition("/")[0]

    @property
    def row_key(self) -> tuple[str, str]:
        """The row that changed, whatever its name is now."""
        image = self.after or self.before or {}
        key = image.get("id", image.get("uuid"))
        return self.kind, self.object if key is None else str(key)


@dataclass(frozen=True, slots=True)
class State:
    """Tables that were read together. `label` is `start`, `final` or `sample N`."""

    label: str
    at: float
    tables: Mapping[str, Sequence[Row]]

    def rows(self, table: str) -> Sequence[Row]:
        """The rows of one table; none if it was not read."""
        return self.tables.get(table, ())


class History:
    """A record, indexed. Everything is computed once, on first use."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._offset = record.header["wall"] * 1e6 - record.header["t"] / 1e3
        self._known: dict[Callable[[History], Any], Any] = {}

    def once(self, compute: Callable[[History], _T]) -> _T:
        """The result of a function of this history, computed on first use."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        return self._known[compute]

    def commit_time(self, micros: float | None) -> float | None:
        """A commit time on the clock of the record."""
        return None if micros is None else micros - self._offset

    @cached_property
    def calls(self) -> list[Call]:
        """All calls, in the order in which they began."""
        return [_call(each.call, each.answer) for each in self.record.operations]

    @cached_property
    def calls_by_id(self) -> dict[str, Call]:
        """Calls by their id."""
        return {call.id: call for call in self.calls}

    @cached_property
    def calls_by_request(self) -> dict[str, Call]:
        """Calls by their request id."""
        return {call.request_id: call for call in self.calls if call.request_id}

    @cached_property
    def chains(self) -> dict[str, list[Call]]:
        """By the id of the first call: this call with all its repeats, in order."""
        found: defaultdict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            found[call.repeats or call.id].append(call)
        return dict(found)

    def chain_of(self, call: Call) -> list[Call]:
        """The call with all its repeats."""
        return self.chains.get(call.repeats or call.id, [call])

    @cached_property
    def entries(self) -> list[Entry]:
        """All audit entries by id."""
        found = [_entry(each, self) for each in self.record.final.get("pools_auditentry", ())]
        return sorted(found, key=lambda each: each.id)

    @cached_property
    def new_entries(self) -> list[Entry]:
        """The audit entries of the run, by id."""
        return [each for each in self.entries if each.id > self.last_old_entry]

    @cached_property
    def last_old_entry(self) -> int:
        """The highest audit id of the start."""
        return max((int(each["id"]) for each in self.record.start.get("pools_auditentry", ())), default=0)

    @cached_property
    def entries_by_row(self) -> dict[tuple[str, str], list[Entry]]:
        """Audit entries of each row, by id."""
        return _group(self.entries, lambda each: each.row_key)

    @cached_property
    def entries_by_object(self) -> dict[str, list[Entry]]:
        """Audit entries by the name of the object, by id."""
        return _group(self.entries, lambda each: each.object)

    @cached_property
    def entries_by_request(self) -> dict[str, list[Entry]]:
        """Audit entries of each request of a client, written for the user of the call."""
        mine = (each for each in self.new_entries if each.request_id in self.calls_by_request)
        return _group(
            (each for each in mine if each.actor == self.calls_by_request[each.request_id].user),
            lambda each: each.request_id,
        )

    def entries_of(self, call: Call) -> list[Entry]:
        """The audit entries of one call."""
        return self.entries_by_request.get(call.request_id, [])

    def entries_of_chain(self, call: Call) -> list[Entry]:
        """The audit entries of a call and all its repeats."""
        return [entry for each in self.chain_of(call) for entry in self.entries_of(each)]

    @cached_property
    def start(self) -> State:
        """The state before the first call."""
        return State("start", -math.inf, self.record.start)

    @cached_property
    def final(self) -> State:
        """The state at rest."""
        return State("final", math.inf, self.record.final)

    @cached_property
    def samples(self) -> list[State]:
        """The states while the run went on."""
        return [State(f"sample {line['sample']}", line["t"] / 1e3, tables) for line, tables in self.record.samples]

    @cached_property
    def states(self) -> list[State]:
        """Every state that was read in one snapshot."""
        return [self.start, *self.samples, self.final]

    def rows(self, table: str) -> Sequence[Row]:
        """The final rows of a table."""
        return self.final.rows(table)

    @cached_property
    def pools(self) -> dict[Any, Row]:
        """Final pool rows by id."""
        return {row["id"]: row for row in self.rows("pools_pool")}

    @cached_property
    def simulated_roots(self) -> set[Any]:
        """Ids of top-level pools whose backend is scheduled by the product itself."""
        kinds = {row["id"]: row["kind"] for row in self.rows("pools_backend")}
        return {
            key
            for key, row in self.pools.items()
            if row["parent_id"] is None and kinds.get(row["backend_id"]) == "simulated"
        }

    def pool_name(self, key: Any) -> str:
        """The name of a pool row."""
        return str(self.pools[key]["name"]) if key in self.pools else f"pool row {key}"

    def order_key(self, entry: Entry) -> tuple[float, int]:
        """The place of an entry in the order of commits."""
        return (-math.inf if entry.committed is None else entry.committed, entry.id)


def transaction_number(text: Any) -> int | None:
    """A transaction as the 32 bits that every row has."""
    return None if text is None else int(text) % 2**32


def _group(found: Iterable[Any], key: Any) -> dict[Any, list[Any]]:
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return dict(groups)


def _call(line: Row, answer: Row | None) -> Call:
    request = line["request"]
    url = urlsplit(request["path"])
    call = Call(
        id=str(line["id"]),
        client=str(line["client"]),
        user=line["user"],
        operation=line["operation"],
        method=request["method"],
        path=url.path,
        query={key: values[-1] for key, values in parse_qs(url.query).items()},
        body=request.get("body"),
        key=request.get("key"),
        if_match=request.get("if_match"),
        request_id=request.get("request_id") or "",
        repeats=None if line.get("repeats") is None else str(line["repeats"]),
        begin=line["t"] / 1e3,
        lines=(line["n"],),
    )
    if answer is not None:
        call.lines = (line["n"], answer["n"])
        if answer["kind"] == "answer":
            call.status, call.answer, call.end = answer["status"], answer["body"], answer["t"] / 1e3
            call.headers = answer.get("headers") or {}
    return call


def _entry(row: Row, history: History) -> Entry:
    return Entry(
        id=int(row["id"]),
        actor=row["actor"],
        action=row["action"],
        object=row["object"],
        before=row["before"],
        after=row["after"],
        request_id=row["request_id"],
        transaction=str(row["transaction"]),
        committed=history.commit_time(row.get("_committed")),
    )
