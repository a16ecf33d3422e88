"""The record of one run: everything that a checker needs, and nothing that it would have to ask the product for.

A record is a file of JSON lines. One process writes it, and every line has

* `n`: the number of the line, from 1, in the order of writing,
* `t`: nanoseconds of the writer's monotonic clock (one clock for all lines; `t` never decreases with `n`),
* `kind`: one of those below.

* `header`, the first line: `format`, `seed`, `operations`, `faults`, `clients`, `plant` (name of the planted fault or
  null), `command` (list; replays the run), `wall` (seconds since 1970 at `t`).
* `rows`: the rows of one table, with `when`, `sample`, `table`, `rows` (see below).
* `call`, before the first byte of a request is sent: `id`, `client`, `user`, `operation`, `request`, `repeats`.
* `answer`, after the last byte of its answer was read: `id`, `client`, `status`, `body`, `headers`.
* `lost`, if no (complete) answer arrived: `id`, `client`, `reason`.
* `fault`, when a fault begins or ends: `fault` (its number), `name`, `phase` (`begin`, `end`), `target`, `step`.
* `note`, anything for readers, such as a process that was started again: `text`.
* `reading`, a GET at rest by the platform admin: `when` (`final`), `name`, `path`, `status`, `body`.
  The reading `verify` has no path; its body is a list of texts, the differences that `osmo-admin verify` finds.
  With a Kubernetes cluster the reading `cluster` has no path; its body is `{"pods": […], "seen": […]}`: the pods that
  exist, and all that ever were, each with `uid`, `name`, `task` (id of the attempt), `phase`, `is_deleted`.
* `end`, the last line of a complete run: `outcome`.

`call.id` is unique in the record; exactly one `answer` or `lost` follows with the same id. One client makes one call at
a time. After `lost`, the change may have been made, may never be made, **or may still be made later** (a stopped
process may continue with it). `call.request` is `{"method", "path" (with its query), "body" (JSON or null), "key"
(Idempotency-Key or null), "if_match" (text or null), "request_id"}`. The product writes `request_id` (sent as
`X-Request-ID`) to `pools_auditentry.request_id`, so an audit entry of the call's user names its call; repeats have
request ids of their own.
`call.repeats` is the id of the first call with the same Idempotency-Key, method, path and body by the same user, or
null. `call.operation` is the generator's name of the operation (`create_subpool`, `submit`, …: `workload.OPERATIONS`).
`answer.body` is JSON, or text if it is none; `answer.headers` holds `ETag`, `Idempotent-Replayed`, `Retry-After` and
`Location` where the answer had them. `lost.reason` is the name of the error; `ConnectError` means that the request was
never sent.

**Rows.** `when` is `start` (before the first call), `sample` (while the run goes on; `sample` numbers them from 1), or
`final` (at rest: no calls, no faults, all processes running, scheduling has nothing more to do). All tables of one
start, sample or final state are read in one database snapshot, so they are consistent with one another. A row is an
object of its columns, as PostgreSQL's `to_jsonb` writes it, and

* `_xid`: the transaction that wrote this version of the row (`xmin`, a number as text), and
* `_committed`: the commit time of that transaction in microseconds since 1970 (PostgreSQL's own clock, on the same
  machine as the writer of the record; no fault shifts it), or null if unknown (a row of the installation's start).

`TABLES` are those of the start and of the final state, `SAMPLED` those of samples. Samples leave out rows that cannot
change any more: workflows that have ended, with their groups and tasks, and released GPU allocations. Columns of
secrets are left out: `HIDDEN`. Rows of a table have no order. In `pools_auditentry` and `scheduling_decision` the
commit time of the row is that of the change, because both are append-only.

The record holds JSON only; the module needs the standard library only.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

FORMAT = 1

TABLES = (
    "pools_backend",
    "pools_node",
    "pools_changetoken",
    "pools_cohort",
    "pools_pool",
    "pools_leafusage",
    "pools_reservation",
    "pools_auditentry",
    "pools_configrevision",
    "pools_idempotencyrecord",
    "pools_gpuquota",
    "pools_gpuusage",
    "pools_gpuallocation",
    "pools_user",
    "pools_roleassignment",
    "pools_accesstoken",
    "auth_group",
    "scheduling_workflow",
    "scheduling_group",
    "scheduling_task",
    "scheduling_decision",
    "scheduling_receipt",
    "scheduling_backendschedulingstate",
    "scheduling_startreservation",
    "scheduling_stuckgroup",
    "scheduling_promisedstart",
)
SAMPLED = (
    "pools_backend",
    "pools_node",
    "pools_cohort",
    "pools_pool",
    "pools_leafusage",
    "pools_reservation",
    "pools_gpuquota",
    "pools_gpuusage",
    "pools_gpuallocation",
    "scheduling_workflow",
    "scheduling_group",
    "scheduling_task",
    "scheduling_stuckgroup",
)
HIDDEN = frozenset({"password", "digest", "spec", "template_spec", "access", "sealed_kubeconfig"})

Line = dict[str, Any]
Tables = dict[str, list[dict[str, Any]]]


class Recorder:
    """Writes a record. Any thread may call it; `write` numbers and times the line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._number = 0

    def write(self, kind: str, **content: Any) -> int:
        """Write one line and return its `n`. The time is taken under the lock, so `t` follows `n`."""
        with self._lock:
            self._number += 1
            line = {"n": self._number, "t": time.monotonic_ns(), "kind": kind, **content}
            self._file.write(json.dumps(line, separators=(",", ":"), default=str) + "\n")
            return self._number

    def close(self) -> None:
        """Flush and close the file."""
        with self._lock:
            self._file.close()


@dataclass(frozen=True, slots=True)
class Operation:
    """One call with what came of it. `answer` is its `answer` or `lost` line, None if the record ends before it."""

    call: Line
    answer: Line | None


@dataclass(slots=True)
class Record:
    """A record that was read: operations in the order of their calls, faults in the order of their lines."""

    header: Line
    operations: list[Operation] = field(default_factory=list)
    faults: list[Line] = field(default_factory=list)
    start: Tables = field(default_factory=dict)
    samples: list[tuple[Line, Tables]] = field(default_factory=list)
    """Each sample with the first line of its rows (`n`, `t`, `sample`)."""
    final: Tables = field(default_factory=dict)
    readings: dict[str, Line] = field(default_factory=dict)
    notes: list[Line] = field(default_factory=list)
    outcome: Line | None = None
    lines: list[Line] = field(default_factory=list)
    """All lines in order, for a shrinker."""


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a record; a last line that was cut off is left out."""
    with path.open(encoding="utf-8") as source:
        for text in source:
            if text.endswith("\n"):
                yield json.loads(text)


def write_lines(path: Path, lines: Iterator[Line] | list[Line]) -> None:
    """Write lines as they are, numbers and times included."""
    with path.open("w", encoding="utf-8") as target:
        target.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def load(path: Path) -> Record:
    """Read a record from its file."""
    return build(list(read_lines(path)))


def build(lines: list[Line]) -> Record:
    """A record of these lines, the first of which is its header."""
    record = Record(lines[0], lines=lines)
    answers = {line["id"]: line for line in lines if line["kind"] in {"answer", "lost"}}
    for line in lines[1:]:
        match line["kind"]:
            case "call":
                record.operations.append(Operation(line, answers.get(line["id"])))
            case "fault":
                record.faults.append(line)
            case "note":
                record.notes.append(line)
            case "reading":
                record.readings[line["name"]] = line
            case "end":
                record.outcome = line
            case "rows":
                _add_rows(record, line)
            case _:
                pass
    return record


def _add_rows(record: Record, line: Line) -> None:
    if line["when"] == "sample":
        if not record.samples or record.samples[-1][0]["sample"] != line["sample"]:
            record.samples.append((line, {}))
        record.samples[-1][1][line["table"]] = line["rows"]
    else:
        (record.start if line["when"] == "start" else record.final)[line["table"]] = line["rows"]
