"""What a cycle had seen, for a replay that judges in the same order (:mod:`scheduling.history.replay.seen_order`)."""

from __future__ import annotations

from datetime import UTC, datetime

from pools.models import Backend
from scheduling.models import SchedulingCycle
from scheduling.selectors.queue.live_facts import LiveFacts


def seen_by_cycle(
    backend: Backend, live: LiveFacts, now: datetime, snapshot: str | None, new_since: str | None
) -> SchedulingCycle:
    """The row of a cycle that read these facts, not yet saved. `now` is the time of its decisions."""
    policy = live.facts.policy
    judged_at = now if policy is None else datetime.fromtimestamp(int(policy.now), tz=UTC)
    reservations = () if policy is None else policy.reservations
    return SchedulingCycle(
        backend=backend, time=now, judged_at=judged_at, snapshot=snapshot, new_since=new_since,
        reservations=[[each.gang, each.since, each.nodes, each.placed] for each in reservations],
    )  # fmt: skip
