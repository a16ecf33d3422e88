"""What people submit in the month of the demo: a list that one seed makes, for `make_month`.

Each leaf has work of priority NORMAL for a part of its quota, in office hours and in phases of some days, between which
its quota is idle. LOW work of all pools, mostly sweeps of the evening, takes what is idle, also at night and at
weekends. Who sees a long queue does not submit (`patience`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from scheduling.demo.installation import DEMO_POOLS, DemoPool
from scheduling.demo.month_file import DAY, HOUR, LENGTH, MonthJob
from scheduling.domain.priorities import Priority
from scripts.demo_month.patience import worth_waiting_for

SEED: Final = 4711
_OFFICE = (1, 1, 1, 1, 1, 1, 2, 4, 9, 14, 15, 13, 9, 11, 14, 15, 14, 11, 8, 5, 4, 3, 2, 1)
_EVENING = (3, 2, 2, 1, 1, 1, 1, 2, 4, 5, 5, 5, 4, 5, 6, 8, 11, 15, 16, 14, 10, 8, 6, 4)
_WEEKDAY = (10, 11, 11, 11, 9, 2, 2)
_WEEKDAY_LOW = (11, 12, 12, 12, 11, 5, 5)
NORMAL_LOAD: Final = 0.58
"""GPU-hours of HIGH and NORMAL work that people have, as a part of the quota of its leaf."""
LOW_LOAD: Final = 0.72
"""GPU-hours of LOW work that people have, as a part of the quotas of all pools."""
QUEUE_TIMEOUT: Final = 46 * HOUR
"""What has waited for so long is no longer needed."""


class _Size(NamedTuple):
    gpus: int
    workers: int
    hours: float
    """The median of its run times."""


QUICK: Final = 0.16
"""The part of HIGH and NORMAL work that only tries something out."""
_QUICK = (_Size(1, 1, 0.4), _Size(1, 1, 0.7), _Size(2, 1, 0.6))
_SMALL = (_Size(1, 1, 2.0), _Size(1, 1, 4.0), _Size(2, 1, 3.0), _Size(2, 1, 4.5), _Size(4, 1, 5.0))
_MEDIUM = (_Size(4, 1, 12.0), _Size(8, 1, 9.0), _Size(4, 2, 10.0), _Size(8, 1, 14.0), _Size(8, 2, 16.0))
_LARGE = (_Size(8, 2, 26.0), _Size(8, 3, 24.0), _Size(8, 4, 28.0), _Size(8, 5, 20.0))
_SWEEPS = (_Size(4, 1, 12.0), _Size(8, 1, 9.0), _Size(8, 1, 12.0), _Size(4, 2, 12.0))
_JOBS = ("train", "finetune", "eval", "export", "preprocess", "distill")
_LOW_JOBS = ("sweep", "sweep", "render", "ablation")
# subpool | days from which and until which work comes to it; the others take work all the time.
_OPEN: Mapping[str, tuple[float, float]] = {
    "speech--legacy": (0, 7), "recsys--abtest": (0, 12), "research--theory": (0, 4), "biology--screen": (0, 9),
    "evaluation--adhoc": (0, 13), "security--defend": (0, 3), "platform--spare": (0, 8),
    # The shared leaf has quota since the pool got more.
    "language": (23.4, LENGTH),
    "vision--ocr": (0, 29.4), "research--interns": (0, 29.7), "simulation--scenes": (0, 28.6),
}  # fmt: skip
LONGEST_DAYS: Final = {"speech--legacy": 1.5, "research--theory": 1.5, "biology--screen": 1.5, "evaluation--adhoc": 1.5,
    "security--defend": 0.8, "platform--spare": 1.5, "recsys--abtest": 1.7}  # fmt: skip


def submissions(cluster: str) -> list[MonthJob]:
    """What the people of this cluster's pools submit, in the order of time."""
    dice = random.Random(f"{SEED} {cluster}")  # noqa: S311  (the same numbers every time, no secret)
    found: list[MonthJob] = []
    for pool in DEMO_POOLS:
        if pool.backend == cluster:
            for leaf, quota in _leaves(pool):
                found += _work_of(dice, pool, leaf, quota)
            found += _sweeps_of(dice, pool)
    found += [
        job for job in _LONG_RUNS if job.leaf.split("--")[0] in {p.name for p in DEMO_POOLS if p.backend == cluster}
    ]
    quotas = {leaf: quota for pool in DEMO_POOLS if pool.backend == cluster for leaf, quota in _leaves(pool)}
    return _numbered(worth_waiting_for(found, cluster, quotas))


_LONG_RUNS = (
    MonthJob(round(12.21 * DAY), "recsys--abtest", "recsys-researcher", "recsys-eval", "NORMAL", 2, 1, 39 * HOUR),
    # The work for which three subpools that were deleted wait.
    MonthJob(round(28.9 * DAY), "vision--ocr", "vision-researcher", "vision-pretrain", "NORMAL", 2, 1, 16 * DAY),
    MonthJob(round(29.2 * DAY), "research--interns", "research-researcher", "research-train", "NORMAL", 4, 1, 15 * DAY),
    MonthJob(
        round(28.1 * DAY), "simulation--scenes", "simulation-researcher", "simulation-render", "NORMAL", 4, 1, 17 * DAY
    ),
)  # fmt: skip


def _leaves(pool: DemoPool) -> Iterator[tuple[str, int]]:
    for short, quota in pool.subpools.items():
        yield f"{pool.name}--{short}", quota
    yield pool.name, pool.guarantee - sum(pool.subpools.values())


def _work_of(dice: random.Random, pool: DemoPool, leaf: str, quota: int) -> Iterator[MonthJob]:
    """HIGH and NORMAL work of one leaf."""
    first, last = _OPEN.get(leaf, (0.0, float(LENGTH)))
    longest = LONGEST_DAYS.get(leaf, 4.0)
    phases = _phases(dice, first, last, _WEEKDAY)
    wanted = quota * NORMAL_LOAD * HOUR * 24 * (last - first)
    while wanted > 0:
        chance = dice.random()
        sizes: tuple[_Size, ...] = _QUICK
        if chance >= QUICK:
            sizes = _LARGE if chance > 0.86 and quota >= 24 else _MEDIUM if chance > 0.45 and quota >= 8 else _SMALL
        most = max(quota * 2 // 3, 1)
        size = dice.choice([each for each in sizes if each.gpus * each.workers <= most] or [_Size(1, 1, 3.0)])
        slow = 1.0 if chance < QUICK else 7.0 if quota < 16 else 1.5
        runtime = _runtime(dice, size.hours * slow, longest)
        priority = Priority.HIGH if size.gpus * size.workers <= 4 and dice.random() < 0.08 else Priority.NORMAL
        submit = _moment(dice, dice.choice(phases), _OFFICE)
        if submit >= last * DAY:
            continue
        job = MonthJob(
            submit, leaf, _author(dice, pool), f"{pool.name}-{dice.choice(_JOBS)}", priority.value, size.gpus,
            size.workers, runtime,
        )  # fmt: skip
        job = _with_end(dice, job)
        wanted -= job.all_gpus * (job.fails_after or runtime)
        yield job


def _sweeps_of(dice: random.Random, pool: DemoPool) -> Iterator[MonthJob]:
    """LOW work of one pool, on any of its leaves."""
    wanted = pool.guarantee * LOW_LOAD * HOUR * 24 * LENGTH
    leaves = [leaf for leaf, quota in _leaves(pool) if leaf not in _OPEN and quota] or [pool.name]
    days = _phases(dice, 0, LENGTH, _WEEKDAY_LOW)
    while wanted > 0:
        size = dice.choice(_SWEEPS if pool.guarantee >= 24 else _SWEEPS[:2])
        begin = _moment(dice, dice.choice(days), _EVENING)
        name = f"{pool.name}-{dice.choice(_LOW_JOBS)}"
        author, leaf = _author(dice, pool), dice.choice(leaves)
        for number in range(dice.choice((1, 1, 2, 3))):
            job = MonthJob(
                begin + number * dice.randint(3, 40), leaf, author, name, Priority.LOW.value, size.gpus, size.workers,
                _runtime(dice, size.hours * 1.3, 1.2),
            )  # fmt: skip
            job = _with_end(dice, job)
            wanted -= job.all_gpus * (job.fails_after or job.runtime)
            yield job


def _phases(dice: random.Random, first: float, last: float, weekday: Sequence[int]) -> list[int]:
    """The days on which a team has work, by weight: phases of four to nine days, and a day or three between them."""
    days, day = [], int(first)
    while day < last:
        length = dice.randint(4, 9)
        days += [each for each in range(day, min(day + length, int(last + 0.999))) for _ in range(weekday[each % 7])]
        day += length + dice.randint(0, 3)
    return days


def _moment(dice: random.Random, day: int, hours: tuple[int, ...]) -> int:
    return day * DAY + dice.choices(range(24), weights=hours)[0] * HOUR + dice.randrange(HOUR)


def _runtime(dice: random.Random, hours: float, longest_days: float) -> int:
    """Whole minutes, mostly near the median, now and then three times as long."""
    minutes = hours * 60 * dice.lognormvariate(0, 0.75)
    return round(max(12, min(minutes, longest_days * 24 * 60))) * 60


def _author(dice: random.Random, pool: DemoPool) -> str:
    return f"{pool.name}-{dice.choice(('researcher', 'researcher', 'lead'))}"


def _with_end(dice: random.Random, job: MonthJob) -> MonthJob:
    """One in eight ends otherwise than planned."""
    job, chance = replace(job, queue_timeout=QUEUE_TIMEOUT), dice.random()
    if chance < 0.07:
        return replace(job, fails_after=max(60, round(job.runtime * dice.uniform(0.02, 0.9))))
    if chance < 0.105:
        return replace(job, cancelled_after=max(120, round(job.runtime * dice.uniform(0.05, 0.8))))
    if chance < 0.12:
        return replace(job, exec_timeout=max(600, round(job.runtime * dice.uniform(0.5, 0.9))))
    if chance < 0.14:
        return replace(job, queue_timeout=4 * HOUR)
    return job


def _numbered(jobs: list[MonthJob]) -> list[MonthJob]:
    """In the order of time, no two in one second, each with the number that a submission gives its name."""
    found: list[MonthJob] = []
    numbers: dict[str, int] = {}
    last = -1
    for job in jobs:
        last = max(job.submit, last + 1)
        if last >= LENGTH * DAY:
            break
        numbers[job.name] = numbers.get(job.name, 0) + 1
        found.append(replace(job, submit=last, name=f"{job.name}-{numbers[job.name]}"))
    return found
