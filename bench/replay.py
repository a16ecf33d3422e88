"""The real trace of `../shared/traces` through `osmo replay`, and every check of it: `python -m bench replay`, or alone
`python bench/replay.py [TRACE CLUSTER.yaml]`, JSON out.

Each replay is the command itself in a process of its own, so that its memory is its own; seconds are those of one core.
The trace is read from its place and never copied. Twice the jobs: the same trace, and once more after its end.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import replay_checks as checks

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT.parent / "shared" / "traces"
TRACE, CLUSTER = TRACES / "philly-2017-10.csv.gz", TRACES / "philly-96x8.yaml"
LIMITS = {"cpu_s": 180.0, "memory_mib": 1024.0, "twice_to_once": 2.2}
HEADER = ("submit_time", "duration_s", "gpus", "team")


def run(installation: object, *, seconds: int) -> dict[str, object]:
    """Everything, for `python -m bench replay`; the installation and the seconds are not used."""
    return measure(TRACE, CLUSTER)


def measure(trace: Path, cluster: Path) -> dict[str, object]:
    """The trace with LOW and with mixed priorities, twice the trace, and a queue of jobs of one GPU; all checked."""
    if not (trace.exists() and cluster.exists()):
        return {"skipped": f"{trace.name} and {cluster.name} are not in {trace.parent}"}
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        folder = Path(name)
        once = _checked(trace, cluster, folder)
        with _written(folder / "twice.csv", _twice(trace)) as path:
            twice = _replay(path, cluster, folder / "runs.csv")
        with _written(folder / "mixed.csv", _mixed(trace), (*HEADER, "priority")) as path:
            mixed = _checked(path, cluster, folder)
        with _written(folder / "fifo.csv", _one_gpu_jobs(trace)) as path:
            fifo = _fifo(path, folder)
    measured = {
        "cpu_s": once["cpu_s"],
        "memory_mib": once["memory_mib"],
        "twice_to_once": round(float(twice["cpu_s"]) / float(once["cpu_s"]), 2),
    }
    within = {key: measured[key] <= limit for key, limit in LIMITS.items()}
    return {
        "limits": LIMITS, **measured, "within": within, "once": once,
        "twice": {key: twice[key] for key in ("cpu_s", "memory_mib")}, "mixed_priorities": mixed, "fifo": fifo,
    }  # fmt: skip


def _replay(trace: Path, cluster: Path, runs: Path) -> dict[str, Any]:
    """The answer of the command, with the seconds of one core that its process used."""
    words = [sys.executable, "-c", "from osmo_admin.cli.client import main; main()", "replay", str(trace)]
    before = os.times()
    done = subprocess.run(
        [*words, "--on", str(cluster), "--runs", str(runs), "-o", "json"],
        check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer | {"cpu_s": round(used, 1), "memory_mib": answer["peak_memory_mib"]}


def _checked(trace: Path, cluster: Path, folder: Path) -> dict[str, Any]:
    """A replay and its checks (b) to (f); an empty list is a check that found nothing."""
    answer = _replay(trace, cluster, folder / "runs.csv")
    jobs, attempts, sizes = (
        checks.read_trace(trace),
        checks.read_runs(folder / "runs.csv"),
        checks.read_cluster(cluster),
    )
    summary = answer["summary"]
    return {
        "jobs": summary["jobs"],
        "cpu_s": answer["cpu_s"],
        "memory_mib": answer["memory_mib"],
        "events": answer["events"],
        "passes": answer["passes"],
        "preemptions": summary["preemptions"],
        "utilisation": round(summary["utilisation"], 4),
        "wait_mean_s": round(summary["wait_mean_s"], 1),
        "attempts (b)": checks.check_attempts(jobs, attempts, sizes, summary["never"]),
        "instants (c, e)": checks.check_instants(jobs, attempts, sizes),
        "order (d)": checks.check_order(jobs, attempts),
        "sums (f)": checks.check_sums(answer, attempts, sizes),
    }


def _fifo(trace: Path, folder: Path) -> dict[str, Any]:
    """Check (a): the jobs of one GPU in one queue, on so few GPUs that they wait."""
    cluster, servers = folder / "one.yaml", 160
    nodes = ", ".join(f"{{name: n{i:03}, gpus: 8}}" for i in range(servers // 8))
    cluster.write_text(f"nodes: [{nodes}]\nqueues: [{{name: only}}]\n")
    answer = _replay(trace, cluster, folder / "runs.csv")
    found = checks.check_fifo(checks.read_trace(trace), checks.read_runs(folder / "runs.csv"), servers)
    summary = answer["summary"]
    return {"jobs": summary["jobs"], "wait_mean_s": round(summary["wait_mean_s"], 1), "waits (a)": found}


def _rows(trace: Path) -> list[dict[str, str]]:
    with gzip.open(trace, "rt") as file:
        return list(csv.DictReader(file))


def _twice(trace: Path) -> Iterator[tuple[str, ...]]:
    rows = _rows(trace)
    times = [datetime.fromisoformat(row["submit_time"]) for row in rows]
    span = max(times) - min(times)
    for shift in (timedelta(0), span):
        for time, row in zip(times, rows, strict=True):
            yield ((time + shift).isoformat(), row["duration_s"], row["gpus"], row["team"])


def _mixed(trace: Path) -> Iterator[tuple[str, ...]]:
    """Priorities by chance, the same each time: mostly LOW; NORMAL and HIGH are those that the quotas must hold."""
    pick = random.Random(14)
    for row in _rows(trace):
        priority = pick.choice(["LOW", "LOW", "LOW", "NORMAL", "HIGH"])
        yield (*(row[name] for name in HEADER), priority)


def _one_gpu_jobs(trace: Path) -> Iterator[tuple[str, ...]]:
    for row in _rows(trace):
        if row["gpus"] == "1":
            yield (row["submit_time"], row["duration_s"], "1", "only")


@contextmanager
def _written(path: Path, rows: Iterator[tuple[str, ...]], header: tuple[str, ...] = HEADER) -> Iterator[Path]:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    yield path
    path.unlink()


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path, default=TRACE)
    parser.add_argument("cluster", nargs="?", type=Path, default=CLUSTER)
    options = parser.parse_args()
    print(json.dumps(measure(options.trace, options.cluster), indent=2))


if __name__ == "__main__":
    main()
