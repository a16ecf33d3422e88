"""Reading traces: every fault at once with its line, bounded memory, hostile files."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from scheduling.domain.priorities import Priority
from scheduling.history.traces.faults import MAX_LISTED
from scheduling.history.traces.lines import MAX_LINE_BYTES
from scheduling.history.traces.trace import TraceReader

HEADER = "submit_time,duration_s,gpus,team\n"
LARGE = [(2, "submit_time"), (3, "duration_s"), (4, "gpus")]
TEAMS = frozenset({"a", "b"})


@pytest.fixture
def read(tmp_path):
    def read_text(content, name="trace.csv", teams=TEAMS):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        reader = TraceReader(str(path), teams=teams, priority=Priority.LOW)
        return reader.read(), reader.faults

    return read_text


def faults_of(faults):
    return [(fault.line, fault.path) for fault in faults.listed]


def test_every_fault_at_once_with_its_line(read):
    trace, faults = read(
        "submit_time,duration_s,gpus,team,priority,limit_s,prio\n"
        "0,1,1,a,LOW,,\n"
        "-1,0,0,nobody,low,-3,\n"
        "\n"
        "nan,inf,1.5,,URGENT,x,\n"
        "5,,,,,,\n"
        ",,,,,,\n"
        "1,1,1\n"
        "2026-01-01,1e400,99999999999999999999,a,,,\n"
    )
    assert trace is None
    assert faults_of(faults) == [
        (1, "prio"),
        (3, "submit_time"), (3, "duration_s"), (3, "gpus"), (3, "team"), (3, "limit_s"), (3, "priority"),
        (5, "submit_time"), (5, "duration_s"), (5, "gpus"), (5, "team"), (5, "limit_s"), (5, "priority"),
        (6, "duration_s"), (6, "gpus"), (6, "team"),
        (7, "submit_time"), (7, "duration_s"), (7, "gpus"), (7, "team"),
        (8, ""),
        (9, "submit_time"), (9, "duration_s"), (9, "gpus"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, "")]),
        ("\n\n", [(1, "")]),
        (HEADER, [(2, "")]),
        ("submit_time,gpus,team,team\n1,1,a,b\n", [(1, "team"), (1, "duration_s")]),
        ('submit_time,duration_s,gpus,team\n1,1,1,"a\n2,1,1,a\n', [(2, "")]),
        (HEADER.encode() + b"1,1,1,\xff\n", [(2, ""), (2, "team")]),
        (HEADER + "1,1,1,a\n" + "x" * (MAX_LINE_BYTES + 5) + "\n1,1,1,c\n", [(3, ""), (4, "team")]),
        (HEADER + "1,1,1," + "a" * 300 + "\n", [(2, "team"), (2, "team")]),
        (HEADER + "١,1,1,a\n1_0,1,1,a\n0x5,1,1,a\n1 2,1,1,a\n", [(n, "submit_time") for n in (2, 3, 4, 5)]),
        (HEADER + "1e20,1,1,a\n1,1e20,1,a\n1,1,9999999999999999,a\n", LARGE),
        (gzip.compress((HEADER + "1,1,1,a\n" * 500).encode(), mtime=0)[:-20], None),
        (b"\x1f\x8bnot gzip", None),
    ],
)  # fmt: skip
def test_broken_files(read, text, expected):
    trace, faults = read(text)
    assert trace is None
    if expected is None:
        assert faults.count
        assert faults.listed[-1].line is not None
    else:
        assert faults_of(faults) == expected


def test_a_number_that_is_too_large_is_refused_with_the_largest_one(read):
    _trace, faults = read(HEADER + "1e300,1e300,1e300,a\n-5,-5,1000000000000001,a\n")
    assert [fault.message for fault in faults.listed] == [
        "The value is not a time: write 2026-11-20T15:04:05, or a number of seconds from 0 to 100,000,000,000.",
        "The value is not a number of seconds above 0 and at most 100,000,000,000.",
        "The value is not a whole number of GPUs from 1 to 1,000,000,000,000,000.",
        "The time is before 0; seconds begin at 0.",
        "The value is not a number of seconds above 0 and at most 100,000,000,000.",
        "The value is not a whole number of GPUs from 1 to 1,000,000,000,000,000.",
    ]


def test_a_file_that_does_not_exist(tmp_path):
    reader = TraceReader(str(tmp_path / "nothing.csv"), teams=TEAMS, priority=Priority.LOW)
    assert reader.read() is None
    assert "No such file" in reader.faults.listed[0].message


def test_forms_of_a_good_value(read):
    trace, faults = read(
        "\ufeffteam, gpus ,duration_s,submit_time,name,user\n"
        'a,8,0.0000001,2026-01-01T00:00:00.5+01:00,"train, then\ntest",ann\n'
        "b, 1 ,1e3,2025-12-31 23:00:00Z,,\n"
    )
    assert not faults.count, faults.listed
    first, second = trace.jobs
    assert (first.id, first.submit, first.team, first.duration) == (2, 0, "b", 1000_000_000)
    assert (second.id, second.submit, second.gpus, second.duration) == (1, 500_000, 8, 1)
    assert (second.name, second.user, second.priority) == ("train, then\ntest", "ann", Priority.LOW)
    trace, faults = read(HEADER + "\n\n7,1,1,c\n")
    assert faults_of(faults) == [(4, "team")], "lines are counted, rows without values are not"


def test_swf(read):
    job = "1 5 -1 60 4 -1 -1 {gpus} {limit} -1 1 12 1 1 a 1 -1 -1\n"
    trace, faults = read("; a comment\n\n" + job.format(gpus=-1, limit=-1) + job.format(gpus=8, limit=90), "t.swf")
    assert not faults.count, faults.listed
    first, second = trace.jobs
    assert (first.gpus, first.limit, first.user, first.id) == (4, None, "12", 1)
    assert (second.gpus, second.limit, second.team, second.id) == (8, 90_000_000, "a", 2)
    _, faults = read("1 2 3\n" + job.format(gpus=0, limit="x") + job.replace("60", "-1"), "t.swf.gz")
    assert faults_of(faults)[:4] == [(1, ""), (2, "gpus"), (2, "limit_s"), (3, "duration_s")]


def test_a_long_list_of_faults_is_cut_and_counted(tmp_path):
    trace, cluster = tmp_path / "t.csv", tmp_path / "c.yaml"
    trace.write_text(HEADER + "1,1,1,nobody\n" * 2000)
    cluster.write_text("nodes: [{name: n, gpus: 1}]\nqueues:\n  - {name: a}\n  - {name: a, sice: 3}\n")
    result = CliRunner().invoke(app, ["replay", str(trace), "--on", str(cluster), "-o", "json"])
    assert result.exit_code == 2
    body = json.loads(result.stdout)
    assert body["error_code"] == "TRACE"
    lines = [detail["line"] for detail in body["details"] if detail["source"] == str(cluster)]
    assert lines == [4, 4], "the faults of both files"
    assert "2 faults" in body["message"]
    trace.write_text(HEADER + "1,1,one,a\n" * 2000)
    body = json.loads(CliRunner().invoke(app, ["replay", str(trace), "--on", str(cluster), "-o", "json"]).stdout)
    assert "2002 faults" in body["message"]
    assert len(body["details"]) == MAX_LISTED + 2
    assert body["details"][0]["line"] == 2


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("queues: [{name: a}]\n", "nodes"),
        ("nodes: [{name: n}]\nqueues: [{name: a}]\nworkloads: [{name: w, queue: a, tasks: [{}]}]\n", "workloads"),
        ("queues: [", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_clusters_that_cannot_run_a_trace(tmp_path, text, path):
    (tmp_path / "c.yaml").write_text(text)
    (tmp_path / "t.csv").write_text(HEADER + "1,1,1,a\n")
    result = CliRunner().invoke(
        app, ["replay", str(tmp_path / "t.csv"), "--on", str(tmp_path / "c.yaml"), "-o", "json"]
    )
    assert result.exit_code == 2
    assert [detail["path"] for detail in json.loads(result.stdout)["details"]] == [path]


def test_memory_is_bounded(tmp_path):
    """Many rows, good and bad: neither the text nor the faults pile up."""
    path = tmp_path / "many.csv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(HEADER)
        for n in range(20_000):
            file.write(f"{n},{n % 50 + 1},{n % 9 - (n % 2)},a\n")
    tracemalloc.start()
    reader = TraceReader(str(path), teams=TEAMS, priority=Priority.LOW)
    assert reader.read() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.faults.count > 3000
    assert peak < 2 * 2**20
