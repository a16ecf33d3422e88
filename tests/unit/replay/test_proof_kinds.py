"""A proof by kind of GPU, and with the work that was there when the month began."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduling.configuration.folders import read_folder
from scheduling.history.proof.configured_cluster import configured_cluster
from scheduling.history.proof.given_nodes import read_nodes
from scheduling.history.proof.job_kinds import JobKinds
from tests.unit.replay.test_proof import job, rows_of, run
from tests.unit.replay.test_sacct import HEADER
from tests.unit.replay.test_workload_log import condition, lines, workload

DUMP = """\
Cluster - 'tux'
Parent - 'root'
Account - 'bio':GrpTRES=gres/gpu:a100=8,gres/gpu:v100=4
Account - 'chem':GrpTRES=gres/gpu:v100=4
"""
NODES = "NodeName=a1 Gres=gpu:a100:8\nNodeName=v[1-2] Gres=gpu:v100:4\n"
OCT_1 = "2026-10-01T"


@pytest.fixture
def firm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster with two types of GPU, imported to `config`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tux.cfg").write_text(DUMP)
    (tmp_path / "nodes.txt").write_text(NODES)
    assert run("import", "slurm", "tux.cfg", "nodes.txt", "-o", "config", "--guarantee", "limit")[0] == 2
    return tmp_path


def prove(firm: Path, *jobs: str, options: tuple[str, ...] = ()) -> tuple[str, dict[str, dict[str, str]], str]:
    """The output, the jobs by their line, and the page."""
    (firm / "month.txt").write_text(HEADER + "".join(jobs))
    code, text = run("prove", "-f", "config", "--history", "month.txt", *options)
    assert code == 0, text
    return text, rows_of(firm / "proof"), (firm / "proof" / "proof.html").read_text()


def test_jobs_wait_for_their_own_kind_alone(firm: Path) -> None:
    text, rows, page = prove(
        firm,
        job(1, 0, 4, AllocTRES="gres/gpu=8,gres/gpu:a100=8"),
        job(2, 0, 1, AllocTRES="gres/gpu=4,gres/gpu:a100=4"),
        job(3, 0, 1, AllocTRES="gres/gpu=4,gres/gpu:V100=4", NodeList="v1"),
        job(4, 0, 1, AllocTRES="gres/gpu=4", NodeList="v[1-2]", Account="chem"),
    )
    assert [rows[f"{line}"]["wait_after_s"] for line in (2, 3, 4, 5)] == ["0", "14400", "0", "0"]
    assert "<td>a100</td><td>8</td><td>36</td><td>32</td>" in re.sub(" class=.text.", "", page)
    told = "Jobs count in the kind of GPU that they had: 2 in a100, 2 in v100."
    assert told in text
    assert told in page


def test_a_kind_that_nobody_can_tell_is_every_one_of_the_pool(firm: Path) -> None:
    text, rows, page = prove(
        firm,
        job(1, 0, 4, AllocTRES="gres/gpu=8,gres/gpu:a100=8"),
        job(2, 0, 1, AllocTRES="gres/gpu=4"),
        job(3, 0, 1, AllocTRES="gres/gpu=4,gres/gpu:a100=2,gres/gpu:v100=2", NodeList="a1,v1"),
    )
    assert sorted(rows[f"{line}"]["wait_after_s"] for line in (3, 4)) == ["0", "3600"]  # v100: 4 of the pool
    assert "Nobody can tell" in page
    assert "Of 2 jobs (8 GPU-hours) nobody can tell the kind of GPU" in text


def test_a_kind_without_a_quota_of_the_pool_never_starts(firm: Path) -> None:
    path = firm / "config" / "pools" / "chem.yaml"
    path.write_text("pools: {chem: {backend: imported, resources: {flavors: {v100: {guarantee: 4}}}}}\n")
    text, rows, page = prove(firm, job(1, 0, 1, AllocTRES="gres/gpu=1,gres/gpu:a100=1", Account="chem"))
    assert rows["2"]["verdict"] == "never"
    assert "a100" in page[page.index("Jobs that never start") :]
    assert "1 would never have started" in text


def test_the_flavor_of_an_admission(firm: Path) -> None:
    done = workload("w", condition("Admitted", 30), condition("Finished", 90), gpus="4")
    done["status"]["admission"]["podSetAssignments"][0]["flavors"] = {"nvidia.com/gpu": "v100", "cpu": "other"}
    (firm / "month.jsonl").write_text(lines(done))
    code, text = run("prove", "-f", "config", "--history", "month.jsonl")
    assert code == 0, text
    assert "1 in v100." in text


def test_nodes_of_the_command_line_with_their_flavors(firm: Path) -> None:
    jobs = (job(1, 0, 2, AllocTRES="gres/gpu=8,gres/gpu:a100=8"), job(2, 0, 1, AllocTRES="gres/gpu=4,gres/gpu:v100=4"))
    text, rows, _ = prove(firm, *jobs, options=("--nodes", "v100=2x4,a100=1x8"))
    assert (rows["3"]["wait_after_s"], "added up" in text) == ("0", False)
    text, rows, _ = prove(firm, *jobs, options=("--nodes", "1x8"))
    assert (rows["3"]["wait_after_s"], "Quotas of several flavors are added up" in text) == ("7200", True)
    found = read_nodes("h100=1x8, 1x4")
    assert found is not None
    assert [dict(node.resources) for node in found] == [{"h100/gpu": 8}, {"default/gpu": 4}]
    assert [read_nodes(text) for text in ("=1x8", "-x=1x8", "a=b=1x8", f"{'a' * 64}=1x8")] == [None] * 4


def test_quotas_and_limits_by_flavor(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        "cohorts:\n  org:\n    quotas:\n    - {flavor: a100, resource: gpu, nominal: 3}\n"
        "pools:\n  lab:\n    backend: c\n    cohort: org\n    when_can_borrow: next\n"
        "    subpools: {bio: {a100: 2, h100: 1}}\n    resources:\n"
        "      flavors:\n        h100: {guarantee: 2, maximum: 5}\n"
        "        a100: {guarantee: 4, borrowing_limit: 1, lending_limit: 0}\n"
        "  old: {backend: c, resources: {gpu: {guarantee: 1}}}\n"
    )
    found = configured_cluster(read_folder(tmp_path), read_nodes("h100=1x8,a100=1x8,1x1"), None)
    assert (found.problem, found.notes) == ("", [])
    above, rest, bio, old = found.facts.queues
    assert above.quota == {"h100/gpu": 2, "a100/gpu": 4}
    assert above.limit == {"h100/gpu": 5, "default/gpu": 0}
    assert above.borrowing_limit == {"h100/gpu": 3, "a100/gpu": 1}
    assert (above.lending_limit, above.when_can_borrow) == ({"a100/gpu": 0}, "next")
    assert (rest.quota, bio.quota) == ({"h100/gpu": 1, "a100/gpu": 2}, {"h100/gpu": 1, "a100/gpu": 2})
    assert old.limit == {"h100/gpu": 0, "a100/gpu": 0}
    assert found.facts.cohorts[0].quota == {"a100/gpu": 3}
    assert (found.flavors["lab--bio"], found.flavors["old"]) == (("h100", "a100"), ("default",))
    kinds = JobKinds(found.facts, found.flavors)
    assert [kinds("lab", kind, "") for kind in ("H100", "?", "")] == [("h100",), ("h100", "a100"), ("h100", "a100")]


def test_what_ran_at_the_begin_runs_at_the_begin(firm: Path) -> None:
    """Job 1 ran for two hours before the month and for two in it; job 2 waited at its begin; job 3 is of the month."""
    early = {"Submit": f"{OCT_1}08:00:00", "Eligible": f"{OCT_1}08:00:00"}
    of_month = {"Submit": f"{OCT_1}12:30:00", "Eligible": f"{OCT_1}12:30:00"}
    full = {"AllocTRES": "gres/gpu=8,gres/gpu:a100=8"}
    text, rows, page = prove(
        firm, job(1, 0, 4, **full, **early), job(2, 4, 1, **full, **early), job(3, 5, 1, **full, **of_month),
        job(4, 0, 1, **full, **early, Start=f"{OCT_1}09:00:00", End=f"{OCT_1}10:00:00"),
        options=("--since", f"{OCT_1}12:00:00"),
    )  # fmt: skip
    assert list(rows) == ["4"]
    assert rows["4"]["wait_after_s"] == rows["4"]["wait_before_s"] == "9000"
    said = "2 jobs ran (on 8 GPUs) or waited at 2026-10-01T12:00:00: so they do in the replay."
    assert said in text
    assert "with the 24 GPU-hours that they still ran" in text
    assert "Of 1 job, 1 would have ended at the same time" in text
    assert "2026-10-01T12:00:00 to 2026-10-01T16:00:00" in page
    assert "50.0%" in text  # 8 of 16 GPUs in the four hours of the month


def test_the_warm_up_is_in_no_count(firm: Path) -> None:
    """Jobs 1 and 2 ran or waited at the begin, on a node that the folder does not have; job 3 is of the month."""
    early = {"Submit": f"{OCT_1}08:00:00", "Eligible": f"{OCT_1}08:00:00", "NodeList": "old1"}
    of_month = {"Submit": f"{OCT_1}12:30:00", "Eligible": f"{OCT_1}12:30:00", "NodeList": "old1"}
    full = {"AllocTRES": "gres/gpu=4,gres/gpu:a100=4"}
    text, _rows, _page = prove(
        firm, job(1, 0, 4, **full, **early), job(2, 4, 1, AllocTRES="gres/gpu=2", **early),
        job(3, 5, 1, **full, **of_month), job(4, 3, 1, **full, **early, State="RUNNING"),
        options=("--since", f"{OCT_1}12:00:00"),
    )  # fmt: skip
    assert "Jobs count in the kind of GPU that they had: 1 in a100." in text
    assert "nobody can tell the kind" not in text
    assert "1 job (4 GPU-hours) ran on nodes that the folder does not have." in text
    assert "In the whole file: 1 of 4 jobs is left out: it had not ended" in text


def test_earlier_runs_of_the_warm_up_count_as_they_were(firm: Path) -> None:
    """Job 1 ran from 10 to 11, was requeued, and ran from 13 to 14; the month begins at 12."""
    full = {"AllocTRES": "gres/gpu=8,gres/gpu:a100=8"}
    of_month = {"Submit": f"{OCT_1}12:30:00", "Eligible": f"{OCT_1}12:30:00"}
    text, _rows, page = prove(
        firm, job(1, 0, 1, **full, State="REQUEUED"), job(1, 3, 1, **full), job(2, 4, 1, **full, **of_month),
        options=("--since", f"{OCT_1}12:00:00"),
    )  # fmt: skip
    assert "<td>a100</td><td>8</td><td>16</td><td>16</td>" in re.sub(" class=.text.", "", page)
    assert re.search(r"Used up to the last recorded end \(GPU-hours\) +16 +16 +0", text)


def test_a_begin_at_which_nothing_ran(firm: Path) -> None:
    text, _rows, _page = prove(firm, job(1, 0, 4), options=("--since", f"{OCT_1}09:00:00"))
    assert "No job of the history ran or waited at 2026-10-01T09:00:00, so the replay begins on empty nodes." in text


def test_without_a_begin_the_page_says_how_much_is_uncertain(firm: Path) -> None:
    early = {"Submit": f"{OCT_1}08:00:00", "Eligible": f"{OCT_1}08:00:00"}
    text, _rows, _page = prove(firm, job(1, 0, 4, **early), job(2, 9, 1, Submit=f"{OCT_1}18:30:00"))
    assert "nothing that ended before 2026-10-01T14:00:00, so 1 job (16 GPU-hours)" in text
    assert "--since 2026-10-01T14:00:00 leaves them out of the sums, but not out of the replay." in text
