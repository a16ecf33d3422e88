"""The file of the month: what people submitted, and what the engine made of it, on each cluster of the demo.

Times are whole seconds since the Monday on which the month begins. `scripts/make-demo-month` writes the file,
and `read_month` reads it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

PATH: Final = Path(__file__).with_name("month.json.gz")
HOUR: Final = 3_600
DAY: Final = 24 * HOUR
SHORTEST, LENGTH = 31, 38
"""The month ends now. So that its weekdays are those of the calendar, it began on the Monday that is this number of
days ago, or up to a week more."""


def month_start(now: datetime) -> datetime:
    """The Monday, 0:00 UTC, on which the month begins that ends now."""
    latest = (now - timedelta(days=SHORTEST)).astimezone(UTC)
    return datetime.combine(latest.date() - timedelta(days=latest.weekday()), time(), UTC)


@dataclass(frozen=True, slots=True)
class MonthJob:
    """One workflow of one gang: `workers` tasks of `gpus` each. `runtime` is what its file promises. `fails_after` and
    `cancelled_after` are seconds of an attempt and since the submission, 0 if it does neither."""

    submit: int
    leaf: str
    user: str
    name: str
    priority: str
    gpus: int
    workers: int
    runtime: int
    fails_after: int = 0
    cancelled_after: int = 0
    exec_timeout: int = 0
    queue_timeout: int = 0

    @property
    def all_gpus(self) -> int:
        """The GPUs of the gang."""
        return self.gpus * self.workers

    @property
    def cpus(self) -> int:
        """The cores of a task."""
        return self.gpus * 8

    @property
    def memory(self) -> int:
        """The bytes of a task's memory."""
        return self.gpus * 64 * 2**30

    @property
    def storage(self) -> int:
        """The bytes of a task's disk."""
        return 100 * 2**30


class MonthEviction(NamedTuple):
    """What the receipt of an eviction says. `loser` and `taker` are the numbers of the two queues: quota, GPUs in use,
    fair share. `spared` has the job, its GPUs and why it stayed."""

    cause: str
    loser: Sequence[int | float | str | None]
    taker: Sequence[int | float | str | None]
    quota_at_start: int | None
    spared: Sequence[Sequence[Any]]
    has_more_spared: bool


class MonthStep(NamedTuple):
    """A decision about a gang: jobs by their position in the list. `nodes` are those of the tasks, after a start or a
    move; `tasks` are numbers of tasks, empty for all; `why` has the fields of a
    :class:`MonthEviction` where the step ends attempts."""

    time: int
    action: str
    job: int
    beneficiary: int
    nodes: Sequence[str]
    tasks: Sequence[int] = ()
    why: Sequence[Any] = ()


class MonthCause(NamedTuple):
    """From `time` on a gang waited for this cause."""

    time: int
    job: int
    cause: str


class MonthForecast(NamedTuple):
    """What was forecast at `time` of a waiting job: the quantiles of its wait from then on, in seconds, and the middle
    and the spread of their logarithms. `before`: the GPUs before it in its queue."""

    time: int
    job: int
    waits: Sequence[float]
    shape: Sequence[float]
    before: int


@dataclass(frozen=True, slots=True)
class ClusterMonth:
    """What happened on one cluster. `ends` has the end and the status of each job that ended."""

    jobs: list[MonthJob] = field(default_factory=list)
    steps: list[MonthStep] = field(default_factory=list)
    ends: dict[int, tuple[int, str]] = field(default_factory=dict)
    causes: list[MonthCause] = field(default_factory=list)
    forecasts: list[MonthForecast] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Month:
    """The clusters by name. `drained` has, by subpool, when the last work of one that was deleted ended."""

    clusters: Mapping[str, ClusterMonth]
    drained: Mapping[str, int]


def write_month(month: Month, path: Path = PATH) -> None:
    """Write the file; the same month is the same bytes."""
    body = {
        "drained": month.drained,
        "clusters": {
            name: {
                "jobs": [list(astuple(job)) for job in each.jobs],
                "steps": each.steps,
                "ends": [[job, *end] for job, end in sorted(each.ends.items())],
                "causes": each.causes,
                "forecasts": each.forecasts,
            }
            for name, each in month.clusters.items()
        },
    }
    text = json.dumps(body, separators=(",", ":")).replace("],[", "],\n[")
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.encode())


def read_month() -> Month:
    """Read the file."""
    body = json.loads(gzip.decompress(PATH.read_bytes()))
    clusters = {
        name: ClusterMonth(
            [MonthJob(*row) for row in each["jobs"]],
            [MonthStep(*row) for row in each["steps"]],
            {job: (end, status) for job, end, status in each["ends"]},
            [MonthCause(*row) for row in each["causes"]],
            [MonthForecast(*row) for row in each["forecasts"]],
        )
        for name, each in body["clusters"].items()
    }
    return Month(clusters, body["drained"])
