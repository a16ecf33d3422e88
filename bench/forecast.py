"""What a forecast of a start costs in a queue of 1,000: in a replay, in the background, and in a dry run over HTTP.

96 nodes of 8 GPUs, 14 pools, about 1,000 gangs of 1 to 16 GPUs that wait, and run times of all orders.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import fill
from bench.installation import Installation

NODES, TEAMS, WAITING = 96, 14, 1_000
SIZES = (1, 1, 1, 1, 2, 4, 8, 16)
FIRST = 1_300
"""Jobs that arrive at once after the first ones have filled the cluster."""
LATER = 40
"""Forecasts that are measured in the replay, while 1,000 jobs wait; earlier jobs have none."""
QUESTIONS = 20
LIMIT_MS = 200.0


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Milliseconds; those of the replay are of one core, and of the forecasts made while 1,000 jobs or more wait."""
    replay = _replay()
    return {
        "limit_ms": LIMIT_MS,
        "replay": replay | {"within": replay["ms_per_forecast"] <= LIMIT_MS},
        "live": _live(installation),
    }


class _Measured(Exception):
    """Ends the replay."""


def _replay() -> dict[str, Any]:
    """A full cluster, 1,000 jobs that arrive within an hour, and then as many as end, so that the queue stays long."""
    import yaml

    from scheduling.history.forecast.forecaster import Forecaster
    from scheduling.history.replay.clock import LiveJob, ReplayClock
    from scheduling.history.traces.run import ReplayRequest, replay

    class Watch(Forecaster):
        """Times each forecast in a long queue."""

        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        def waits(self, clock: ReplayClock, live: LiveJob) -> None:
            if sum(each.start is None for each in clock.live.values()) < WAITING:
                return
            before = time.process_time()
            super().waits(clock, live)
            self.times.append((time.process_time() - before) * 1000)
            if len(self.times) == LATER:
                raise _Measured

    pick, rows, now = random.Random(4), ["submit_time,duration_s,gpus,team"], 0.0
    for number in range(NODES * 4 + FIRST + 3 * LATER):
        now += 1.0 if number < NODES * 4 + FIRST else 30.0
        size = pick.choice(SIZES) if number >= NODES * 4 else 2
        rows.append(f"{now},{pick.lognormvariate(9.5, 1.5) + 1:.0f},{size},t{pick.randrange(TEAMS)}")
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="forecast-") as name:
        trace, cluster = Path(name) / "trace.csv", Path(name) / "cluster.yaml"
        trace.write_text("\n".join(rows) + "\n")
        queues = [{"name": f"t{team}", "parent": "all", "quota": NODES * 8 // TEAMS} for team in range(TEAMS)]
        nodes = [{"name": f"n{number:03}", "gpus": 8} for number in range(NODES)]
        cluster.write_text(yaml.safe_dump({"nodes": nodes, "cohorts": [{"name": "all"}], "queues": queues}))
        with suppress(_Measured):
            replay(ReplayRequest(str(trace), str(cluster)), observers=lambda _facts: [watch])
    times = sorted(watch.times)
    return {
        "forecasts": len(times),
        "ms_per_forecast": round(sum(times) / len(times), 1),
        "worst_ms": round(times[-1], 1),
    }


def _live(installation: Installation) -> dict[str, Any]:
    """The same queue on a simulated backend: one round of the background, and dry runs over HTTP."""
    from pools.models import Backend, Node
    from scheduling.history.starts.background import forecast_starts
    from scheduling.models import StartForecast
    from scheduling.services.simulated.reconcile import reconcile_backend

    backend = Backend.objects.create(name="waits", namespace="waits", auto_end=False)
    Node.objects.bulk_create([Node(backend=backend, name=f"n{number:03}", gpus=8) for number in range(NODES)])
    pools = fill.insert_pools(TEAMS, prefix="team", guarantee=NODES * 8 // TEAMS, on=backend.pk)
    pick = random.Random(4)
    sizes = [2] * (NODES * 4) + [pick.choice(SIZES) for _ in range(WAITING)]
    work = [fill.PendingWorkload(pick.choice(pools), max(1, size // 8), min(size, 8), "LOW") for size in sizes]
    fill.insert_pending(work)
    reconcile_backend(backend.pk, lock_timeout=600)
    before = time.perf_counter()
    forecast_starts()
    round_ms = (time.perf_counter() - before) * 1000
    made = StartForecast.objects.filter(backend_id=backend.pk).count()
    return {
        "waiting": made,
        "round_ms": round(round_ms),
        "round_ms_per_forecast": round(round_ms / max(1, made), 1),
        "futures": StartForecast.objects.filter(backend_id=backend.pk).values_list("samples", flat=True).first(),
        "dry_run_ms": _dry_runs(installation, pools, "start=true", QUESTIONS),
        "dry_run_without_start_ms": _dry_runs(installation, pools, "start=false", QUESTIONS),
        "ways_ms": _dry_runs(installation, pools, "ways=true", 3),
    }


def _dry_runs(installation: Installation, pools: list[str], query: str, count: int) -> dict[str, float]:
    token = installation.login()
    file = "workflow:\n  name: new\n  resources: {default: {gpu: 4}}\n  tasks: [{name: t, image: u, command: [sh]}]\n"
    body = json.dumps({"file": file}).encode()
    times = []
    for number in range(count):
        address = f"{installation.base_url}/api/pool/{pools[number % len(pools)]}/workflow"
        request = urllib.request.Request(
            f"{address}?dry_run=true&priority=LOW&{query}",
            data=body,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        before = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
        times.append((time.perf_counter() - before) * 1000)
    times.sort()
    return {"median": round(times[len(times) // 2], 1), "worst": round(times[-1], 1)}
