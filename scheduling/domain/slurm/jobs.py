"""Numbers and states of jobs as `sacct` writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from scheduling.domain.slurm.times import BadSlurmValue

_ID: Final = re.compile(r"(\d{1,10})(?:_(\d{1,9})|_\[([^\]]{1,8000})\]?|\+(\d{1,9}))?", re.ASCII)
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_PLACES: Final = 2**32
_FIRST_COMPONENT: Final = 2**31


@dataclass(frozen=True, slots=True)
class SlurmJobId:
    """`key` is the same number for all records of one job, and differs between jobs. `tasks` is the number of jobs that
    the row stands for: waiting tasks of an array share one row."""

    key: int
    tasks: int = 1


class JobFate(StrEnum):
    """What a state says about a record. STOPPED: the cluster took the place away, so the job may go on in a next
    record; ENDED: it ended by itself or by a person; OPEN: it waits or runs."""

    ENDED = "ended"
    STOPPED = "stopped"
    OPEN = "open"


_STATES: Final = {
    JobFate.ENDED: (
        "COMPLETED CD FAILED F CANCELLED CANCELED CA TIMEOUT TO OUT_OF_MEMORY OOM DEADLINE DL "
        "REVOKED RV EXPEDITING RECONFIG_FAIL"
    ),
    JobFate.STOPPED: "PREEMPTED PR NODE_FAIL NF BOOT_FAIL BF REQUEUED RQ LAUNCH_FAILED",
    JobFate.OPEN: (
        "PENDING PD RUNNING R SUSPENDED S COMPLETING CG CONFIGURING CF RESIZING RS REQUEUE_HOLD RH REQUEUE_FED RF "
        "RESV_DEL_HOLD RD SPECIAL_EXIT SE SIGNALING SI STAGE_OUT SO STOPPED ST UPDATE_DB UD POWER_UP_NODE PU"
    ),
}
_FATES: Final = {word: fate for fate, words in _STATES.items() for word in words.split()}


def is_preempted(state: str) -> bool:
    """Whether a record ended because other work took its place."""
    return state.strip().upper().startswith("PR")  # PREEMPTED, or PR


def is_step(text: str) -> bool:
    """Whether the number is that of a step: `100.batch`, `100_3.0`."""
    return "." in text


def read_job_id(text: str) -> SlurmJobId:
    """The job of `100`, of a task `100_9`, of waiting tasks `100_[9-11,13%2]` or of a component `100+1`. Raises
    BadSlurmValue."""
    match = _ID.fullmatch(text.strip())
    if match is None or int(match[1]) >= _PLACES:
        raise BadSlurmValue("is not a job such as 100, 100_9 or 100_[9-11,13]")
    number, task, tasks, component = match.groups()
    place = 0
    if task is not None:
        place = 1 + int(task)
    elif component is not None:
        place = _FIRST_COMPONENT + int(component)
    return SlurmJobId(int(number) * _PLACES + place, 1 if tasks is None else _count(tasks))


def _count(tasks: str) -> int:
    """The number of tasks of `9-11,13,16-20%4`; a list that Slurm has cut (`...`) counts as far as it goes."""
    found = 0
    for part in tasks.partition("%")[0].split(","):
        if part.strip().startswith("..."):
            continue
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise BadSlurmValue("is not an array of tasks such as 100_[9-11,13]")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            raise BadSlurmValue("is an array of tasks that runs backwards")
        found += (last - first) // step + 1
    return max(1, found)


@lru_cache(maxsize=4096)
def read_state(text: str) -> JobFate:
    """What a state of any spelling says: `COMPLETED`, `CANCELLED by 1000`, `CANCELLED+`, `CA`, `NODE_FAIL`. Raises
    BadSlurmValue."""
    words = text.replace("+", " ").replace(",", " ").upper().split()
    fate = _FATES.get(words[0]) if words else None
    if fate is None:
        raise BadSlurmValue("is not a state of Slurm, such as COMPLETED or CANCELLED by 1000")
    return fate
