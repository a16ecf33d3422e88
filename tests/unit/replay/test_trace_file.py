"""A written trace is read as the same jobs."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduling.domain.priorities import Priority
from scheduling.history.traces.trace import TraceReader
from scheduling.history.traces.trace_file import TraceJob, csv_trace, swf_trace

BEGIN = datetime(2026, 11, 1, 8, 30, 0, 250_000)
JOBS = [
    TraceJob(BEGIN, 61.5, 8, "team--a", 'train, "x"\ny', "ann", Priority.LOW, None),
    TraceJob(BEGIN + timedelta(seconds=2.5), 0.000001, 1, "other", "=1", "bob", Priority.HIGH, 90.0, 30.5),
]


def read(text, path):
    path.write_text(text, newline="")
    reader = TraceReader(str(path), teams={"team--a", "other", "1", "2"}, priority=Priority.NORMAL)
    trace = reader.read()
    assert trace is not None, reader.faults.listed
    return list(trace.jobs)


def test_csv(tmp_path):
    assert [
        (j.submit, j.duration, j.gpus, j.team, j.name, j.user, j.priority, j.limit, j.checkpoint)
        for j in read(csv_trace(JOBS), tmp_path / "t.csv")
    ] == [
        (0, 61_500_000, 8, "team--a", 'train, "x"\ny', "ann", Priority.LOW, None, None),
        (2_500_000, 1, 1, "other", "=1", "bob", Priority.HIGH, 90_000_000, 30_500_000),
    ]


def test_no_name_is_a_formula_of_a_spreadsheet():
    job = TraceJob(BEGIN, 1.0, 1, "team", '=HYPERLINK("http://x")', "@ann", Priority.LOW, None)
    row = csv_trace([job]).splitlines()[1]
    assert "\"'=HYPERLINK" in row and ",'@ann," in row


def test_swf(tmp_path):
    text = swf_trace(JOBS)
    assert {len(line.split()) for line in text.splitlines() if not line.startswith(";")} == {18}
    assert [(j.submit, j.duration, j.gpus, j.team, j.user, j.limit) for j in read(text, tmp_path / "t.swf")] == [
        (0, 62_000_000, 8, "1", "1", None),
        (2_000_000, 1_000_000, 1, "2", "2", 90_000_000),
    ]
    assert "; Queue: 1 team--a" in text
