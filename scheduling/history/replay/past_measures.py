"""The difference of two replays of one history, for each queue and each person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypedDict

from scheduling.history.replay.history_clock import Past, PastJob
from scheduling.history.replay.jobs import SECOND
from scheduling.history.replay.measures import HOUR, Summary, quantile

NOTICED = 60 * SECOND
"""A person notices a wait that changes by this much."""


def summarize(past: Past, jobs: Iterable[PastJob]) -> Summary:
    """The numbers of these jobs. A wait counts up to the end of the window where no start ended it."""
    chosen = list(jobs)
    waits = sorted(wait / SECOND for job in chosen if (wait := job.wait_of(past.until)) is not None)
    used = sum(job.used * job.job.gpus for job in chosen)
    return {
        "jobs": len(chosen),
        "starts": sum(job.starts for job in chosen),
        "reclaims": sum(job.reclaims for job in chosen),
        "preemptions": sum(job.preemptions for job in chosen),
        "wait_mean_s": sum(waits) / len(waits) if waits else None,
        "wait_p50_s": quantile(waits, 0.5),
        "wait_p90_s": quantile(waits, 0.9),
        "waiting_gpu_h": sum(job.waited * job.job.gpus for job in chosen) / HOUR,
        "lost_gpu_h": sum(job.lost * job.job.gpus for job in chosen) / HOUR,
        "used_gpu_h": used / HOUR,
        "utilisation": used / past.capacity if past.capacity else None,
    }


def summarize_queues(past: Past, queues: Collection[str]) -> dict[str, Summary]:
    """The numbers of each of these queues."""
    by_queue: dict[str, list[PastJob]] = defaultdict(list)
    for job in past.jobs.values():
        by_queue[job.job.queue].append(job)
    return {queue: summarize(past, by_queue[queue]) for queue in sorted(queues)}


@dataclass(slots=True)
class _Person:
    waits_before: int = 0
    waits_after: int = 0
    lost_before: int = 0
    lost_after: int = 0
    jobs: int = 0


class PersonAnswer(TypedDict):
    """How much longer the work of a person in a queue waits, and how much more often it loses its GPUs."""

    user: str
    queue: str
    workloads: int
    wait_s: float
    preemptions: int


def affected_people(before: Past, after: Past, queues: Collection[str]) -> list[PersonAnswer]:
    """The people whose work in these queues waits noticeably longer or shorter, or loses its GPUs more or less often;
    those with the largest change of waits first."""
    people: dict[tuple[str, str], _Person] = defaultdict(_Person)
    for name, was in before.jobs.items():
        would, job = after.jobs[name], was.job
        if job.queue not in queues:
            continue
        person = people[job.user, job.queue]
        waited, waits = was.wait_of(before.until) or 0, would.wait_of(after.until) or 0
        lost, loses = was.reclaims + was.preemptions, would.reclaims + would.preemptions
        person.waits_before += waited
        person.waits_after += waits
        person.lost_before += lost
        person.lost_after += loses
        person.jobs += abs(waits - waited) >= NOTICED or lost != loses
    found: list[PersonAnswer] = [
        {
            "user": user,
            "queue": queue,
            "workloads": each.jobs,
            "wait_s": (each.waits_after - each.waits_before) / SECOND,
            "preemptions": each.lost_after - each.lost_before,
        }
        for (user, queue), each in people.items()
        if each.jobs
    ]
    return sorted(found, key=lambda row: (-abs(row["wait_s"]), row["user"], row["queue"]))
