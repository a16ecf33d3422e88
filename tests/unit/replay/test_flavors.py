"""Traces with GPU flavors: they are written and read again, and a replay runs each job in one of its flavors."""

from __future__ import annotations

import csv
import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from scheduling.domain.priorities import Priority
from scheduling.history.traces.trace import TraceReader
from scheduling.history.traces.trace_file import COLUMNS, TraceJob, csv_trace
from tests.unit.replay.test_proof import job
from tests.unit.replay.test_sacct import HEADER as SACCT_HEADER

HEADER = "submit_time,duration_s,gpus,team,flavor"


def replay(folder: Path, rows: list[tuple[Any, ...]], nodes: dict[str, str], quota: dict[str, int]) -> Any:
    """The answer of a replay on nodes of 8 GPUs of these flavors, and its runs by job."""
    (folder / "trace.csv").write_text("\n".join([HEADER, *(",".join(map(str, row)) for row in rows)]) + "\n")
    body = {
        "nodes": [{"name": name, "resources": {f"{flavor}/gpu": 8}} for name, flavor in nodes.items()],
        "queues": [{"name": "lab", "quota": {f"{flavor}/gpu": gpus for flavor, gpus in quota.items()}}],
    }
    (folder / "cluster.yaml").write_text(yaml.safe_dump(body))
    files = [str(folder / name) for name in ("trace.csv", "cluster.yaml", "runs.csv")]
    words = ["replay", files[0], "--on", files[1], "--runs", files[2], "-o", "json"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    with Path(files[2]).open() as runs:
        return json.loads(result.stdout), list(csv.DictReader(runs))


def test_a_job_runs_in_the_first_of_its_flavors_that_serves(tmp_path: Path) -> None:
    rows = [(0, 100, 8, "lab", "h100|a100"), (1, 100, 8, "lab", "h100|a100"), (2, 100, 8, "lab", "h100")]
    answer, runs = replay(tmp_path, rows, {"h": "h100", "a": "a100"}, {"h100": 8, "a100": 8})
    assert [(run["job"], run["nodes"], run["start"]) for run in runs] == [
        ("1", "h:8", "0"),
        ("2", "a:8", "1"),
        ("3", "h:8", "100"),
    ]
    team = answer["teams"]["lab"]
    assert team["capacity_gpu_h"] == team["quota_gpu_h"] == pytest.approx(16 * 200 / 3600)
    assert team["used_gpu_h"] + team["idle_quota_gpu_h"] == pytest.approx(team["quota_gpu_h"])


def test_a_job_of_slurm_uses_the_flavor_of_its_type(tmp_path: Path) -> None:
    types = ["gres/gpu=8,gres/gpu:h100=8", "gres/gpu=8,gres/gpu:H100=8", "gres/gpu=8"]
    rows = [job(n, 0, 1, AllocTRES=tres, Account="lab") for n, tres in enumerate(types, 1)]
    (tmp_path / "month.txt").write_text(SACCT_HEADER + "".join(rows))
    (tmp_path / "cluster.yaml").write_text(
        "nodes:\n- {name: h, resources: {h100/gpu: 8}}\n- {name: a, resources: {a100/gpu: 8}}\n"
        "queues: [{name: lab, quota: {h100/gpu: 8, a100/gpu: 8}}]\n"
    )
    files = [str(tmp_path / name) for name in ("month.txt", "cluster.yaml", "runs.csv")]
    result = CliRunner().invoke(app, ["replay", files[0], "--on", files[1], "--runs", files[2]])
    assert result.exit_code == 0, result.output
    with Path(files[2]).open() as runs:
        found = [(run["job"], run["nodes"], run["start"]) for run in csv.DictReader(runs)]
    assert found == [("1", "h:8", "0"), ("3", "a:8", "0"), ("2", "h:8", "3600")]


def test_what_is_borrowed_in_one_flavor_is_not_lent_by_another(tmp_path: Path) -> None:
    """LOW work uses 8 of the 4 H100 of its quota, and the quota of A100 stays idle."""
    rows = [(0, 100, 8, "lab", "h100")]
    answer, _ = replay(tmp_path, rows, {"h": "h100", "a": "a100"}, {"h100": 4, "a100": 8})
    team = answer["teams"]["lab"]
    assert (team["borrowed_gpu_h"], team["lent_gpu_h"]) == (0, 0)  # nobody's quota has the other four H100
    assert team["idle_quota_gpu_h"] == pytest.approx(8 * 100 / 3600)


@pytest.mark.parametrize("seed", range(4))
def test_two_flavors_are_as_two_clusters_of_one(tmp_path: Path, seed: int) -> None:
    """Jobs that name one flavor each run as they would on a cluster of that flavor alone."""
    pick, time, rows = random.Random(seed), 0, []
    for _ in range(30):
        time += pick.choice([0, 10, 40])
        rows.append((time, pick.randint(20, 200), pick.randint(1, 12), "lab", pick.choice(["h100", "a100"])))
    nodes = {"h0": "h100", "h1": "h100", "a0": "a100", "a1": "a100", "a2": "a100"}
    quota = {"h100": 16, "a100": 24}
    together, runs = replay(tmp_path, rows, nodes, quota)
    alone, used = [], 0.0
    for flavor, gpus in quota.items():
        mine = [(number, row) for number, row in enumerate(rows, 1) if row[4] == flavor]
        there = {name: kind for name, kind in nodes.items() if kind == flavor}
        answer, own = replay(tmp_path, [row for _, row in mine], there, {flavor: gpus})
        begin = mine[0][1][0] - rows[0][0]
        for run in own:
            times = {key: str(int(run[key]) + begin) for key in ("submit", "start", "end")}
            alone.append({**run, **times, "job": str(mine[int(run["job"]) - 1][0])})
        used += answer["summary"]["used_gpu_h"]

    def key(run: dict[str, str]) -> tuple[int, int]:
        return int(run["job"]), int(run["attempt"])

    assert sorted(runs, key=key) == sorted(alone, key=key)
    assert together["summary"]["used_gpu_h"] == pytest.approx(used)


@pytest.mark.parametrize(
    ("flavors", "of_idle", "found"),
    [
        ("h100", {"h100": 4, "a100": 4}, {"h100": 400}),
        ("h100", {"a100": 4}, {}),
        ("h100|a100", {"h100": 4, "a100": 4}, {"a100": 400, "h100": 400}),
    ],
    ids=["of that flavor", "another flavor", "either"],
)
def test_idle_promises_are_those_of_the_flavors_that_others_wait_for(
    tmp_path: Path, flavors: str, of_idle: dict[str, int], found: dict[str, int]
) -> None:
    """Work of `busy` waits for 4 GPUs until its own work, which uses its whole quota, ends after 100 s."""
    rows = [(0, 100, 4, "busy", "h100"), (0, 100, 4, "busy", "a100"), (0, 100, 4, "busy", flavors)]
    lines = [f"{HEADER},priority", *(",".join(map(str, (*row, "NORMAL"))) for row in rows)]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    quotas = {"busy": {"h100": 4, "a100": 4}, "idle": of_idle}
    parts = [
        {"name": name, "parent": "pool", "quota": {f"{kind}/gpu": gpus for kind, gpus in quota.items()}}
        for name, quota in quotas.items()
    ]
    nodes = [
        {"name": kind, "resources": {f"{kind}/gpu": 4 + of_idle.get(kind, 0)}} for kind in ("h100", "a100")
    ]  # fmt: skip
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({"nodes": nodes, "queues": [{"name": "pool"}, *parts]}))
    words = ["replay", str(tmp_path / "trace.csv"), "--on", str(tmp_path / "cluster.yaml"), "--advise"]
    result = CliRunner().invoke(app, [*words, "-o", "json"])
    assert result.exit_code == 0, result.output
    rows_found = json.loads(result.stdout)["idle_promises"]
    assert rows_found == [
        {"team": "idle", "flavor": flavor, "gpu_h": pytest.approx(gpus / 3600)} for flavor, gpus in found.items()
    ]
    text = CliRunner().invoke(app, words).stdout
    assert [flavor for flavor in ("a100", "h100") if f"idle ({flavor})" in text] == list(found)


def read(path: Path, text: str) -> TraceReader:
    path.write_text(text)
    return TraceReader(str(path), teams=None, flavors={"h100", "a100"}, priority=Priority.LOW)


def test_flavors_are_written_and_read_again(tmp_path: Path) -> None:
    begin = datetime(2026, 11, 1)
    jobs = [
        TraceJob(begin, 1.0, 8, "lab", "x", "ann", Priority.LOW, None, None, flavors)
        for flavors in [(), ("h100",), ("a100", "h100")]
    ]
    trace = read(tmp_path / "t.csv", csv_trace(jobs)).read()
    assert trace is not None
    assert [job.flavors for job in trace.jobs] == [(), ("h100",), ("a100", "h100")]
    assert [job.flavors for job in trace.jobs.between(None, None)] == [(), ("h100",), ("a100", "h100")]
    assert csv_trace(jobs[:1]).splitlines()[0] == ",".join(COLUMNS), "without flavors the file is what it was"


@pytest.mark.parametrize(
    ("written", "code"),
    [("h100|", "bad_value"), ("h100|h100", "bad_value"), ("|", "bad_value"), ("l40", "unknown_name")],
)
def test_faults_of_a_flavor_have_their_line(tmp_path: Path, written: str, code: str) -> None:
    reader = read(tmp_path / "t.csv", f"{HEADER}\n0,1,1,lab,h100|a100\n0,1,1,lab,{written}\n")
    assert reader.read() is None
    assert [(fault.line, fault.path, fault.code) for fault in reader.faults.listed] == [(3, "flavor", code)]


def advice(folder: Path, rows: list[tuple[Any, ...]], quotas: dict[str, dict[str, int]]) -> Any:
    """The advice for the leaves of one pool, by flavor, on one node of 8 GPUs of each."""
    (folder / "trace.csv").write_text("\n".join([HEADER, *(",".join(map(str, row)) for row in rows)]) + "\n")
    flavors = sorted({flavor for of_leaf in quotas.values() for flavor in of_leaf})
    leaves = [
        {"name": name, "parent": "team", "quota": {f"{flavor}/gpu": gpus for flavor, gpus in of_leaf.items()}}
        for name, of_leaf in quotas.items()
    ]
    whole = {f"{flavor}/gpu": sum(of_leaf.get(flavor, 0) for of_leaf in quotas.values()) for flavor in flavors}
    nodes = [{"name": flavor, "resources": {f"{flavor}/gpu": 8}} for flavor in flavors]
    (folder / "cluster.yaml").write_text(
        yaml.safe_dump({"nodes": nodes, "queues": [{"name": "team", "quota": whole}, *leaves]})
    )
    words = ["replay", str(folder / "trace.csv"), "--on", str(folder / "cluster.yaml"), "--priority", "NORMAL"]
    result = CliRunner().invoke(app, [*words, "--advise", "--tries", "60", "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_advice_divides_each_flavor_as_if_it_were_alone(tmp_path: Path) -> None:
    """`team--a` waits for H100 and `team--b` for A100, of which the other has half the quota and no work."""
    rows = [(0, 100, 2, "team--a", "h100")] * 4 + [(0, 100, 2, "team--b", "a100")] * 4
    half = {"h100": 4, "a100": 4}
    answer = advice(tmp_path, rows, {"team--a": half, "team--b": half})
    found = {pool["flavor"]: pool for pool in answer["pools"]}
    assert found.keys() == {"h100", "a100"}
    for flavor, wins in (("h100", "team--a"), ("a100", "team--b")):
        mine = [row for row in rows if row[4] == flavor]
        alone = advice(tmp_path, mine, {"team--a": {flavor: 4}, "team--b": {flavor: 4}})["pools"][0]
        assert found[flavor]["proposal"]["changes"] == alone["proposal"]["changes"]
        assert {change["name"]: change["to"] for change in alone["proposal"]["changes"]} == {
            leaf: 8 if leaf == wins else 0 for leaf in ("team--a", "team--b")
        }
        what_if = found[flavor]["proposal"]["what_if"]
        assert {"set": {"name": wins, "quota": {f"{flavor}/gpu": 8}}} in what_if
        assert any(f"--quotas {flavor}=8 --dry-run" in command for command in found[flavor]["proposal"]["commands"])
    together = answer["together"]
    assert len(together["changes"]) == 4 and together["cost_gpu_h"] == 0
