"""Any history gets an answer: its jobs with what was left out, or faults with their lines; each job is counted once."""

from __future__ import annotations

import gzip
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.priorities import Priority
from scheduling.history.proof.past_use import read_past_use
from scheduling.history.traces.faults import ReplayFault
from scheduling.history.traces.lines import MAX_GIVEN_BYTES, MAX_LINE_BYTES, GivenFile
from scheduling.history.traces.trace import TraceOptions, TraceReader
from tests.unit.replay.test_sacct import COLUMNS, HEADER, row
from tests.unit.replay.test_workload_log import condition, pod, workload

WORDS = (
    "", "-1", "0", "1e999", "9" * 30, "-5", "Unknown", "None", "UNLIMITED", "Partition_Limit", "INVALID", "2-12",
    "1:2:3:4", "100_[9-11,13,16-20]", "100_[0-9999999]", "100_1", "100.batch", "100+1", "CANCELLED by 1000",
    "REQUEUED", "RUNNING", "gres/gpu=4,gres/gpu:a100=4", "gres/gpu:a100=1,gres/gpu:v100=2", "gres/gpu:1g.5gb=2",
    "gres/gpu=-1", "gres/gpu=1000000000", "gres/gpu=", "2026-10-01T09:00:00", "9999-12-31T23:59:59",
    "0001-01-01T00:00:00", "2026-02-30T00:00:00", "n[1-99999999]", "n[", "\u202e", "é", "=1+1", "x" * 300, "|", "\0",
    "\r", "null", "{}", "[]",
)  # fmt: skip
SWF = [
    "; MaxJobs: 3", "1 0 5 60 2 -1 -1 2 -1 -1 1 7 3 -1 1 2 -1 -1", "2 9 0 -1 -1 -1 -1 -1 -1 -1 5 7 -1 -1 -1 -1 -1 -1",
    "3 20 1 600 8 -1 -1 -1 900 -1 1 8 3 -1 2 2 1 20 77 78 79",
]  # fmt: skip


def answer_of(name: str, content: bytes, *, lines: int | None = None, **options: Any) -> None:
    """What the reader of a history says, checked. `lines`: of the text, where it is compressed."""
    count = lines or content.count(b"\n") + 1
    file = GivenFile(name, content)
    reader = TraceReader(file, teams=None, priority=Priority.LOW, options=TraceOptions(keeps_records=True, **options))
    trace = reader.read()
    assert (trace is None) == bool(reader.faults.count)
    for fault in reader.faults.listed:
        assert fault.message
        assert fault.line is None or 1 <= fault.line <= count, (fault, count)
    if trace is not None:
        notes = reader._notes
        assert len(trace.jobs) + sum(notes.left_out.values()) == notes.jobs
        for job in trace.jobs:
            record = trace.records.of(job.id)
            assert record.ended >= record.started
            assert job.duration > 0
            assert job.gpus > 0
    try:
        use = read_past_use(file)
    except ReplayFault:
        pass
    else:
        assert all(0 <= each.usual <= each.most for kinds in use.teams.values() for each in kinds.values())


def test_one_line_that_unpacks_to_too_much() -> None:
    """It is not unpacked to its end, in the process that serves pages."""
    packed = gzip.compress(b"x" * (MAX_GIVEN_BYTES + 2 * MAX_LINE_BYTES)) + b"damaged, and never reached"
    reader = TraceReader(GivenFile("a.txt", packed), teams=None, priority=Priority.LOW)
    assert reader.read() is None
    assert "more than 32 MiB of text" in reader.faults.listed[0].message


@given(st.sampled_from(["a.txt", "a.swf", "a.jsonl"]), st.one_of(st.binary(max_size=300), st.text(max_size=100)))
def test_any_bytes(name: str, content: bytes | str) -> None:
    answer_of(name, content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=60), st.integers(0, 60))
def test_damaged_archives(content: bytes, cut: int) -> None:
    text = HEADER.encode() + content
    packed = gzip.compress(text)
    answer_of("a.txt.gz", packed[:cut] + packed[cut + 1 :], lines=text.count(b"\n") + 2)


@given(
    st.lists(st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(WORDS), max_size=3), max_size=6),
    st.booleans(),
    st.sampled_from([None, "user", "group", "qos"]),
)
def test_rows_of_sacct(rows: list[dict[str, str]], skips: bool, team_from: str | None) -> None:
    text = HEADER + "".join(row(**{"JobID": str(number), **values}) for number, values in enumerate(rows, 1))
    answer_of("a.txt", text.encode(), skips_unusable=skips, team_from=team_from)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.sampled_from(WORDS)), max_size=4), st.booleans(),
    st.sampled_from([None, "all"]),
)  # fmt: skip
def test_lines_of_archives(changes: list[tuple[int, int, str]], skips: bool, team: str | None) -> None:
    lines = [line.split(" ") for line in SWF]
    for line, at, word in changes:
        lines[line][at % len(lines[line])] = word
    answer_of("a.swf", "\n".join(map(" ".join, lines)).encode(), skips_unusable=skips, team=team)


@given(st.data())
def test_objects_of_logs(data: st.DataObject) -> None:
    objects = [
        workload("w", condition("Admitted", 30), condition("Evicted", 40)),
        workload("w", condition("Admitted", 50), condition("Finished", 90)),
        {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "lab"}, "spec": {"queue": "bio"}},
        pod("p", "g"),
    ]
    chosen = json.loads(json.dumps(data.draw(st.lists(st.sampled_from(objects), max_size=5))))
    values = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.lists(st.integers(), max_size=2),
        st.sampled_from(WORDS),
        st.dictionaries(st.sampled_from(["nvidia.com/gpu", "name", "count"]), st.sampled_from(WORDS), max_size=2),
    )  # fmt: skip
    for each in chosen:
        value = each
        while isinstance(value, dict | list) and value and data.draw(st.integers(0, 4)):
            key = data.draw(st.sampled_from(list(value) if isinstance(value, dict) else list(range(len(value)))))
            if not isinstance(value[key], dict | list) or not data.draw(st.integers(0, 3)):
                value[key] = data.draw(values)
                break
            value = value[key]
    text = "".join(json.dumps(each) + "\n" for each in chosen)
    answer_of("a.jsonl", text.encode("utf-8", "surrogatepass"), skips_unusable=data.draw(st.booleans()))
