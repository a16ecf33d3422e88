"""`osmo replay` as a judge sees it: files in, a runs file and JSON out, checked by programs that know no engine."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest
import yaml
from typer.testing import CliRunner

from bench import replay_checks as checks
from osmo_admin.cli.client import app
from scheduling.history.replay.clock import ReplayClock
from scheduling.history.traces.run import ReplayRequest, replay

PARTS = {"summary", "teams"}
HEADER = "submit_time,duration_s,gpus,team"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


class Folder:
    """Files of one replay."""

    def __init__(self, path):
        self.path = path
        self.trace, self.cluster, self.runs = path / "trace.csv", path / "cluster.yaml", path / "runs.csv"

    def write_trace(self, rows, header=HEADER):
        self.trace.write_text("\n".join([header, *(",".join(str(v) for v in row) for row in rows)]) + "\n")

    def write_cluster(self, nodes, quotas, **more):
        queues = [{"name": name, "parent": "all", "quota": quota} for name, quota in quotas.items()]
        body = {
            "nodes": [{"name": f"n{i}", "gpus": gpus} for i, gpus in enumerate(nodes)],
            "cohorts": [{"name": "all"}],
            "queues": queues,
        }
        self.cluster.write_text(yaml.safe_dump(body | more))

    def osmo(self, *options):
        words = ["replay", str(self.trace), "--on", str(self.cluster), "--runs", str(self.runs), *options]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    def answer(self, *options):
        result = self.osmo("-o", "json", *options)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def lines(self):
        return self.runs.read_text().splitlines()[1:]


def random_trace(pick, teams, *, priorities, most_gpus):
    rows, time = [], 0
    for _ in range(pick.randint(20, 60)):
        time += pick.choice([0, 0, 1, 3, 10, 40])
        gpus = pick.choice([g for g in (1, 1, 1, 2, 3, 4, 8, 12, 16) if g <= most_gpus])
        rows.append((time, pick.choice([1, 5, 20, 60, 61.5, 200]), gpus, pick.choice(teams), pick.choice(priorities)))
    pick.shuffle(rows)
    return rows


def test_jobs_of_one_gpu_in_one_queue_are_a_fifo_queue(folder):
    """Check (a), to the microsecond."""
    for seed in range(4):
        pick = random.Random(seed)
        nodes = [pick.choice([1, 2, 4]) for _ in range(3)]
        folder.write_trace(
            [(pick.choice([0, 1, 7, 7.25, 30]) + n // 3, pick.choice([0.5, 3, 20, 41]), 1, "only") for n in range(80)]
        )
        folder.cluster.write_text(
            yaml.safe_dump(
                {
                    "nodes": [{"name": f"n{i}", "gpus": gpus} for i, gpus in enumerate(nodes)],
                    "queues": [{"name": "only"}],
                }
            )
        )
        folder.answer()
        assert checks.check_fifo(checks.read_trace(folder.trace), checks.read_runs(folder.runs), sum(nodes)) == []


@pytest.mark.parametrize("priorities", [["LOW"], ["LOW", "NORMAL"], ["LOW", "NORMAL", "HIGH", ""]])
@pytest.mark.parametrize("checkpoint", [0, 7])
def test_random_traces_pass_every_check(folder, priorities, checkpoint):
    """Checks (b) to (f)."""
    preempted = 0
    for seed in range(3):
        pick = random.Random(f"{seed}{priorities}")
        nodes = [8] * pick.randint(1, 3)
        first = pick.randint(0, sum(nodes))
        second = pick.randint(0, sum(nodes) - first)
        quotas = {"a": first, "b": second, "c": sum(nodes) - first - second}
        rows = random_trace(pick, list(quotas), priorities=priorities, most_gpus=sum(nodes))
        rows = [(*row, pick.choice(["", 13])) for row in rows]
        folder.write_trace(rows, header=f"{HEADER},priority,checkpoint_s")
        folder.write_cluster(nodes, quotas)
        answer = folder.answer(*(["--checkpoint", str(checkpoint)] if checkpoint else []))
        trace, runs = checks.read_trace(folder.trace), checks.read_runs(folder.runs)
        cluster, never = checks.read_cluster(folder.cluster), answer["summary"]["never"]
        assert checks.check_attempts(trace, runs, cluster, never, Fraction(checkpoint)) == []
        assert checks.check_instants(trace, runs, cluster) == []
        assert checks.check_order(trace, runs) == []
        assert checks.check_sums(answer, runs, cluster) == []
        preempted += answer["summary"]["preemptions"]
    assert preempted


def test_a_preempted_job_begins_again_and_counts_its_loss(folder):
    folder.write_cluster([8], {"a": 4, "b": 4})
    folder.write_trace([(100, 50, 8, "a"), (120, 10, 4, "b")])
    answer = folder.answer()
    assert folder.lines() == [
        "1,1,a,LOW,8,0,0,20,n0:8,preempted",
        "2,1,b,LOW,4,20,20,30,n0:4,finished",
        "1,2,a,LOW,8,0,30,80,n0:8,finished",
    ]
    summary, a, b = answer["summary"], answer["teams"]["a"], answer["teams"]["b"]
    assert (summary["jobs"], summary["finished"], summary["never"], summary["preemptions"]) == (2, 2, 0, 1)
    assert summary["makespan_s"] == 80
    assert summary["lost_gpu_h"] * 3600 == pytest.approx(8 * 20)
    assert summary["used_gpu_h"] * 3600 == pytest.approx(8 * 70 + 40)
    assert summary["utilisation"] == pytest.approx(600 / 640)
    assert a["waiting_gpu_h"] * 3600 == pytest.approx(8 * 10)
    assert (a["wait_mean_s"], a["slowdown_p50"]) == (0, pytest.approx(80 / 50))
    # a holds 8 for 70 seconds, 4 of them lent by b; while b runs, a uses nothing of its 4.
    assert a["borrowed_gpu_h"] * 3600 == b["lent_gpu_h"] * 3600 == pytest.approx(4 * 70)
    assert (a["idle_quota_gpu_h"] * 3600, b["idle_quota_gpu_h"]) == (pytest.approx(4 * 10), 0)
    assert (a["makespan_s"], b["makespan_s"]) == (80, 10)


@pytest.mark.parametrize("own", ["", 15])
def test_a_checkpoint_keeps_whole_multiples_of_the_work(folder, own):
    """Of each job, or of all; what the job says comes first."""
    folder.write_cluster([8], {"a": 4, "b": 4})
    rows = [(0, 50, 8, "a", own), (20, 10, 4, "b", ""), (47, 10, 4, "b", "")]
    folder.write_trace(rows, header=f"{HEADER},checkpoint_s")
    answer = folder.answer("--checkpoint", "7" if own else "15")
    # 20 s: 15 kept; from 30 on 17 s more: 32, of which 30 are kept; 20 are left.
    assert [line for line in folder.lines() if line.startswith("1,")] == [
        "1,1,a,LOW,8,0,0,20,n0:8,preempted",
        "1,2,a,LOW,8,0,30,47,n0:8,preempted",
        "1,3,a,LOW,8,0,57,77,n0:8,finished",
    ]
    assert answer["summary"]["lost_gpu_h"] * 3600 == pytest.approx(8 * (5 + 2))


@pytest.mark.parametrize(("own", "victim"), [("", "2"), (10, "1")])
def test_victims_by_least_loss_count_from_the_last_checkpoint(folder, own, victim):
    """When the urgent job comes, the first job has run for 101 seconds and the second one for 51."""
    nodes, policy = [{"name": "n0", "gpus": 1}, {"name": "n1", "gpus": 1}], {"victims": "least_lost"}
    folder.cluster.write_text(yaml.safe_dump({"nodes": nodes, "queues": [{"name": "a", "quota": 2}], "policy": policy}))
    rows = [(0, 1000, 1, "a", "LOW", own), (50, 1000, 1, "a", "LOW", ""), (101, 10, 1, "a", "NORMAL", "")]
    folder.write_trace(rows, header=f"{HEADER},priority,checkpoint_s")
    folder.answer()
    assert [line.split(",")[0] for line in folder.lines() if line.endswith("preempted")] == [victim]


def test_a_move_ends_an_attempt_and_begins_the_next_at_once(folder):
    folder.write_cluster([4, 4], {"a": 8})
    # From 10 to 30 each node has one job of one GPU; the last job needs a whole node.
    folder.write_trace([(0, 100, 1, "a"), (0, 10, 3, "a"), (0, 100, 1, "a"), (0, 10, 3, "a"), (30, 5, 4, "a")])
    answer = folder.answer()
    (moved,) = [line.split(",") for line in folder.lines() if line.endswith("preempted")]
    (again,) = [line.split(",") for line in folder.lines() if line.startswith(f"{moved[0]},2,")]
    assert answer["summary"]["preemptions"] == 1
    assert (moved[7], again[6], again[9]) == ("30", "30", "finished")
    assert moved[8] != again[8]
    assert answer["teams"]["a"]["waiting_gpu_h"] == 0


def test_a_limit_ends_an_attempt(folder):
    folder.write_cluster([8], {"a": 8})
    folder.write_trace([(0, 50, 8, "a", 20), (0, 50, 8, "a", ""), (0, 50, 8, "a", 50)], header=f"{HEADER},limit_s")
    answer = folder.answer()
    assert [line.rsplit(",", 4)[1:] for line in folder.lines()] == [
        ["0", "20", "n0:8", "timeout"], ["20", "70", "n0:8", "finished"], ["70", "120", "n0:8", "finished"],
    ]  # fmt: skip
    assert answer["summary"]["finished"] == 3


def test_ends_come_before_arrivals_and_rows_decide_between_equal_times(folder):
    folder.write_cluster([8], {"a": 8})
    folder.write_trace([(10, 5, 8, "a"), (0, 10, 8, "a"), (10, 5, 8, "a")])
    folder.answer()
    assert [line.split(",")[0:1] + line.split(",")[6:8] for line in folder.lines()] == [
        ["2", "0", "10"], ["1", "10", "15"], ["3", "15", "20"],
    ]  # fmt: skip


def test_a_job_that_could_never_start_takes_no_part(folder):
    folder.write_cluster([8, 8], {"a": 8, "b": 8})
    rows = [
        (0, 5, 17, "a", "LOW"), (0, 5, 10**9, "a", "LOW"), (0, 5, 9, "a", "NORMAL"), (0, 5, 16, "a", "LOW"),
        (0, 5, 8, "a", "HIGH"),
    ]  # fmt: skip
    folder.write_trace(rows, header=f"{HEADER},priority")
    answer = folder.answer()
    assert (answer["summary"]["never"], answer["summary"]["finished"]) == (3, 2)
    assert sorted(line.split(",")[0] for line in folder.lines() if line.endswith("finished")) == ["4", "5"]
    assert answer["teams"]["a"]["never"] == 3
    folder.write_cluster([4, 4], {"a": 8, "b": 0})
    assert folder.answer()["summary"]["never"] == 5, "no node has the 8 GPUs of a task"
    assert folder.answer("--gpus-per-task", "4")["summary"]["never"] == 4


def test_gangs_are_split_into_tasks(folder):
    folder.write_cluster([8, 8, 8], {"a": 24})
    folder.write_trace([(0, 5, 20, "a")])
    folder.answer()
    assert folder.lines()[0].split(",")[8] == "n0:8;n1:8;n2:4"


def test_against_compares_two_clusters(folder):
    other = folder.path / "other.yaml"
    folder.write_cluster([8], {"a": 4, "b": 4})
    text = folder.cluster.read_text()
    other.write_text(text.replace("gpus: 8", "gpus: 16").replace("quota: 4", "quota: 8"))
    folder.write_trace([(0, 50, 8, "a"), (1, 50, 8, "b")])
    answer = folder.answer("--against", str(other))
    assert set(answer) == {"on", "against", "difference", "notes"}
    assert {name: set(answer[name]) for name in ("on", "against")} == {"on": PARTS, "against": PARTS}
    difference = answer["difference"]
    assert set(difference) == {"summary", "teams", "better", "worse"}
    assert (difference["better"], difference["worse"]) == (["b"], [])
    assert difference["teams"]["b"]["wait_mean_s"] == -49
    assert difference["summary"]["makespan_s"] == 51 - 100
    assert len(folder.lines()) == 2, "the runs are those of --on"


def test_since_and_until_choose_jobs_and_keep_their_numbers(folder):
    folder.write_cluster([8], {"a": 8})
    folder.write_trace(
        [("2026-01-01T00:00:00", 5, 1, "a"), ("2026-01-02 00:00:00", 5, 1, "a"), ("2026-01-03", 5, 1, "a")]
    )
    folder.answer("--since", "2026-01-02", "--until", "2026-01-03")
    assert folder.lines() == ["2,1,a,LOW,1,0,0,5,n0:1,finished"]
    for words in (["--since", "7"], ["--until", "nan"], ["--since", "2027-01-01"]):
        result = folder.osmo(*words)
        assert result.exit_code == 2
        assert "Error" in result.stderr


def test_the_keys_of_the_answer(folder):
    folder.write_cluster([8], {"a": 8, "idle": 0})
    folder.write_trace([(0, 5, 1, "a")])
    answer = folder.answer()
    summary = [
        "jobs", "finished", "never", "capacity_gpu_h", "used_gpu_h", "lost_gpu_h", "utilisation", "wait_mean_s",
        "wait_p50_s", "wait_p90_s", "wait_p99_s", "slowdown_p50", "preemptions", "makespan_s",
    ]  # fmt: skip
    team = ["quota_gpu_h", "lent_gpu_h", "borrowed_gpu_h", "idle_quota_gpu_h", "waiting_gpu_h"]
    assert list(answer) == ["summary", "teams", "events", "passes", "notes", "seconds", "peak_memory_mib"]
    assert list(answer["summary"]) == summary
    assert list(answer["teams"]) == ["a", "idle"]
    assert {tuple(each) for each in answer["teams"].values()} == {(*summary, *team)}
    assert answer["events"] == 2
    table = folder.osmo()
    assert table.exit_code == 0
    assert "Utilisation" in table.stdout
    assert "idle" in table.stdout


def test_priority_is_the_default_of_rows_without_one(folder):
    folder.write_cluster([8], {"a": 4, "b": 4})
    folder.write_trace([(0, 5, 4, "a", ""), (0, 5, 4, "a", "LOW"), (0, 5, 8, "b", "")], header=f"{HEADER},priority")
    answer = folder.answer("--priority", "NORMAL")
    assert [line.split(",")[3] for line in folder.lines()] == ["NORMAL", "LOW"]
    assert answer["summary"]["never"] == 1


def test_no_name_is_a_formula_for_a_spreadsheet(folder):
    folder.write_trace([(0, 10, 1, "=a")])
    folder.write_cluster([1], {"=a": 1})
    folder.answer()
    assert folder.lines()[0].startswith("1,1,'=a,")


def test_the_standard_workload_format_gives_the_same_runs(folder):
    folder.write_cluster([8], {"a": 4, "7": 4})
    folder.write_trace([(3, 50, 8, "7", "", "u1"), (4, 60, 1, "7", 30, "u2")], header=f"{HEADER},limit_s,user")
    folder.answer()
    from_csv = folder.lines()
    folder.trace = folder.path / "trace.swf"
    folder.trace.write_text(
        "; Version: 2.2\n"
        "; Computer: none\n"
        "  1 3 -1 50 8 -1 -1 8 -1 -1 1 1 -1 -1 7 -1 -1 -1\n"
        "  2 4 -1 60 1 -1 -1 -1 30 -1 1 2 -1 -1 7 -1 -1 -1\n"
    )
    folder.answer()
    assert folder.lines() == from_csv
    assert len(from_csv) == 2


def test_a_file_that_cannot_be_written_is_a_fault_before_the_run(folder):
    folder.write_cluster([8], {"a": 8})
    folder.write_trace([(0, 5, 1, "a")])
    folder.runs = folder.path / "no" / "runs.csv"
    result = folder.osmo()
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_progress_is_reported(folder):
    folder.write_cluster([8], {"a": 8})
    folder.write_trace([(0, 5, 1, "a"), (1, 5, 100, "a"), (9, 5, 1, "a")])
    seen = []
    replay(ReplayRequest(str(folder.trace), str(folder.cluster)), seen.append)
    assert [(progress.arrived, progress.jobs, progress.now) for progress in seen] == [
        (1, 3, 0), (2, 3, 1), (2, 3, 5), (3, 3, 9), (3, 3, 14),
    ]  # fmt: skip


def test_a_policy_of_the_cluster_file_reads_the_clock(folder):
    """A gang that a stream of small jobs would pass forever starts after its reservation."""
    folder.write_trace([(0, 50, 2, "a"), (1, 50, 16, "a"), *((10 * n, 50, 2, "a") for n in range(1, 60))])
    waits = {}
    for after in (None, 100):
        policy = {} if after is None else {"policy": {"reserve_after": after}}
        folder.write_cluster([8, 8], {"a": 16}, **policy)
        folder.answer()
        starts = {line.split(",")[0]: float(line.split(",")[6]) for line in folder.lines()}
        waits[after] = starts["2"] - 1
    assert waits[None] > 500
    assert waits[100] <= 160


@pytest.mark.parametrize(
    "tree",
    [
        {"cohorts": [{"name": "o"}], "queues": [{"name": n, "parent": "o", "quota": 8} for n in "ab"]},
        {
            "cohorts": [],
            "queues": [
                {"name": "t", "quota": 16, "limit": 16},
                *({"name": n, "parent": "t", "quota": 8} for n in "ab"),
            ],
        },
    ],
    ids=["a cohort", "a pool with a maximum"],
)
def test_two_gangs_that_need_everything_start_one_after_the_other(folder, tree):
    """Each of them waits for more than an hour, so that both are due a reservation; with the policy as without it all
    four jobs end after the same time."""
    folder.write_trace([(0, 10000, 2, "a"), (10, 600, 16, "b"), (20, 600, 16, "a"), (5000, 60, 1, "a")])
    for policy in ({}, {"policy": {"reserve_after": 3600}}):
        folder.write_cluster([8, 8], {}, **tree, **policy)
        summary = folder.answer()["summary"]
        assert (summary["finished"], summary["makespan_s"]) == (4, 11_200)


def test_a_defect_of_the_scheduler_is_reported_without_a_stack(folder, monkeypatch):
    """Jobs that nothing starts although nothing runs; here one that is said to fit and does not."""
    monkeypatch.setattr(ReplayClock, "could_ever_start", lambda self, job: True)
    folder.write_trace([(0, 10, 9, "a")])
    folder.write_cluster([4], {"a": 16})
    result = folder.osmo()
    assert result.exit_code == 10
    text = " ".join(result.stderr.split())
    assert "1 job still waits 0 s after the first submission, although nothing runs" in text
    assert "This is a defect of the scheduler, not of the files" in text
