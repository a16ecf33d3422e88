"""The proof before moving in: a firm's files to the printed page, and each number of a comparison."""

from __future__ import annotations

import csv
import gzip
import re
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from pools.domain.values.amounts import GPU
from scheduling.configuration.folders import read_folder
from scheduling.domain.engine.kept_state import KeptState
from scheduling.history.proof import prove, worst_cases
from scheduling.history.proof.configured_cluster import configured_cluster
from scheduling.history.proof.given_nodes import read_nodes
from scheduling.history.proof.names_of_teams import TeamNames
from scheduling.history.proof.numbers import wait_text
from scheduling.history.replay.clock import gang_name
from tests.unit.replay.test_sacct import HEADER, row
from tests.unit.replay.test_workload_log import condition, lines, workload

DUMP = """\
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'Bio':Description=b:Fairshare=3:GrpTRES=gres/gpu=8
Account - 'chem':Description=c:GrpTRES=gres/gpu=4
QOS - 'normal':Priority=0
QOS - 'high':Priority=1000
"""
AT_11 = {"Submit": "2026-10-01T11:00:00", "Eligible": "2026-10-01T11:00:00"}
NODES = "NodeName=dgx01 CPUTot=64 RealMemory=1000000 Gres=gpu:a100:8\n"


def run(*arguments: str) -> tuple[int, str]:
    """The exit code and all output of `osmo-admin`."""
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def job(number: int, start: int, hours: int, **values: str) -> str:
    """A job that was submitted at 10:00 and started after some hours."""
    times = {"Start": f"2026-10-01T{10 + start}:00:00", "End": f"2026-10-01T{10 + start + hours}:00:00"}
    return row(**{"JobID": str(number), "ElapsedRaw": str(hours * 3600), "Account": "Bio", **times, **values})


@pytest.fixture
def firm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the files of a firm, imported to `config`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tux.cfg").write_text(DUMP)
    (tmp_path / "nodes.txt").write_text(NODES)
    (tmp_path / "slurm.conf").write_text("ClusterName=tux\n")
    (tmp_path / "gres.conf").write_text("AutoDetect=nvml\n")
    sources = ("tux.cfg", "nodes.txt", "slurm.conf", "gres.conf")
    assert run("import", "slurm", *sources, "-o", "config", "--guarantee", "limit")[0] == 2
    return tmp_path


def rows_of(folder: Path) -> dict[str, dict[str, str]]:
    """The lines of the file of jobs by the line of the history."""
    with (folder / "jobs.csv").open(encoding="utf-8") as file:
        return {line["line"]: line for line in csv.DictReader(file)}


def test_a_firm_walks_from_five_files_to_the_printed_page(firm: Path) -> None:
    month = HEADER + "".join(
        (
            job(1, 0, 4, AllocTRES="gres/gpu=8"),
            job(2, 1, 2, AllocTRES="gres/gpu=4", QOS="high", User="bob", **AT_11),  # takes the place of job 1
            job(3, 6, 1, AllocTRES="gres/gpu=2", NodeList="old[01-02]"),
            job(4, 1, 1, AllocTRES="gres/gpu=8", Account="chem", JobName="<script>alert(1)</script>"),
        )
    )
    (firm / "month.txt.gz").write_bytes(gzip.compress(month.encode()))
    options = ("prove", "-f", "config", "--history", "month.txt.gz", "--priority-of", "high=HIGH")
    code, text = run(*options)
    assert code == 0, text
    assert "Of 4 jobs, " in text
    assert "1 would never have started." in text
    page = (firm / "proof" / "proof.html").read_text()
    assert "It asks for 8 GPUs, more than the limit of chem (4) could ever give." in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"<script|https?:|src=|@import|url\(", page)
    assert re.search(r"@media print \{[^@]*\.wide \{ overflow: visible; \}", page), "paper has no scroll bar"
    assert ".cases tbody { break-inside: avoid; }" in page, "a case and its reason are on one sheet"
    assert "1 job (2 GPU-hours) ran on nodes that the folder does not have." in page
    assert "The record has 22 GPUs in use" not in page
    assert re.search(r"The record has \d+ GPUs in use", page)
    rows = rows_of(firm / "proof")
    assert [rows[line]["verdict"] for line in "2345"] == ["later", "same", "sooner", "never"]
    assert (rows["2"]["stops_after"], rows["3"]["wait_after_s"], rows["5"]["ended_after"]) == ("1", "0", "")
    before = {path.name: path.read_bytes() for path in (firm / "proof").iterdir()}
    assert run(*options)[0] == 0
    assert before == {path.name: path.read_bytes() for path in (firm / "proof").iterdir()}


def test_the_engine_is_asked_about_waits_that_can_be_among_the_worst(
    firm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job 2 has a delay of 8 hours when the others begin to wait: job 4, of the same size, waits for 19, and job 5, of
    one GPU, and job 6 for less GPU-time."""

    def alone(number: int, hour: float, hours: int, gpus: int = 8) -> str:
        begin = datetime(2026, 10, 1) + timedelta(hours=hour)
        start, end = begin.isoformat(), (begin + timedelta(hours=hours)).isoformat()
        times = {"Submit": start, "Eligible": start, "Start": start, "End": end, "ElapsedRaw": str(hours * 3600)}
        return row(JobID=str(number), Account="Bio", AllocTRES=f"gres/gpu={gpus}", **times)

    asked = []
    explain = worst_cases._reason

    def note(state: KeptState, name: str) -> str:
        asked.append(name)
        return explain(state, name)

    monkeypatch.setattr(worst_cases, "_reason", note)
    monkeypatch.setattr(prove, "MOST_WORST", 1)
    jobs = [(10, 8), (10, 8), (26, 20), (27, 1), (36, 1, 1), (46.5, 1)]
    Path("month.txt").write_text(HEADER + "".join(alone(number, *each) for number, each in enumerate(jobs, 1)))
    code, text = run("prove", "-f", "config", "--history", "month.txt", "-o", "proof")
    assert code == 0, text
    assert asked == [gang_name(2), gang_name(4)]
    page = Path("proof/proof.html").read_text()
    assert "GPUs missing" in page and worst_cases.NEXT_END not in page


def test_who_gets_more(firm: Path) -> None:
    (firm / "month.txt").write_text(
        HEADER + job(1, 5, 1, AllocTRES="gres/gpu=2") + job(2, 9, 1, AllocTRES="gres/gpu=2")
    )
    code, text = run("prove", "-f", "config", "--history", "month.txt", "--nodes", "1x4,2x2", "-o", "out")
    assert code == 0, text
    assert "Gets more (delay in GPU-hours): bio (−28)" in text
    assert "Gets less (delay in GPU-hours): –" in text
    assert "nobody can tell which jobs ran on other nodes" in text
    assert "No job would have ended later." in (firm / "out" / "proof.html").read_text()


def test_a_job_with_a_billion_gpus(firm: Path) -> None:
    (firm / "month.txt").write_text(HEADER + job(1, 0, 1, AllocTRES="gres/gpu=1000000000"))
    code, text = run("prove", "-f", "config", "--history", "month.txt")
    assert (code, "1 would never have started." in text) == (0, True)
    assert "It asks for 1,000,000,000 GPUs; all nodes together have 8." in (firm / "proof" / "proof.html").read_text()


def test_a_log_of_workloads(firm: Path) -> None:
    done = workload("w", condition("Admitted", 30), condition("Finished", 90), gpus="4")
    (firm / "month.jsonl").write_text(lines(done))
    code, text = run("prove", "-f", "config", "--history", "month.jsonl", "--priority-of", "high=HIGH")
    assert code == 0, text
    (row_,) = rows_of(firm / "proof").values()
    assert (row_["team"], row_["priority"], row_["wait_before_s"], row_["later_s"]) == ("bio", "HIGH", "1800", "-1800")


def test_an_archive_with_waits(firm: Path) -> None:
    line = "{0} 0 {1} 60 2 -1 -1 2 -1 -1 1 7 3 -1 1 2 -1 -1\n"
    (firm / "a.swf").write_text(line.format(1, 100) + line.format(2, 0))
    code, text = run("prove", "-f", "config", "--history", "a.swf", "--map", "1=bio")
    assert code == 0, text
    assert rows_of(firm / "proof")["1"]["later_s"] == "-100"
    (firm / "a.swf").write_text(line.format(1, -1))
    code, text = run("prove", "-f", "config", "--history", "a.swf", "--map", "1=bio")
    assert (code, "line 1, wait_s: The wait (field 3) is not known" in text) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", "0x8"), "--nodes must be such as 12x8,4x4"),
        (("--nodes", "1000000x1000000000"), "--nodes must be such as 12x8,4x4"),
        (("--checkpoint", "soon"), "--checkpoint is not a number of seconds"),
        (("--priority-of", "high=URGENT"), "--priority-of has a priority that is not one of HIGH, NORMAL, LOW."),
        (("--map", "Bio"), "--map must be TEAM=QUEUE."),
        (("--backend", "other"), "No pool is on the cluster of --backend."),
        (("--team", "nobody"), "The team is not a pool or a subpool of the folder."),
        (("--since", "yesterday"), "The value is not a date, as the trace has."),
        (("--since", "2030-01-01"), "No job of the trace was submitted in the given time."),
        (("--team-from", "queue"), "it has account, user, partition, qos, group."),
        (("--team-from", "user"), '"ann", the team of 1 job, is not a pool or a subpool of the folder. Give its jobs'),
        (("--history", "nothing.txt"), "No such file"),
        (("-f", "nothing"), "nothing does not exist. Make it with: osmo-admin import"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(firm: Path, options: tuple[str, ...], message: str) -> None:
    (firm / "month.txt").write_text(HEADER + job(1, 0, 1))
    code, text = run("prove", "-f", "config", "--history", "month.txt", *options)
    assert (code, message in text) == (1, True), text
    assert not (firm / "proof" / "proof.html").exists()


def test_a_folder_with_faults_and_one_without_nodes(firm: Path) -> None:
    (firm / "month.txt").write_text(HEADER + job(1, 0, 1))
    (firm / "config" / "backends" / "imported.yaml").unlink()
    assert "give them with --nodes, as in 12x8" in run("prove", "-f", "config", "--history", "month.txt")[1]
    (firm / "config" / "pools" / "bio.yaml").write_text("pools: {bio: {weights: 3}}\n")
    code, text = run("prove", "-f", "config", "--history", "month.txt")
    assert code == 1
    assert re.search(r"pools/bio.yaml, line 1, pools.bio.weights: ", text)


def test_teams_without_a_pool_are_named_with_their_jobs(firm: Path) -> None:
    old = [job(n, n, 2, Account=f"old{n % 3}", AllocTRES="gres/gpu=4") for n in range(4)]
    (firm / "month.txt").write_text(HEADER + job(9, 0, 1) + "".join(old))
    code, text = run("prove", "-f", "config", "--history", "month.txt")
    assert (code, text.count("Give its jobs to another with --map old")) == (1, 3)
    assert 'line 3, team: "old0", the team of 2 jobs, is not a pool or a subpool of the folder.' in text
    code, text = run("prove", "-f", "config", "--history", "month.txt", "--skip-unknown-teams")
    assert code == 0, text
    left_out = (
        "4 jobs (32 GPU-hours) of 3 teams are left out, because no such team is a pool or a subpool of the folder: "
        '"old0" (2 jobs, 16 GPU-hours); "old1" (1 job, 8 GPU-hours); "old2" (1 job, 8 GPU-hours). What they held is '
        "free in the replay."
    )
    assert left_out in text
    assert left_out.replace('"', "&quot;") in (firm / "proof" / "proof.html").read_text()
    (firm / "month.txt").write_text(HEADER + "".join(old))
    code, text = run("prove", "-f", "config", "--history", "month.txt", "--skip-unknown-teams")
    assert (code, "The trace has no usable jobs. 4 jobs (32 GPU-hours) of 3 teams are" in text) == (1, True)


def test_a_csv_has_no_recorded_starts(firm: Path) -> None:
    (firm / "a.csv").write_text("submit_time,duration_s,gpus,team\n0,1,1,bio\n")
    assert "no recorded starts to compare with" in run("prove", "-f", "config", "--history", "a.csv")[1]


def test_subpools_lend_to_one_another(firm: Path) -> None:
    pool = "    backend: imported\n    resources: {gpu: {guarantee: 8}}\n    subpools: {bio: 4, chem: 2}\n"
    for path in (firm / "config").rglob("*.yaml"):
        if path.parent.name != "backends":
            path.unlink()
    (firm / "config" / "pools" / "lab.yaml").write_text(f"pools:\n  lab:\n{pool}")
    first = job(1, 0, 1, AllocTRES="gres/gpu=8")
    (firm / "month.txt").write_text(HEADER + first + job(2, 1, 1, Account="lab", **AT_11))
    code, output = run("prove", "-f", "config", "--history", "month.txt")
    assert code == 0, output
    rows = rows_of(firm / "proof")
    assert (rows["2"]["team"], rows["3"]["team"]) == ("lab--bio", "lab")
    assert rows["2"]["wait_after_s"] == "0"


def test_flavors_are_added_up_on_nodes_without_flavors(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        "cohorts:\n  org:\n    quotas:\n    - {flavor: a100, resource: gpu, nominal: 3}\n"
        "    - {flavor: h100, resource: gpu, nominal: 1}\n"
        "pools:\n  lab:\n    backend: c\n    cohort: org\n    subpools: {bio: {a100: 2, h100: 1}}\n    resources:\n"
        "      flavors: {a100: {guarantee: 4, borrowing_limit: 1}, h100: {guarantee: 2, borrowing_limit: 2}}\n"
    )
    found = configured_cluster(read_folder(tmp_path), read_nodes("1x8"), None)
    assert found.problem == ""
    assert [note[:42] for note in found.notes] == ["Quotas of several flavors are added up, be"]
    assert {queue.name: (queue.parent, queue.quota) for queue in found.facts.queues} == {
        "pool lab": ("cohort org", {GPU: 6}), "lab": ("pool lab", {GPU: 3}), "lab--bio": ("pool lab", {GPU: 3}),
    }  # fmt: skip
    assert found.facts.queues[0].borrowing_limit == {GPU: 3}
    assert found.facts.cohorts[0].quota == {GPU: 4}


def test_teams_find_their_queues_by_the_names_of_an_import() -> None:
    names = TeamNames({"x": "y"}, {"bio", "lab", "lab--chem", "lab--ops", "org--ops"})
    assert [names.get(team, "?") for team in ("x", "Bio", "chem", "CHEM", "ops", "lab")] == [
        "y", "bio", "lab--chem", "lab--chem", "?", "lab",
    ]  # fmt: skip


def test_nodes_of_the_command_line() -> None:
    found = read_nodes("2x8, 1x4")
    assert found is not None
    assert [(node.name, *node.resources.values()) for node in found] == [
        ("node-000001", 8), ("node-000002", 8), ("node-000003", 4),
    ]  # fmt: skip
    assert [read_nodes(text) for text in ("", "8", "1x0", "x", "1x8,", "99999x1,99999x1", "²x8")] == [None] * 7


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (200_000, "2 d 7 h"), (-61, "−1 min 1 s"),
        (None, "–"),
    ],
)  # fmt: skip
def test_times_for_people(seconds: float | None, text: str) -> None:
    assert wait_text(seconds) == text


def test_many_jobs_need_bounded_memory(firm: Path) -> None:
    month = (job(n, n % 5, 1, AllocTRES="gres/gpu=1", User=f"u{n % 97}", NodeList=f"dgx{n:05}") for n in range(1000))
    (firm / "month.txt").write_text(HEADER + "".join(month))
    tracemalloc.start()
    try:
        code, text = run("prove", "-f", "config", "--history", "month.txt", "--nodes", "500x8")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 0, text
    assert peak < 20 * 2**20
    assert len((firm / "proof" / "proof.html").read_bytes()) < 30_000
