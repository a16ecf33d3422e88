"""Checks of a replay that know nothing of the engine: they read its trace, its cluster and the files that it wrote.

Each check returns one sentence for each thing that is wrong, at most a few. The cluster is one cohort of queues without
limits whose quotas add up to its GPUs, as `philly-96x8.yaml`; there every free GPU is permitted to LOW work.
"""

from __future__ import annotations

import csv
import gzip
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import yaml

MOST_SENTENCES = 10


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One job of the trace; times in seconds since the first submission."""

    job: int
    submit: Fraction
    duration: Fraction
    gpus: int
    team: str
    priority: str
    limit: Fraction | None
    checkpoint: Fraction | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One attempt of the runs file."""

    job: int
    attempt: int
    team: str
    priority: str
    gpus: int
    submit: Fraction
    start: Fraction
    end: Fraction
    nodes: tuple[tuple[str, int], ...]
    end_reason: str


@dataclass(frozen=True, slots=True)
class ClusterSizes:
    """GPUs of each node, and the quota of each team."""

    nodes: Mapping[str, int]
    quotas: Mapping[str, int]

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(self.nodes.values())


def read_trace(path: str | Path, priority: str = "LOW") -> dict[int, TraceRow]:
    """The jobs by their number."""
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if str(path).endswith(".gz") else data).decode()
    raw = list(csv.DictReader(text.splitlines()))
    times = [_seconds(row["submit_time"]) for row in raw]
    first = min(times)
    rows = {}
    for number, (row, time) in enumerate(zip(raw, times, strict=True), 1):
        limit, every = row.get("limit_s"), row.get("checkpoint_s")
        rows[number] = TraceRow(
            number, time - first, Fraction(row["duration_s"]), int(row["gpus"]), row["team"],
            row.get("priority") or priority, Fraction(limit) if limit else None,
            Fraction(every) if every else None,
        )  # fmt: skip
    return rows


def _seconds(text: str) -> Fraction:
    try:
        return Fraction(text)
    except ValueError:
        return Fraction((datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds())


def read_cluster(path: str | Path) -> ClusterSizes:
    """The nodes and the teams of a scenario file."""
    body = yaml.safe_load(Path(path).read_text())
    nodes = {str(node["name"]): int(node["gpus"]) for node in body["nodes"]}
    return ClusterSizes(nodes, {str(queue["name"]): int(queue.get("quota", 0)) for queue in body["queues"]})


def read_runs(path: str | Path) -> list[RunRow]:
    """The attempts in the order of the file."""
    with Path(path).open() as file:
        return [
            RunRow(
                int(row["job"]), int(row["attempt"]), row["team"], row["priority"], int(row["gpus"]),
                Fraction(row["submit"]), Fraction(row["start"]), Fraction(row["end"]),
                tuple(_node(part) for part in row["nodes"].split(";")), row["end_reason"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def _node(text: str) -> tuple[str, int]:
    name, gpus = text.rsplit(":", 1)
    return name, int(gpus)


def check_fifo(trace: Mapping[int, TraceRow], runs: Sequence[RunRow], servers: int) -> list[str]:
    """(a) One queue and jobs of one GPU: the starts are those of a G/G/c queue, first come, first served."""
    free: list[Fraction] = [Fraction(0)] * servers
    heapq.heapify(free)
    found = []
    starts = {run.job: run.start for run in runs}
    for row in sorted(trace.values(), key=lambda row: (row.submit, row.job)):
        start = max(row.submit, heapq.heappop(free))
        heapq.heappush(free, start + row.duration)
        if starts.get(row.job) != start:
            found.append(f"job {row.job} starts at {starts.get(row.job)}, in a queue at {start}")
    return found[:MOST_SENTENCES]


def check_attempts(
    trace: Mapping[int, TraceRow],
    runs: Sequence[RunRow],
    cluster: ClusterSizes,
    never: int,
    checkpoint: Fraction = Fraction(0),
) -> list[str]:
    """(b) No node holds more than it has, no job runs twice at once, every job is finished or never starts."""
    found: list[str] = []
    by_job: dict[int, list[RunRow]] = defaultdict(list)
    for run in runs:
        by_job[run.job].append(run)
    if len(by_job) + never != len(trace):
        found.append(f"{len(by_job)} jobs ran and {never} never start, of {len(trace)}")
    if any(a.start > b.start for a, b in pairwise(runs)):
        found.append("the file is not in the order of starts")
    for job, attempts in by_job.items():
        found += _check_job(trace[job], attempts, trace[job].checkpoint or checkpoint)
    held: dict[str, int] = defaultdict(int)
    for time, _is_start, sign, run in _changes(runs):
        for node, gpus in run.nodes:
            held[node] += sign * gpus
            if held[node] > cluster.nodes.get(node, 0):
                found.append(f"node {node} holds {held[node]} GPUs at {time}")
    return found[:MOST_SENTENCES]


def _check_job(row: TraceRow, attempts: Sequence[RunRow], checkpoint: Fraction) -> Iterator[str]:
    if [run.attempt for run in attempts] != list(range(1, len(attempts) + 1)):
        yield f"job {row.job} has the attempts {[run.attempt for run in attempts]}"
    kept = Fraction(0)
    before = row.submit
    for run in attempts:
        same = (run.team, run.priority, run.gpus, run.submit) == (row.team, row.priority, row.gpus, row.submit)
        if not same or sum(gpus for _node, gpus in run.nodes) != row.gpus:
            yield f"attempt {run.attempt} of job {row.job} is not what the trace says"
        if run.start < before:
            yield f"job {row.job} starts at {run.start}, before {before}"
        before = run.end
        left = row.duration - kept
        most = left if row.limit is None else min(left, row.limit)
        if run is attempts[-1]:
            reason = "finished" if most == left else "timeout"
            if (run.end - run.start, run.end_reason) != (most, reason):
                yield f"job {row.job} ends {run.end_reason} after {run.end - run.start}, not {reason} after {most}"
        elif run.end_reason != "preempted" or not 0 < run.end - run.start < most:
            yield f"attempt {run.attempt} of job {row.job} ends {run.end_reason} after {run.end - run.start}"
        if checkpoint:
            done = kept + run.end - run.start
            kept = done // checkpoint * checkpoint


def _changes(runs: Iterable[RunRow]) -> list[tuple[Fraction, int, int, RunRow]]:
    """Ends and starts in order; at one time ends first."""
    ends = [(run.end, 0, -1, run) for run in runs]
    starts = [(run.start, 1, 1, run) for run in runs]
    return sorted([*ends, *starts], key=lambda change: change[:2])


class _Instant:
    """What holds between one instant and the next."""

    def __init__(self, cluster: ClusterSizes) -> None:
        self.cluster = cluster
        self.free = cluster.gpus
        self.use: dict[str, int] = defaultdict(int)
        self.firm: dict[str, int] = defaultdict(int)
        self.waiting: dict[tuple[str, str], int] = defaultdict(int)
        """Waiting jobs of one GPU, by team and priority."""

    def permitted(self, team: str, priority: str) -> bool:
        return priority == "LOW" or self.firm[team] < self.cluster.quotas[team]

    def wrong(self, time: Fraction) -> Iterator[str]:
        for (team, priority), count in self.waiting.items():
            if not count or not self.permitted(team, priority):
                continue
            if self.free:
                yield f"(c) a {priority} job of one GPU of {team} waits at {time}; {self.free} GPUs are free"
            if priority == "LOW":
                continue
            if self.use[team] > self.firm[team]:
                yield f"(e) a {priority} job of one GPU of {team} waits at {time} behind LOW work of its team"
            over = [name for name, use in self.use.items() if use > self.cluster.quotas[name]]
            if over and self.use[team] < self.cluster.quotas[team]:
                yield f"(e) a {priority} job of one GPU of {team} waits at {time} behind LOW work of {over}"


def check_instants(trace: Mapping[int, TraceRow], runs: Sequence[RunRow], cluster: ClusterSizes) -> list[str]:
    """(c) No waiting job of one GPU could have started in a free and permitted GPU. (e) HIGH and NORMAL work inside its
    quota never waits behind LOW work; counted for jobs of one GPU, to which every GPU of LOW work is room."""
    started = {run.job for run in runs}
    events: list[tuple[Fraction, int, str, Any]] = [(row.submit, 0, "submit", row) for row in trace.values()]
    for time, is_start, sign, run in _changes(runs):
        events.append((time, 1 + is_start, "start" if sign > 0 else "end", run))
    events.sort(key=lambda event: event[:2])
    now = _Instant(cluster)
    found: list[str] = []
    for time, group in groupby(events, key=lambda event: event[0]):
        for _time, _order, kind, row in group:
            if row.job not in started:
                continue
            change = {"submit": 0, "start": 1, "end": -1}[kind]
            now.free -= change * row.gpus
            now.use[row.team] += change * row.gpus
            if row.priority != "LOW":
                now.firm[row.team] += change * row.gpus
            if row.gpus == 1:
                again = kind == "submit" or (kind == "end" and row.end_reason == "preempted")
                now.waiting[row.team, row.priority] += again - (kind == "start")
        found += now.wrong(time)
        if len(found) >= MOST_SENTENCES:
            break
    return found[:MOST_SENTENCES]


def check_order(trace: Mapping[int, TraceRow], runs: Sequence[RunRow]) -> list[str]:
    """(d) Within a team and a priority the order is submit time, among jobs of equal size."""
    latest: dict[tuple[str, str, int], tuple[Fraction, int]] = {}
    found = []
    for run in runs:
        if run.attempt > 1:
            continue
        key = (run.team, run.priority, run.gpus)
        mine = (run.submit, run.job)
        if mine < latest.get(key, mine):
            found.append(f"job {run.job} starts after job {latest[key][1]}, which was submitted later")
        latest[key] = max(mine, latest.get(key, mine))
    return found[:MOST_SENTENCES]


def check_sums(answer: Mapping[str, Any], runs: Sequence[RunRow], cluster: ClusterSizes) -> list[str]:
    """(f) Used and idle quota add up to capacity × time, lent to borrowed, and the numbers are those of the file."""
    summary, teams = answer["summary"], answer["teams"]
    hours = float(max((run.end for run in runs), default=Fraction(0))) / 3600
    capacity = cluster.gpus * hours
    used = float(sum(run.gpus * (run.end - run.start) for run in runs)) / 3600
    idle = sum(team["idle_quota_gpu_h"] for team in teams.values())
    pairs = {
        "capacity": (summary["capacity_gpu_h"], capacity),
        "use": (summary["used_gpu_h"], used),
        "use of the teams": (sum(team["used_gpu_h"] for team in teams.values()), used),
        "use and idle quota": (used + idle, capacity),
        "lent and borrowed": (
            sum(team["lent_gpu_h"] for team in teams.values()),
            sum(team["borrowed_gpu_h"] for team in teams.values()),
        ),
        "preemptions": (summary["preemptions"], sum(run.end_reason == "preempted" for run in runs)),
        "finished": (summary["finished"], sum(run.end_reason != "preempted" for run in runs)),
    }
    for name, team in teams.items():
        parts = team["used_gpu_h"] - team["borrowed_gpu_h"] + team["lent_gpu_h"] + team["idle_quota_gpu_h"]
        pairs[f"the quota of {name}"] = (parts, cluster.quotas[name] * hours)
    return [
        f"{what}: {have}, not {want}" for what, (have, want) in pairs.items() if abs(have - want) > 1e-6 * max(1, want)
    ]
