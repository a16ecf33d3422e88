"""The advice: for each pool the best allotment that was found, its replayed effect, and what simple rules would do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

from pools.domain.values.amounts import GPU, UNLIMITED, Amount, flavor_of
from scheduling.history.advisor.allotment import AdvicePool, Allotment
from scheduling.history.advisor.dry_runs import QuotaChange, dry_run_commands, what_if
from scheduling.history.advisor.search import Found, Rival, find_best
from scheduling.history.advisor.trials import Trial, Trials
from scheduling.history.replay.jobs import Job
from scheduling.history.replay.measures import HOUR, Course, CourseDifference, compare


class Cost(TypedDict):
    """The delay of the work in GPU-hours; null without a replay."""

    waiting_gpu_h: float | None
    lost_gpu_h: float | None
    cost_gpu_h: float | None


class Proposal(Cost):
    """Changes that cost less, with ready dry runs of them."""

    changes: list[QuotaChange]
    saved_gpu_h: float
    effect: CourseDifference
    what_if: list[dict[str, Any]]
    commands: list[str]


class RivalAnswer(Cost):
    """What a simple rule would do; null where its replay was not reached."""

    name: str
    leaves: dict[str, int]
    allowed: bool | None
    guaranteed_later: dict[str, int] | None
    never_again: int | None


class _OfFlavor(TypedDict):
    flavor: NotRequired[str]


class PoolAdvice(TypedDict):
    """The advice for a pool, where it has GPU flavors for one of them."""

    pool: str | None
    flavor: NotRequired[str]
    quota: int
    leaves: dict[str, int]
    lending_limits: dict[str, float | int | None]
    guaranteed_jobs: int
    least: dict[str, int]
    exact: bool
    replays: int
    proposal: Proposal | None
    rivals: list[RivalAnswer]


class IdlePromise(TypedDict):
    """Quota, of one flavor where there are several, that nobody used while work of others waited."""

    team: str
    flavor: NotRequired[str]
    gpu_h: float


class Advice(Cost):
    """What today's quotas cost, and better ones."""

    today: Course
    pools: list[PoolAdvice]
    together: Proposal | None
    idle_promises: list[IdlePromise]
    replays: int


class OwnAdvice(Advice):
    """The advice from recorded history."""

    quotas_changed: bool
    out_of_time: bool


def use_by_team(jobs: Iterable[Job]) -> dict[str, float]:
    """The GPU-hours that the jobs of each team run, whatever the quotas."""
    found: dict[str, float] = {}
    for job in jobs:
        run = job.duration if job.limit is None else min(job.duration, job.limit)
        found[job.team] = found.get(job.team, 0.0) + job.gpus * run / HOUR
    return found


def guaranteed_by_team(jobs: Iterable[Job]) -> Counter[str]:
    """The HIGH and NORMAL jobs of each team."""
    return Counter(job.team for job in jobs if not job.priority.is_preemptible)


@dataclass(frozen=True, slots=True)
class Window:
    """What is known of a window of history besides its replays. `use`: GPU-hours that the work of each team used.
    `guaranteed`: the HIGH and NORMAL jobs of each team. `hours`: its length. `idle`: GPU-hours of idle promises, by
    team and flavor."""

    use: dict[str, float]
    guaranteed: Mapping[str, int]
    hours: float
    idle: Mapping[tuple[str, str], float]


def advise(
    pools: Sequence[AdvicePool],
    trials: Trials,
    window: Window,
    *,
    replays: int,
    is_over: Callable[[], bool] = bool,
    backend: str | None = None,
) -> Advice:
    """The whole answer (docs/advisor.md). `replays`: the most for all pools together, today's excluded; pools whose
    work waits most come first."""
    today = trials.today
    found = []
    most = trials.count + replays
    for number, pool in enumerate(ordered := sorted(pools, key=lambda each: _by_waiting(each, today))):
        share = (most - trials.count) // (len(ordered) - number)
        found.append(find_best(_that_keeps_use(pool, window), trials, window.use, share, is_over))
    return {
        **_cost(today),
        "today": today.course,
        "pools": [_pool(each, today, window, backend) for each in found],
        "together": _together(found, trials, backend),
        "idle_promises": [
            {"team": team, **_of_flavor(key), "gpu_h": hours}
            for (team, key), hours in sorted(window.idle.items(), key=lambda item: (-item[1], item[0]))
            if hours > 0
        ],
        "replays": trials.count,
    }


def _that_keeps_use(pool: AdvicePool, window: Window) -> AdvicePool:
    """Without HIGH and NORMAL work no job forbids a division: then a leaf keeps the GPUs that its work used on average,
    rounded up, if it has that many today."""
    if _guaranteed_jobs(pool, window):
        return pool
    hours = max(window.hours, 1 / HOUR)
    least = {name: min(quota, math.ceil(window.use.get(name, 0) / hours)) for name, quota in pool.today.quotas}
    return replace(pool, least=least)


def _guaranteed_jobs(pool: AdvicePool, window: Window) -> int:
    return sum(window.guaranteed.get(name, 0) for name, _ in pool.today.quotas)


def _cost(trial: Trial | None) -> Cost:
    """The parts of the cost and their sum; null without a trial."""
    if trial is None:
        return {"waiting_gpu_h": None, "lost_gpu_h": None, "cost_gpu_h": None}
    return {
        "waiting_gpu_h": trial.waiting / HOUR, "lost_gpu_h": trial.lost / HOUR, "cost_gpu_h": trial.cost / HOUR,
    }  # fmt: skip


def _by_waiting(pool: AdvicePool, today: Trial) -> tuple[float, str, str]:
    waiting = sum(today.teams[name]["waiting_gpu_h"] or 0 for name, _ in pool.today.quotas)
    return -waiting, pool.name or "", pool.today.key


def _pool(found: Found, today: Trial, window: Window, backend: str | None) -> PoolAdvice:
    is_better = found.allotment != found.pool.today
    return {
        "pool": found.pool.name,
        **_of_flavor(found.pool.today.key),
        "quota": found.pool.total,
        "leaves": dict(found.pool.today.quotas),
        "lending_limits": {name: _limit(limit) for name, limit in found.pool.today.lending},
        "guaranteed_jobs": _guaranteed_jobs(found.pool, window),
        "least": dict(found.pool.least),
        "exact": found.is_exact,
        "replays": found.replays,
        "proposal": _proposal([found], found.trial, today, backend) if is_better else None,
        "rivals": [_rival(Rival("today", found.pool.today, today)), *map(_rival, found.rivals)],
    }


def _of_flavor(key: str) -> _OfFlavor:
    return {} if key == GPU else {"flavor": flavor_of(key)}


def _rival(rival: Rival) -> RivalAnswer:
    trial = rival.trial
    return {
        "name": rival.name,
        "leaves": dict(rival.allotment.quotas),
        **_cost(trial),
        "allowed": None if trial is None else trial.is_allowed,
        "guaranteed_later": None if trial is None else dict(trial.later),
        "never_again": None if trial is None else trial.never_again,
    }


def _proposal(parts: Sequence[Found], trial: Trial, today: Trial, backend: str | None) -> Proposal:
    changes = [change for part in parts for change in changes_of(part.pool.today, part.allotment)]
    return {
        "changes": changes,
        **_cost(trial),
        "saved_gpu_h": (today.cost - trial.cost) / HOUR,
        "effect": compare(today.course, trial.course),
        "what_if": [what_if(change) for change in changes],
        "commands": dry_run_commands(changes, backend),
    }


def _together(found: Sequence[Found], trials: Trials, backend: str | None) -> Proposal | None:
    """The proposals of all pools at once, if there are several and they are allowed together; else None."""
    parts = [each for each in found if each.allotment != each.pool.today]
    if len(parts) < 2:
        return None
    first, *others = (
        Allotment(
            tuple(pair for part in parts if part.allotment.key == key for pair in part.allotment.quotas),
            tuple(pair for part in parts if part.allotment.key == key for pair in part.allotment.lending),
            key,
        )
        for key in dict.fromkeys(part.allotment.key for part in parts)
    )
    whole = replace(first, also=tuple(others))
    trial = trials.run(whole, min(part.trial.cost for part in parts))
    return None if trial is None else _proposal(parts, trial, trials.today, backend)


def changes_of(today: Allotment, proposed: Allotment) -> list[QuotaChange]:
    """What differs: quotas that fall, then those that rise, then lending limits; a limit of None means none."""
    pairs = zip(today.quotas, proposed.quotas, strict=True)
    moved = sorted(((name, before, after) for (name, before), (_, after) in pairs), key=lambda move: move[2] > move[1])
    quotas: list[QuotaChange] = [
        {"name": name, "key": "quota", "from": before, "to": after, **_of_flavor(today.key)}
        for name, before, after in moved
        if before != after
    ]
    limits: list[QuotaChange] = [
        {"name": name, "key": "lending_limit", "from": _limit(before), "to": _limit(after), **_of_flavor(today.key)}
        for (name, before), (_, after) in zip(today.lending, proposed.lending, strict=True)
        if before != after
    ]
    return quotas + limits


def _limit(amount: Amount) -> int | float | None:
    if amount == UNLIMITED:
        return None
    return int(amount) if amount == int(amount) else float(amount)
