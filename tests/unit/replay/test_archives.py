"""Files of public archives: unknown fields, jobs that never ran, jobs that follow others, files without a header."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduling.domain.priorities import Priority
from scheduling.history.traces.trace import Trace, TraceOptions, TraceReader

SWF = """; Version: 2
1 0 0 100 4 -1 -1 4 200 -1 1 7 3 -1 -1 2 -1 -1
2 5 0 -1 4 -1 -1 4 200 -1 0 7 3 -1 -1 2 -1 -1
3 9 0 50 2 -1 -1 2 200 -1 1 8 4 -1 -1 2 1 20
"""


def read(tmp_path: Path, text: str, name: str = "a.swf", **options: object) -> tuple[Trace | None, list[str]]:
    file = tmp_path / name
    file.write_text(text)
    reader = TraceReader(str(file), teams=None, priority=Priority.LOW, options=TraceOptions(**options))  # type: ignore[arg-type]
    return reader.read(), [fault.message for fault in reader.faults.listed]


def test_an_unknown_queue_is_reported_with_its_field(tmp_path: Path) -> None:
    _trace, faults = read(tmp_path, SWF)
    assert sum("Field 15 (the queue)" in text and "--team-from" in text for text in faults) == 3
    assert sum("(field 4) is missing" in text and "--skip-unusable" in text for text in faults) == 1


@pytest.mark.parametrize(
    ("options", "teams"),
    [
        ({"team": "all"}, ["all", "all"]),
        ({"team_from": "group"}, ["3", "4"]),
        ({"team_from": "partition"}, ["2", "2"]),
        ({"team_from": "user"}, ["7", "8"]),
    ],
)
def test_teams_and_jobs_that_are_left_out(tmp_path: Path, options: dict[str, object], teams: list[str]) -> None:
    trace, faults = read(tmp_path, SWF, skips_unusable=True, **options)
    assert faults == []
    assert trace is not None
    assert [job.team for job in trace.jobs] == teams
    assert trace.notes[0].startswith("1 of 3 jobs is left out")
    assert trace.notes[1].startswith("1 job follows another job (fields 17 and 18)")


def test_each_queue_that_the_cluster_does_not_have_is_one_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.swf"
    line = "{0} {0} 0 60 2 -1 -1 2 -1 -1 1 7 3 -1 {1} 2 -1 -1\n"
    file.write_text("".join(line.format(n, 5 if n % 2 else 6) for n in range(9)))
    for skips, count in ((False, 1), (True, 0)):
        options = TraceOptions(renames={"6": "all"}, skips_unknown_teams=skips)
        reader = TraceReader(str(file), teams={"all"}, priority=Priority.LOW, options=options)
        trace = reader.read()
        assert [fault.line for fault in reader.faults.listed] == [2] * count
        assert (trace is not None) == skips
    assert trace is not None
    assert trace.notes[0].startswith("4 jobs (0 GPU-hours) of 1 team are left out")


def test_a_file_without_usable_jobs(tmp_path: Path) -> None:
    (fault,) = read(tmp_path, SWF, skips_unusable=True)[1]
    assert fault.startswith("The trace has no usable jobs. 3 of 3 jobs are left out: they have no run time,")


def test_more_fields_a_header_that_is_wrong_and_processors_that_nobody_requested(tmp_path: Path) -> None:
    job = "1 5 -1 60 4 -1 -1 {} -1 -1 1 12 1 1 3 1 -1 -1"
    text = f"; MaxJobs: 900\n; MaxProcs: 1\n# no comment of the format\n{job.format(-1)} 9 9 9\n{job.format(-1.0)}\n"
    trace, faults = read(tmp_path, text)
    assert faults == []
    assert trace is not None
    assert [(each.gpus, each.team) for each in trace.jobs] == [(4, "3"), (4, "3")]
    assert trace.notes == (
        "1 line has more than 18 fields. The others are not read.",
        "The header announces 900 jobs; the file has 2.",
    )


@pytest.mark.parametrize("team", ["", "-1"])
def test_no_team_is_called_minus_one(tmp_path: Path, team: str) -> None:
    trace, (fault,) = read(tmp_path, f"submit_time,duration_s,gpus,team\n0,1,1,{team}\n", "a.csv")
    assert trace is None
    assert "--team NAME" in fault


def test_neither_no_team_nor_no_processors_become_numbers(tmp_path: Path) -> None:
    job = "1 5 -1 60 {} -1 -1 {} -1 -1 1 12 1 1 {} 1 -1 -1\n"
    trace, faults = read(tmp_path, job.format(-1, -1, 3) + job.format(4, 4, "-1.0") + job.format(0, 0, 3))
    assert trace is None
    assert [text[:45] for text in faults] == [
        "The value (fields 8 and 5) is missing; give a", "Field 15 (the queue), which is the team, is n",
        "The value (fields 8 and 5) is not a whole num",
    ]  # fmt: skip


def test_options_of_another_form(tmp_path: Path) -> None:
    assert read(tmp_path, SWF, team_from="account")[1] == [
        "The file is in the form of the Standard Workload Format: it has queue, group, partition, user."
    ]
    text = "submit_time,duration_s,gpus,team\n0,1,1,a\n"
    assert read(tmp_path, text, "a.csv", team_from="user")[1][0].endswith("its column team is the team.")
    assert "is made for a replay" in read(tmp_path, text, "a.csv", skips_unusable=True)[1][0]


def test_a_team_for_rows_of_a_csv_file(tmp_path: Path) -> None:
    text = "submit_time,duration_s,gpus,team\n0,1,1,\n1,1,1,b\n"
    trace, _faults = read(tmp_path, text, "a.csv", team="a")
    assert trace is not None
    assert [job.team for job in trace.jobs] == ["a", "b"]
    assert "--team NAME" in read(tmp_path, text, "a.csv")[1][0]


def test_a_file_without_a_header_says_so_and_repeats_nothing(tmp_path: Path) -> None:
    _trace, (fault,) = read(tmp_path, "04/09/2017,secret,4\n04/10/2017,secret,5\n", "accounting.csv")
    assert fault.startswith("The first line has no header: it names none of the columns submit_time")
    assert "secret" not in fault
