"""The quota advisor, judged by runs of each allotment that know nothing of it: waits are read from files of runs."""

from __future__ import annotations

import csv
import itertools
import json
import random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from scheduling.history.advisor.allotment import divide
from scheduling.history.advisor.dry_runs import dry_run_commands
from scheduling.history.advisor.sentences import advice_sentences
from scheduling.history.traces.advice import advise_from_files
from scheduling.history.traces.run import ReplayRequest, replay
from tests.support.nightly_parts import samples


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


class Folder:
    """A trace and a cluster, and what any allotment of its quotas costs."""

    def __init__(self, path):
        self.path = path
        self.trace, self.cluster, self.other = path / "trace.csv", path / "cluster.yaml", path / "other.yaml"
        self.rows, self.body = [], {}

    def write(self, rows, body):
        self.rows, self.body = rows, body
        lines = [",".join(map(str, row)) for row in rows]
        self.trace.write_text("\n".join(["submit_time,duration_s,gpus,team,priority", *lines]) + "\n")
        self.cluster.write_text(yaml.safe_dump(body))

    def advice(self, replays):
        return advise_from_files(ReplayRequest(str(self.trace), str(self.cluster)), replays)

    def pool(self, replays):
        (pool,) = self.advice(replays)["pools"]
        return pool

    def cost(self, changes):
        """The delay of each job with these changes of the cluster, read from the file of its runs: GPU-seconds that
        each waited and that preemption threw away, and the first start; a job without a run could never start."""
        body = {**self.body, "changes": changes}
        self.other.write_text(yaml.safe_dump(body))
        runs = self.path / "runs.csv"
        replay(ReplayRequest(str(self.trace), str(self.other), runs=str(runs)))
        ends, delayed, first = {}, {}, {}
        with runs.open() as file:
            for run in csv.DictReader(file):
                job, start = int(run["job"]), float(run["start"])
                since = ends.get(job, float(run["submit"]))
                lost = float(run["end"]) - start if run["end_reason"] == "preempted" else 0
                delayed[job] = delayed.get(job, 0) + int(run["gpus"]) * (start - since + lost)
                first.setdefault(job, start)
                ends[job] = float(run["end"])
        return delayed, first

    def judge(self, changes, today):
        """The GPU-seconds of delay, and whether no guaranteed work starts later and all that started starts."""
        delayed, first = self.cost(changes)
        is_allowed = all(job in first for job in today[1])
        for job, start in first.items():
            if self.rows[job - 1][4] != "LOW" and start > today[1].get(job, start):
                is_allowed = False
        return sum(gpus for job, gpus in delayed.items() if job in today[0]), is_allowed


def random_rows(pick, teams, count=25, most=4):
    rows, time = [], 0
    for _ in range(count):
        time += pick.choice([0, 1, 3, 8])
        sizes = [size for size in (1, 1, 2, 3) if size <= most]
        rows.append(
            (
                time,
                pick.choice([5, 20, 40]),
                pick.choice(sizes),
                pick.choice(teams),
                pick.choice(["LOW"] * 3 + ["HIGH"]),
            )
        )
    return rows


def set_of(proposal):
    return [] if proposal is None else proposal["what_if"]


@pytest.mark.parametrize("seed", samples(range(2), range(2, 6)))
def test_an_exact_proposal_is_the_best_of_all_divisions(folder, seed):
    """Two teams, three GPUs, every quota and every lending limit."""
    pick = random.Random(seed)
    quota = pick.randint(0, 3)
    limits = [pick.choice([None, 0, 1]), pick.choice([None, 0])]
    queues = [
        {"name": name, "parent": "all", "quota": gpus} | ({} if limit is None else {"lending_limit": limit})
        for name, gpus, limit in zip("ab", (quota, 3 - quota), limits, strict=True)
    ]
    rows = random_rows(pick, "aab", count=18, most=2)
    folder.write(rows, {"nodes": [{"name": "n", "gpus": 3}], "cohorts": [{"name": "all"}], "queues": queues})
    pool = folder.pool(200)
    assert pool["exact"]
    today = folder.cost([])
    costs = []
    for first in range(4):
        for a, b in itertools.product(range(-1, first), range(-1, 3 - first)):
            changes = [
                {"set": {"name": "a", "quota": first, "lending_limit": a}},
                {"set": {"name": "b", "quota": 3 - first, "lending_limit": b}},
            ]
            cost, is_allowed = folder.judge(changes, today)
            if is_allowed:
                costs.append(cost)
    cost, is_allowed = folder.judge(set_of(pool["proposal"]), today)
    assert is_allowed
    assert cost == pytest.approx(min([*costs, sum(today[0].values())]))
    if pool["proposal"] is not None:
        assert pool["proposal"]["cost_gpu_h"] * 3600 == pytest.approx(cost)


@pytest.mark.parametrize("seed", samples(range(2), range(2, 6)))
def test_a_proposal_is_never_worse_than_today_and_delays_no_guaranteed_work(folder, seed):
    """Too many divisions to try all: what is proposed is judged by a run of its own, and so are the rivals."""
    pick = random.Random(f"many {seed}")
    teams = ["team--a", "team--b", "team--c"]
    cut = sorted(pick.sample(range(9), 2))
    quotas = (cut[0], cut[1] - cut[0], 8 - cut[1])
    queues = [{"name": "team", "parent": "all", "lending_limit": pick.choice([0, 4, 8])}]
    queues += [{"name": name, "parent": "team", "quota": quota} for name, quota in zip(teams, quotas, strict=True)]
    queues += [{"name": "else", "parent": "all", "quota": 4}]
    folder.write(
        random_rows(pick, [*teams, "team--c", "else"], count=40),
        {
            "nodes": [{"name": f"n{i}", "gpus": 4} for i in range(3)],
            "cohorts": [{"name": "all"}],
            "queues": queues,
        },
    )
    answer = folder.advice(24)
    today = folder.cost([])
    total = sum(today[0].values())
    assert answer["cost_gpu_h"] * 3600 == pytest.approx(total)
    assert answer["replays"] <= 26
    seen = 0
    for pool in answer["pools"]:
        assert not pool["exact"] or pool["pool"] == "all"
        for rival in pool["rivals"]:
            changes = [{"set": {"name": name, "quota": quota}} for name, quota in rival["leaves"].items()]
            cost, is_allowed = folder.judge(changes, today)
            if rival["cost_gpu_h"] is not None:
                assert (rival["cost_gpu_h"] * 3600, rival["allowed"]) == (pytest.approx(cost), is_allowed)
            if is_allowed and pool["proposal"] is None:
                assert cost >= total - 1e-6
        if pool["proposal"] is None:
            continue
        seen += 1
        cost, is_allowed = folder.judge(set_of(pool["proposal"]), today)
        assert is_allowed
        assert cost <= total
        assert pool["proposal"]["cost_gpu_h"] * 3600 == pytest.approx(cost)
        assert sum(pool["leaves"].values()) == pool["quota"]
    if answer["together"] is not None:
        cost, is_allowed = folder.judge(set_of(answer["together"]), today)
        assert is_allowed
        assert cost <= min(p["proposal"]["cost_gpu_h"] * 3600 for p in answer["pools"] if p["proposal"]) + 1e-6
    assert seen or all(pool["proposal"] is None for pool in answer["pools"])


WASTE = {
    "nodes": [{"name": "n", "gpus": 4}],
    "cohorts": [{"name": "all"}],
    "queues": [
        {"name": "team", "parent": "all"},
        {"name": "team--busy", "parent": "team", "quota": 1},
        {"name": "team--idle", "parent": "team", "quota": 3},
    ],
}


def test_quota_goes_from_a_team_without_use_to_the_one_that_waits(folder):
    folder.write([(0, 100, 1, "team--busy", "NORMAL"), (0, 100, 1, "team--busy", "NORMAL")], WASTE)
    pool = folder.pool(60)
    proposal = pool["proposal"]
    assert proposal["changes"] == [
        {"name": "team--idle", "key": "quota", "from": 3, "to": 2},
        {"name": "team--busy", "key": "quota", "from": 1, "to": 2},
    ]
    assert (proposal["waiting_gpu_h"], proposal["saved_gpu_h"] * 3600) == (0, pytest.approx(100))
    assert proposal["effect"]["teams"]["team--busy"]["wait_mean_s"] == -50
    assert proposal["effect"]["better"] == ["team--busy"]
    by_name = {rival["name"]: rival for rival in pool["rivals"]}
    assert by_name["today"]["waiting_gpu_h"] * 3600 == pytest.approx(100)
    assert by_name["equal"]["leaves"] == {"team--busy": 2, "team--idle": 2}
    assert by_name["by_use"]["leaves"] == {"team--busy": 4, "team--idle": 0}


def test_guaranteed_work_keeps_its_quota_however_much_low_work_waits(folder):
    """`kept` holds its 3 GPUs at one time only; work of `greedy` waits all the time."""
    body = {
        "nodes": [{"name": "n", "gpus": 4}],
        "queues": [{"name": "kept", "quota": 3, "limit": 3}, {"name": "greedy", "quota": 1, "limit": 3}],
    }
    rows = [(n * 10, 60, 1, "greedy", "NORMAL") for n in range(10)]
    folder.write([*rows, (300, 10, 3, "kept", "HIGH")], body)
    pool = folder.pool(60)
    assert pool["exact"]
    assert pool["proposal"] is None
    equal = next(rival for rival in pool["rivals"] if rival["name"] == "equal")
    assert equal["never_again"] == 1
    assert equal["waiting_gpu_h"] * 3600 < folder.advice(60)["waiting_gpu_h"] * 3600


LOW_ONLY = {
    "nodes": [{"name": "n", "gpus": 4}],
    "cohorts": [{"name": "all"}],
    "queues": [
        {"name": "team", "parent": "all"},
        {"name": "team--calm", "parent": "team", "quota": 3},
        {"name": "team--eager", "parent": "team", "quota": 1},
        {"name": "team--idle", "parent": "team", "quota": 0},
    ],
}


def low_rows(priority="LOW"):
    """`calm` uses 1 GPU all the time, and 3 now and then; work of `eager` waits meanwhile."""
    rows = [(0, 400, 1, "team--calm", priority), *((at, 20, 2, "team--calm", "LOW") for at in (60, 160, 260))]
    return [*rows, *((at, 95, 1, "team--eager", "LOW") for at in range(0, 300, 25))]


def test_without_guaranteed_work_no_quota_falls_below_the_average_use(folder):
    """Nothing but the cost would bound the division: the cheapest takes `calm`'s last GPU."""
    folder.write(low_rows(), LOW_ONLY)
    pool = folder.pool(200)
    assert (pool["guaranteed_jobs"], pool["exact"]) == (0, True)
    assert pool["least"] == {"team--calm": 1, "team--eager": 1, "team--idle": 0}
    proposal = pool["proposal"]
    quotas = pool["leaves"] | {change["name"]: change["to"] for change in (proposal or {"changes": []})["changes"]}
    assert all(quotas[name] >= least for name, least in pool["least"].items())
    words = ["replay", str(folder.trace), "--on", str(folder.cluster), "--advise"]
    text = " ".join(CliRunner().invoke(app, words, catch_exceptions=False).stdout.split())
    assert "No HIGH or NORMAL job of this pool is in the window" in text
    assert "team--calm 1, team--eager 1." in text


def test_guaranteed_work_alone_bounds_a_division(folder):
    folder.write(low_rows(priority="NORMAL"), LOW_ONLY)
    pool = folder.pool(200)
    assert (pool["guaranteed_jobs"], pool["least"]) == (1, {})


def test_idle_promises_count_quota_that_nobody_used_while_others_waited(folder):
    """`busy` waits for one GPU from 0 to 100, while 3 are idle in `idle`: one of them was withheld. From 100 to 200
    nobody waits."""
    folder.write([(0, 100, 1, "team--busy", "NORMAL"), (0, 100, 1, "team--busy", "NORMAL")], WASTE)
    assert folder.advice(2)["idle_promises"] == [{"team": "team--idle", "gpu_h": pytest.approx(100 / 3600)}]


def test_the_command_prints_the_proposal_its_rivals_and_ready_dry_runs(folder):
    folder.write([(0, 100, 1, "team--busy", "NORMAL"), (0, 100, 1, "team--busy", "NORMAL")], WASTE)
    words = ["replay", str(folder.trace), "--on", str(folder.cluster), "--advise"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    for text in ("POOL TEAM: 4 GPUs", "Equal shares", "Shares by use", "IDLE PROMISES", "Nothing was changed"):
        assert text in result.stdout
    assert "osmo pool subpool update team busy --quota 2 --dry-run\n" in result.stdout
    answer = json.loads(CliRunner().invoke(app, [*words, "-o", "json"], catch_exceptions=False).stdout)
    assert list(answer) == [
        "waiting_gpu_h", "lost_gpu_h", "cost_gpu_h", "today", "pools", "together", "idle_promises", "replays",
        "notes", "seconds",
    ]  # fmt: skip
    (pool,) = answer["pools"]
    assert pool["proposal"]["commands"] == dry_run_commands(pool["proposal"]["changes"])
    # The what-if is the change that was replayed.
    assert folder.judge(pool["proposal"]["what_if"], folder.cost([])) == (0, True)


def test_dry_runs_of_pools_and_of_names_that_a_shell_would_read():
    changes = [
        {"name": "pool x;", "key": "quota", "from": 3, "to": 2},
        {"name": "team--_shared", "key": "quota", "from": 1, "to": 2},
        {"name": "pool x;", "key": "lending_limit", "from": 1, "to": None},
    ]
    question, update = dry_run_commands(changes)
    pairs = [("pool x;", "quota", 2), ("team--_shared", "quota", 2), ("pool x;", "lending_limit", -1)]
    body = {"changes": [{"set": {"name": name, key: value}} for name, key, value in pairs]}
    assert question == f"echo '{json.dumps(body)}' | osmo simulate --live -"
    assert update == """echo '{"guarantee": 2, "lending_limit": null}' | osmo config update POOL 'pool x;' --dry-run"""


def test_what_one_question_cannot_combine_is_refused(folder):
    folder.write([(0, 1, 1, "only", "LOW")], {"nodes": [{"name": "n", "gpus": 4}], "queues": [{"name": "only"}]})
    words = ["replay", str(folder.trace), "--on", str(folder.cluster)]
    for options, message in (
        (["--advise"], "There is nothing to advise on"),
        (["--advise", "--forecast"], "--forecast is for one replay"),
        (["--tries", "9"], "add --advise"),
    ):
        result = CliRunner().invoke(app, [*words, *options])
        assert result.exit_code == 2
        assert message in result.stderr


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), min_size=1, max_size=6), st.data())
def test_a_division_adds_up_and_stays_within_its_bounds(leaves, data):
    weights, most = zip(*leaves, strict=True)
    total = data.draw(st.integers(0, sum(most)))
    shares = divide(total, weights, most)
    assert sum(shares) == total
    assert all(share <= bound for share, bound in zip(shares, most, strict=True))


def test_sentences_name_the_parts_of_shared_gpus_among_the_hours():
    idle = [{"team": "a", "flavor": "t4", "gpu_h": 30.0}, {"team": "b", "flavor": "h100", "gpu_h": 2.0}]
    advice = {
        "waiting_gpu_h": 3.0, "lost_gpu_h": 1.0, "cost_gpu_h": 4.0, "quotas_changed": False, "pools": [],
        "together": None, "idle_promises": idle, "out_of_time": False,
    }  # fmt: skip
    lines = advice_sentences(advice, {"t4"})
    assert lines[1] == "Delays add up all flavors: each t4 part of GPUs counts like one GPU in them."
    assert lines[3:] == [
        "a held 30.0 hours of t4 parts of GPUs as quota that nobody used while work of others waited.",
        "b held 2.0 GPU-hours of h100 quota that nobody used while work of others waited.",
    ]
    without = advice_sentences({**advice, "idle_promises": []})
    assert not any("part of" in line or "parts of" in line for line in without)
