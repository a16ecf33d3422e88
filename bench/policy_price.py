"""The price of the policy against endless waiting (docs/waiting.md): `python -m bench policy_price`, or alone
`python bench/policy_price.py [--streams 20]`, JSON out.

Random streams of six days on two to four nodes of 8 GPUs are replayed without a policy and with the default one. They
ask for 90 to 100 % of the GPUs, and 6 % of their gangs need whole nodes. In half of them all work is LOW, in the others
60 % is LOW, 30 % NORMAL and 10 % HIGH. Two teams have half of the GPUs each and share one cohort. The shares are of the
GPU-time of the six days: `held` by running work, and `kept`: without what preemption threw away. Waits are in hours;
work that has not started after twelve days counts with its wait until then.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pools.domain.configuration.backend_config import DEFAULT_AGEING, DEFAULT_RESERVE_AFTER
from scheduling.domain.engine.facts import ClusterFacts, CohortFacts, NodeFacts, PolicyFacts, QueueFacts
from scheduling.domain.engine.reasons.liveness import find_stuck
from scheduling.domain.priorities import Priority
from scheduling.garbage_collector import garbage_collector
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayClock, ReplayObserver, ReplayRules
from scheduling.history.replay.jobs import SECOND, Job

GPU = "default/gpu"
HOUR = 3600 * SECOND
DAYS, END = 6 * 24 * HOUR, 12 * 24 * HOUR
LONGEST = 12 * HOUR
MIXES = {
    "low": [Priority.LOW],
    "mixed": [*[Priority.LOW] * 6, *[Priority.NORMAL] * 3, Priority.HIGH],
}
POLICY = PolicyFacts(reserve_after=DEFAULT_RESERVE_AFTER, ageing=DEFAULT_AGEING)


def cluster(pick: random.Random) -> ClusterFacts:
    """Two to four nodes, and two teams."""
    count = pick.randint(2, 4)
    nodes = tuple(NodeFacts(f"n{i}", {GPU: 8}) for i in range(count))
    queues = tuple(QueueFacts(name, "all", {GPU: 4 * count}, created=n) for n, name in enumerate("ab"))
    return ClusterFacts(queues, (CohortFacts("all"),), nodes=nodes)


def jobs(pick: random.Random, gpus: int, priorities: Sequence[Priority]) -> Iterator[Job]:
    """The jobs of six days."""
    load, at, row = pick.uniform(0.9, 1.0), 0.0, 0
    while at < DAYS:
        row += 1
        size = 8 * pick.randint(1, gpus // 16) if pick.random() < 0.06 else pick.choice([1, 1, 2, 4])
        runs = int(min(pick.expovariate(1 / (2 * HOUR)) + 60 * SECOND, LONGEST))
        limit = pick.choice([None, LONGEST])
        yield Job(row, int(at), runs, size, pick.choice("ab"), pick.choice(priorities), limit)
        at += pick.expovariate(1) * runs * size / gpus / load


class Price(ReplayObserver):
    """What the stream held and lost within six days, and how long its jobs waited."""

    def __init__(self) -> None:
        self.held = self.lost = 0
        self.delays: dict[int, tuple[Job, int]] = {}
        self._submitted: dict[int, Job] = {}

    def arrived(self, live: LiveJob) -> None:
        self._submitted[live.job.id] = live.job

    def started(self, live: LiveJob) -> None:
        self.delays.setdefault(live.job.id, (live.job, live.start - live.job.submit if live.start is not None else 0))

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        if live.start is not None and live.start < DAYS:
            self.held += live.job.gpus * (min(now, DAYS) - live.start)
            self.lost += live.job.gpus * lost if now <= DAYS else 0

    def summary(self, gpus: int) -> dict[str, float]:
        """The shares and waits."""
        capacity = gpus * DAYS
        for row, job in self._submitted.items():
            self.delays.setdefault(row, (job, END - job.submit))
        found = {"held": self.held / capacity, "kept": (self.held - self.lost) / capacity}
        for name, chosen in (("all", None), *((p.value.lower(), p) for p in Priority)):
            waits = [wait / HOUR for job, wait in self.delays.values() if chosen in (None, job.priority)]
            large = [
                wait / HOUR for job, wait in self.delays.values() if chosen in (None, job.priority) and job.gpus >= 8
            ]
            if waits:
                found |= {f"mean_wait_{name}": mean(waits), f"longest_{name}": max(waits)}
            if large:
                found |= {f"mean_wait_whole_nodes_{name}": mean(large)}
        return found


def live_through(seed: int, mix: str, policy: PolicyFacts | None) -> dict[str, float]:
    """One stream. Raises RuntimeError where it is ever stuck."""
    pick = random.Random(seed)
    facts = cluster(pick)
    gpus = 8 * len(facts.nodes or ())
    price = Price()
    clock = ReplayClock(
        ClusterFacts(facts.queues, facts.cohorts, nodes=facts.nodes, policy=policy), ReplayRules(), (price,)
    )
    with garbage_collector.paused():
        for now in clock.run(jobs(pick, gpus, MIXES[mix])):
            if find_stuck(clock.state.world):
                raise RuntimeError(f"stream {seed} is stuck at {now // SECOND} s")
            if now >= END:
                break
    return price.summary(gpus)


def measure(streams: int = 20) -> dict[str, object]:
    """The means over the streams, for each mix, without and with the policy."""
    answer: dict[str, object] = {"streams": streams}
    for mix in MIXES:
        pairs = {
            name: [live_through(seed, mix, policy) for seed in range(streams)]
            for name, policy in (("without", None), ("with", POLICY))
        }
        answer[mix] = {name: _means(found) for name, found in pairs.items()}
    return answer


def _means(found: Sequence[dict[str, float]]) -> dict[str, float]:
    keys = {key for each in found for key in each}
    return {key: round(mean(each[key] for each in found if key in each), 4) for key in sorted(keys)}


def run(installation: object, *, seconds: int) -> dict[str, object]:
    """Everything, for `python -m bench policy_price`; the installation and the seconds are not used."""
    return measure()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=20)
    print(json.dumps(measure(parser.parse_args().streams), indent=2))
