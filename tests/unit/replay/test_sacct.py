"""`sacct -P` as it is: arrays, steps, requeues, GPUs of several spellings, times and states of Slurm, odd rows."""

from __future__ import annotations

import codecs
import gzip
import tracemalloc
from pathlib import Path

import pytest

from scheduling.domain.priorities import Priority
from scheduling.domain.slurm.jobs import JobFate, read_job_id, read_state
from scheduling.domain.slurm.resources import AllocatedGpus, read_gpus
from scheduling.domain.slurm.times import BadSlurmValue, read_moment, read_span
from scheduling.history.replay.jobs import SECOND
from scheduling.history.traces.trace import Trace, TraceOptions, TraceReader

COLUMNS = (
    "JobID", "JobName", "User", "Account", "Partition", "QOS", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "Timelimit", "State", "AllocTRES", "ReqTRES", "NodeList",
)  # fmt: skip
DEFAULTS = {
    "JobID": "100", "JobName": "train", "User": "ann", "Account": "bio", "Partition": "gpu", "QOS": "normal",
    "Submit": "2026-10-01T10:00:00", "Eligible": "2026-10-01T10:00:00", "Start": "2026-10-01T11:00:00",
    "End": "2026-10-01T13:00:00", "ElapsedRaw": "7200", "Timelimit": "1-00:00:00", "State": "COMPLETED",
    "AllocTRES": "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G,node=1", "ReqTRES": "cpu=8,gres/gpu=4",
    "NodeList": "dgx01",
}  # fmt: skip
HEADER = "|".join(COLUMNS) + "\n"


def row(**values: str) -> str:
    """A line of sacct; the values of a usual job where none is given."""
    return "|".join({**DEFAULTS, **values}[name] for name in COLUMNS) + "\n"


def read(
    tmp_path: Path, text: str | bytes, teams: set[str] | None = None, **options: object
) -> tuple[Trace | None, TraceReader]:
    file = tmp_path / "month.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    reader = TraceReader(str(file), teams=teams, priority=Priority.LOW, options=TraceOptions(**options))  # type: ignore[arg-type]
    return reader.read(), reader


def faults_of(tmp_path: Path, text: str | bytes, **options: object) -> list[tuple[int | None, str, str]]:
    trace, reader = read(tmp_path, text, **options)  # type: ignore[arg-type]
    assert trace is None
    return [(fault.line, fault.path, fault.message) for fault in reader.faults.listed]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("30:00", 1800), ("1:30:00", 5400), ("2-12", 216_000), ("2-12:30", 217_800), ("00:00:00", 0),
        ("2-12:30:15", 217_815), ("01:02.345", 62), ("UNLIMITED", None), ("Partition_Limit", None), ("Unknown", None),
        ("None", None), ("", None), ("INVALID", ValueError), ("1:2:3:4", ValueError), ("-5", ValueError),
        ("٣٠", ValueError), ("9" * 30, ValueError),
    ],
)  # fmt: skip
def test_spans(text: str, seconds: object) -> None:
    if seconds is ValueError:
        with pytest.raises(BadSlurmValue):
            read_span(text)
    else:
        assert read_span(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00", 60), ("1970-01-01T01:00:00+01:00", 0), ("1700000000", 1_700_000_000), ("Unknown", None),
        ("None", None), ("N/A", None), ("0", None), ("10/01-12:00", ValueError),
        ("0001-01-01T00:00:00+23:59", ValueError),
    ],
)  # fmt: skip
def test_moments(text: str, seconds: object) -> None:
    if seconds is ValueError:
        with pytest.raises(BadSlurmValue):
            read_moment(text)
    else:
        assert read_moment(text) == (None if seconds is None else seconds * SECOND)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gres/gpu=4,gres/gpu:a100=4", 4), ("gres/gpu:a100=4,gres/gpu=4", 4), ("gres/gpu:a100=4", 4),
        ("gres/gpu:a100=4,gres/gpu:h100=2", 6), ("cpu=8,mem=64G,gres/gpu=0", 0), ("cpu=8,gres/shard=3", None),
        ("gres/gpumem=40G,gres/gpuutil=90,gres/gpu=1", 1), ("GRES/GPU=2", 2), ("", None), ("Unknown", None),
        ("gres/gpu=1K", 1024), ("gres/gpu=x", ValueError), ("gres/gpu=1,gres/gpu=2", ValueError), ("junk", ValueError),
        ("gres/gpu=-4", ValueError),
    ],
)  # fmt: skip
def test_gpus(text: str, gpus: object) -> None:
    if gpus is ValueError:
        with pytest.raises(BadSlurmValue):
            read_gpus(text)
    else:
        found = read_gpus(text)
        assert found == AllocatedGpus(gpus or 0, is_counted=gpus is not None, kind=found.kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("gres/gpu=4,gres/gpu:A100=4", "a100"), ("gres/gpu:a100=4", "a100"), ("gres/gpu=4", ""), ("", ""),
        ("gres/gpu=4,gres/gpu:a100=2", ""), ("gres/gpu:a100=4,gres/gpu:h100=2", ""), ("gres/gpu:a100=0", ""),
        ("gres/gpu:a100_1g.5gb=2", ""), ("gres/gpu:a100=2,gres/gpu:h100=0", "a100"),
    ],
)  # fmt: skip
def test_the_type_of_all_gpus(text: str, kind: str) -> None:
    assert read_gpus(text).kind == kind


def test_parts_of_gpus_are_told() -> None:
    assert read_gpus("gres/gpu=2,gres/gpu:a100_1g.5gb=2") == AllocatedGpus(2, are_parts=True, is_counted=True)
    assert read_gpus("gres/gpu:1g.10gb=1").are_parts
    assert read_gpus("gres/gpu:nvidia_a100-sxm4-40gb_1g.5gb=7").are_parts


def test_parts_of_gpus_are_counted_as_gpus_and_told(tmp_path: Path) -> None:
    def notes(*rows: str) -> tuple[str, ...]:
        trace, _reader = read(tmp_path, HEADER + "".join(rows))
        assert trace is not None
        return trace.notes

    parts, note = {"AllocTRES": "gres/gpu:a100_1g.5gb=3"}, "parts of GPUs (MIG). Each part is counted as one GPU."
    assert notes(row(), row(JobID="9", **parts)) == (f"1 line has {note}",)
    assert notes(row(**parts), row(JobID="9", **parts)) == (f"2 lines have {note}",)


def test_a_fraction_of_gpus_is_not_cut_off() -> None:
    assert read_gpus("gres/gpu=4.00").gpus == 4
    with pytest.raises(BadSlurmValue):
        read_gpus("gres/gpu=4.9")


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("100", 1), ("100_9", 1), ("100+1", 1), ("100_[9-11,13,16-20]", 9), ("100_[1-50%4]", 50), ("100_[0-10:5]", 3),
        ("100_[1-5,...]", 5), ("100_[1-5,7-9,...", 8), ("100_[5-1]", 0), ("100_[]", 0), ("x", 0), ("100_", 0),
        ("99999999999", 0), ("100.batch", 0), ("", 0),
    ],
)  # fmt: skip
def test_numbers_of_jobs(text: str, tasks: int) -> None:
    if tasks:
        assert read_job_id(text).tasks == tasks
    else:
        with pytest.raises(BadSlurmValue):
            read_job_id(text)


def test_jobs_tasks_and_components_have_numbers_of_their_own() -> None:
    texts = ("100", "100_0", "100_1", "100+0", "100+1", "101")
    assert len({read_job_id(text).key for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "fate"),
    [
        ("COMPLETED", JobFate.ENDED), ("CANCELLED by 1000", JobFate.ENDED), ("CANCELLED+", JobFate.ENDED),
        ("CANCELED", JobFate.ENDED), ("CA", JobFate.ENDED), ("timeout", JobFate.ENDED), ("OUT_OF_ME+", None),
        ("NODE_FAIL", JobFate.STOPPED), ("PREEMPTED", JobFate.STOPPED), ("REQUEUED", JobFate.STOPPED),
        ("RUNNING", JobFate.OPEN), ("PENDING", JobFate.OPEN), ("REQUEUE_HOLD", JobFate.OPEN), ("", None), ("odd", None),
    ],
)  # fmt: skip
def test_states(text: str, fate: JobFate | None) -> None:
    if fate is None:
        with pytest.raises(BadSlurmValue):
            read_state(text)
    else:
        assert read_state(text) is fate


def test_a_month(tmp_path: Path) -> None:
    unknown = {"Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "AllocTRES": ""}
    trace, reader = read(
        tmp_path,
        HEADER
        + row()
        + row(JobID="100.batch", JobName="batch", AllocTRES="cpu=8,gres/gpu=4")
        + row(JobID="101_3", Account="chem", JobName="a|b|c", QOS="high", Timelimit="01:00:00", NodeList="dgx[01-02]")
        + row(JobID="101_[9-11,13,16-20]", State="PENDING", **unknown)
        + row(JobID="102", State="CANCELLED by 1000", **unknown)
        + row(JobID="103", State="RUNNING", End="Unknown")
        + row(JobID="104", AllocTRES="cpu=8,mem=1G", ReqTRES="cpu=8", Eligible="2026-10-01T10:30:00")
        + row(JobID="105", ElapsedRaw="0", End="2026-10-01T11:00:00", State="FAILED")
        + row(JobID="106", AllocTRES="", ReqTRES="gres/gpu:a100=2", Eligible="2026-10-01T10:30:00"),
        priorities={"high": Priority.HIGH},
        keeps_records=True,
    )
    assert trace is not None, reader.faults.listed
    jobs = [(job.id, job.gpus, job.team, job.name, job.submit // SECOND, job.priority) for job in trace.jobs]
    assert jobs == [
        (1, 4, "bio", "train", 0, Priority.LOW), (2, 4, "chem", "a|b|c", 0, Priority.HIGH),
        (8, 2, "bio", "train", 1800, Priority.LOW),
    ]  # fmt: skip
    first, second, _third = trace.jobs
    assert (first.duration, first.limit) == (7200 * SECOND, 86_400 * SECOND)
    assert second.limit == second.duration, "a job that ran on beyond its limit does so in the replay"
    assert trace.is_dated
    assert trace.records.of(2).nodes == "dgx[01-02]"
    assert trace.notes == (
        "10 of 16 jobs are left out: they had not ended (lines 5, 7).",
        "1 of 16 jobs is left out: it ended before it ran (line 6).",
        "1 of 16 jobs is left out: it had no GPUs (line 8).",
        "1 of 16 jobs is left out: it ran for 0 seconds (line 9).",
        "1 job could not start before a time or another job (Eligible). Each is submitted at that time.",
    ), "one that is left out is not counted"


def test_a_requeued_job_that_was_eligible_at_once_was_not_held(tmp_path: Path) -> None:
    again = {"Eligible": "2026-10-01T11:35:00", "Start": "2026-10-01T12:00:00", "End": "2026-10-01T14:00:00"}
    trace, reader = read(tmp_path, HEADER + row(State="NODE_FAIL") + row(**again))
    assert trace is not None, reader.faults.listed
    assert [(job.submit, job.duration // SECOND) for job in trace.jobs] == [(0, 7200)]
    assert trace.notes == ()


def test_records_of_a_requeued_job_are_its_attempts(tmp_path: Path) -> None:
    times = {"Submit": "2026-10-01T12:00:00", "Eligible": "2026-10-01T12:00:00", "Start": "2026-10-01T15:00:00"}
    trace, _reader = read(
        tmp_path,
        HEADER
        + row(JobID="7", ElapsedRaw="600", **times)  # Slurm writes the newest record first.
        + row(JobID="7", ElapsedRaw="3600", State="PREEMPTED")
        + row(JobID="8", ElapsedRaw="3600", State="NODE_FAIL")
        + row(JobID="8", State="CANCELLED", **{**times, "Start": "Unknown", "ElapsedRaw": "0"})
        + row(JobID="9", ElapsedRaw="3600", State="REQUEUED")
        + row(JobID="9", State="RUNNING", **times),
        keeps_records=True,
    )
    assert trace is not None
    first, second = trace.jobs
    record = trace.records.of(first.id)
    assert (first.submit, first.duration // SECOND, record.stops, record.held // SECOND) == (0, 600, 1, 4200)
    assert (record.ended - record.started) // SECOND == 4 * 3600 + 600
    assert (second.duration // SECOND, trace.records.of(second.id).stops) == (3600, 0)
    assert trace.notes == ("1 of 3 jobs is left out: it had not ended (line 7).",)


def test_a_job_that_was_preempted_for_good_was_preempted_once(tmp_path: Path) -> None:
    """With `PreemptMode=CANCEL`, or cancelled while it waited again: Slurm writes one record."""
    trace, _reader = read(
        tmp_path,
        HEADER + row(JobID="7", State="PREEMPTED") + row(JobID="8", State="NODE_FAIL") + row(JobID="9", State="PR"),
        keeps_records=True,
    )
    assert trace is not None
    assert [trace.records.of(job.id).stops for job in trace.jobs] == [1, 0, 1]


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"ElapsedRaw": "-60"}, ("ElapsedRaw", "The value is a negative time: the job ends before it starts.")),
        ({"ElapsedRaw": "", "End": "2026-10-01T10:59:59"}, ("End", "The value is a negative time: the job ends")),
        ({"Submit": "2026-10-01T12:00:00"}, ("Start", "The value is before Submit, so the wait is negative.")),
        ({"Submit": "Unknown"}, ("Submit", "The value is unknown.")),
        ({"Start": "Unknown"}, ("Start", "The value is unknown, although the record has a run time.")),
        ({"State": "odd"}, ("State", "The value is not a state of Slurm")),
        ({"JobID": "x"}, ("JobID", "The value is not a job such as 100")),
        ({"JobID": "1_[1-3]"}, ("JobID", "The value is a row of several tasks with one run time.")),
        ({"AllocTRES": "gres/gpu=no"}, ("AllocTRES", "The value has a number of GPUs that")),
        ({"AllocTRES": f"gres/gpu={10**9}P"}, ("AllocTRES", "The value has more than 1,000,000,000,000,000 GPUs.")),
        ({"Timelimit": "soon"}, ("Timelimit", "The value is not a time of Slurm")),
        ({"ElapsedRaw": "--5"}, ("ElapsedRaw", "The value is not a whole number of seconds.")),
        ({"Account": ""}, ("Account", "The value is missing, so the job has no team.")),
        ({"User": "u" * 300}, ("user", "The text has 300 characters")),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used(tmp_path: Path, values: dict[str, str], fault: tuple[str, str]) -> None:
    ((line, column, message),) = faults_of(tmp_path, HEADER + row() + row(**{"JobID": "9", **values}))
    assert (line, column) == (3, fault[0])
    assert message.startswith(fault[1])


def test_a_limit_in_minutes_is_read_or_refused(tmp_path: Path) -> None:
    header = HEADER.replace("Timelimit", "TimelimitRaw")
    text = header + row(Timelimit="600") + row(JobID="2", Timelimit="UNLIMITED")
    trace, _reader = read(tmp_path, text)
    assert trace is not None
    assert [job.limit for job in trace.jobs] == [36_000_000_000, None]
    ((line, column, message),) = faults_of(tmp_path, header + row(Timelimit="1-00:00:00"))
    assert (line, column, message) == (2, "TimelimitRaw", "The value is not a whole number of minutes.")


def test_rows_that_cannot_be_used_are_left_out_on_demand(tmp_path: Path) -> None:
    text = HEADER + row() + row(JobID="x") + row(JobID="9", ElapsedRaw="-1") + "a|b\n" + row(JobID="10", Account="")
    trace, _reader = read(tmp_path, text, skips_unusable=True)
    assert trace is not None
    assert trace.notes == ("4 of 5 jobs are left out: they have no run time, GPUs or team (lines 3, 4, 5 and others).",)


def test_headers(tmp_path: Path) -> None:
    assert "do not use -n" in faults_of(tmp_path, row())[0][2]
    assert [column for _line, column, _text in faults_of(tmp_path, "JobID|User|Account|Foo\n")] == [
        "Submit", "Start", "End", "State", "AllocTRES",
    ]  # fmt: skip
    assert faults_of(tmp_path, "JobID|JobID|State|Submit\n")[0][2] == "The header names a column twice."
    assert faults_of(tmp_path, HEADER)[0][2] == (
        "The trace has no jobs. Its options -S and -E are the time that sacct writes, and -a is everybody."
    )
    assert "--team-from: user, partition, qos" in faults_of(tmp_path, HEADER.replace("Account", "Foo") + row())[0][2]
    text = HEADER.lower().replace("\n", "|\r\n") + row().replace("\n", "|\r\n")
    trace, _reader = read(tmp_path, "\ufeff" + text, team_from="user")
    assert trace is not None
    assert [job.team for job in trace.jobs] == ["ann"]


@pytest.mark.parametrize("mark", ["\t", ";", "^", "~"])
def test_other_marks_between_the_columns(tmp_path: Path, mark: str) -> None:
    trace, reader = read(tmp_path, (HEADER + row()).replace("|", mark), keeps_records=True)
    assert trace is not None, reader.faults.listed
    assert [(job.team, job.gpus) for job in trace.jobs] == [("bio", 4)]


@pytest.mark.parametrize("mark", [",", "  "])
def test_marks_that_stand_in_values_are_refused_with_the_command(tmp_path: Path, mark: str) -> None:
    (fault,) = faults_of(tmp_path, (HEADER + row()).replace("|", mark), keeps_records=True)
    assert fault[0] == 1
    assert fault[2].startswith("The columns are separated by spaces or commas") and "sacct -a -X -D -P" in fault[2]


def test_months_that_were_written_one_after_the_other(tmp_path: Path) -> None:
    """Each has its header, and empty lines are none."""
    trace, reader = read(tmp_path, "\n" + HEADER + row() + "\n" + HEADER + row(JobID="101"), keeps_records=True)
    assert trace is not None, reader.faults.listed
    assert [trace.records.of(job.id).line for job in trace.jobs] == [3, 6]


def test_an_empty_history_says_that_it_is_empty(tmp_path: Path) -> None:
    for text in ("", "\n\n"):
        assert "The file is empty: give the output of sacct" in faults_of(tmp_path, text, keeps_records=True)[0][2]


def test_every_team_that_the_cluster_does_not_have_is_one_fault(tmp_path: Path) -> None:
    text = HEADER + row() + row(JobID="2", Account="it is") + row(JobID="3", Account="it is")
    ((line, _column, message),) = faults_of(tmp_path, text, teams={"bio"})
    assert line == 3
    assert message.startswith('"it is", the team of 2 jobs, is not a queue that may run work')
    assert "--map 'it is'=QUEUE" in message
    trace, _reader = read(tmp_path, text, teams={"bio"}, renames={"it is": "bio"})
    assert trace is not None
    assert {job.team for job in trace.jobs} == {"bio"}


def test_jobs_of_two_clusters_are_not_mixed(tmp_path: Path) -> None:
    text = HEADER.replace("Partition", "Cluster") + row(Partition="a") + row(JobID="2", Partition="b")
    ((line, column, message),) = faults_of(tmp_path, text)
    assert (line, column) == (3, "Cluster")
    assert "sacct -M NAME" in message


def test_odd_encodings(tmp_path: Path) -> None:
    text = HEADER + row(Account="größe") + row(JobID="2", Account="größe")
    line, _path, message = faults_of(tmp_path, (HEADER + row()).encode() + b"1|\xff|\n")[0]
    assert (line, message.startswith("The line is not valid UTF-8. Convert the file: iconv")) == (3, True)
    for content in (text.encode("utf-16"), codecs.BOM_UTF16_BE + text.encode("utf-16-be"), text.encode("utf-8-sig")):
        for packed in (content, gzip.compress(content)):
            trace, _reader = read(tmp_path, packed)
            assert trace is not None
            assert [job.team for job in trace.jobs] == ["größe"] * 2
    line, _path, message = faults_of(tmp_path, text.replace("\n", "\r"), keeps_records=True)[0]
    assert (line, message.startswith("The lines end with CR alone.")) == (1, True)
    line, _path, message = faults_of(tmp_path, text.encode("utf-16") + b"\x00\xd8")[0]
    assert message.endswith("not valid UTF-16 from here on.")


def test_a_million_records_need_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.history.traces.trace.MAX_JOBS", 4_000)
    text = HEADER + "".join(row(JobID=str(n), User=f"u{n % 50}") for n in range(6_000))
    tracemalloc.start()
    try:
        faults = faults_of(tmp_path, text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert faults == [(4_002, "", "The file has more than 4,000 records; give a shorter time.")]
    assert peak < 400 * 4_000 + 4 * len(text)
