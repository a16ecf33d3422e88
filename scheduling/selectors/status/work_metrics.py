"""Work in numbers for `/metrics`: what waits, how long started work waited, promised starts, decisions, background
jobs, fair shares.

Each function is one query, or one for each backend, however much work there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, Min, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from pools.domain import names
from pools.domain.people.notices import NoticeStatus
from pools.domain.values.amounts import Amount
from pools.models import Backend, Notice, NoticeProgress, NoticeTarget
from scheduling.domain.flavor_choices import TaskGpus
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.domain.timelines.wait_buckets import WAIT_BUCKETS
from scheduling.models import (
    DecisionCount,
    Group,
    LostCount,
    PromiseCount,
    ShownEffect,
    StartCount,
    StuckGroup,
    Task,
)
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.selectors.queue.pending_queue import WAITING_STATUSES
from scheduling.selectors.queue.pending_queue_cache import pending_queues
from scheduling.selectors.status.problems import PERIOD_SECONDS
from scheduling.selectors.status.promised_starts import WRONG_FOR, contradicted_promises, overdue_promises

SEVERAL = "several"
"""The label of work that may use more than one flavor."""

ENDED_OUTCOMES = [outcome for outcome in PromiseOutcome if outcome != PromiseOutcome.OPEN]


class Leaf(NamedTuple):
    """A leaf: its top-level pool and its short name (`_shared` for the remainder of the pool)."""

    pool: str
    name: str


@dataclass(frozen=True, slots=True)
class WaitingTotals:
    """The gangs of a leaf and priority that wait for GPUs; `since` is the time of the one that waits longest."""

    leaf: Leaf
    priority: str
    gangs: int
    gpus: int
    since: datetime
    flavor: str | None = None
    """In a pool with flavors: the only one that they may use, or :data:`SEVERAL`."""


@dataclass(frozen=True, slots=True)
class WaitHistogram:
    """How long started gangs of a leaf and priority had waited: `counts` by bucket of :data:`WAIT_BUCKETS`, the last
    one beyond them; `seconds` is the sum."""

    leaf: Leaf
    priority: str
    counts: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class JobRun:
    """A background job, the time between its runs, and the last one."""

    name: str
    every: timedelta
    last: datetime | None


def read_waiting_work() -> list[WaitingTotals]:
    """What waits for GPUs; gangs that wait for another group of their workflow do not count."""
    waiting = Group.objects.filter(status__in=WAITING_STATUSES, ready_at__isnull=False)
    rows = (
        waiting.filter(workflow__root_pool__flavors=[])
        .order_by()
        .values_list("workflow__root_pool__name", "workflow__pool__subpool_name", "workflow__priority")
        .annotate(Count("pk"), Sum("gpus"), Min("ready_at"))
    )
    return [
        WaitingTotals(_leaf(pool, part), priority, gangs, gpus, since)
        for pool, part, priority, gangs, gpus, since in rows
    ] + _read_by_flavor(waiting.exclude(workflow__root_pool__flavors=[]))


def _read_by_flavor(waiting: QuerySet[Group]) -> list[WaitingTotals]:
    groups = list(waiting.select_related("workflow__pool", "workflow__root_pool").defer("workflow__spec"))
    tasks = Task.objects.filter(group__in=groups, gpu_count__gt=0, status__in=WAITING_STATUSES).order_by("position")
    requests: dict[UUID, list[TaskGpus]] = defaultdict(list)
    for group_id, gpus, named, platform in tasks.values_list("group_id", "gpu_count", "gpu_flavors", "platform"):
        requests[group_id].append(TaskGpus(gpus, tuple(named), platform))
    roots = {each.workflow.root_pool_id: each.workflow.root_pool for each in groups}
    flavors = {pk: read_pool_flavors(root) for pk, root in roots.items()}
    found: dict[tuple[Leaf, str, str], list[Group]] = defaultdict(list)
    for each in groups:
        work = each.workflow
        may_use = {name for choice in flavors[work.root_pool_id].choices(requests[each.pk]) for name in choice}
        leaf = _leaf(work.root_pool.name, work.pool.subpool_name)
        found[leaf, work.priority, may_use.pop() if len(may_use) == 1 else SEVERAL].append(each)
    return [
        WaitingTotals(
            leaf, priority, len(gangs), sum(each.gpus for each in gangs),
            min(each.ready_at for each in gangs if each.ready_at is not None), flavor,
        )
        for (leaf, priority, flavor), gangs in found.items()
    ]  # fmt: skip


def read_wait_histograms() -> list[WaitHistogram]:
    """The waits of all gangs that ever started."""
    counts: dict[tuple[Leaf, str], list[int]] = defaultdict(lambda: [0] * (len(WAIT_BUCKETS) + 1))
    seconds: dict[tuple[Leaf, str], float] = defaultdict(float)
    rows = StartCount.objects.values_list(
        "pool__parent__name", "pool__name", "pool__subpool_name", "priority", "bucket", "count", "seconds"
    )
    for parent, pool, part, priority, bucket, count, waited in rows.order_by("pool__name", "priority"):
        key = _leaf(parent or pool, part), priority
        counts[key][bucket] = count
        seconds[key] += waited
    return [
        WaitHistogram(leaf, priority, tuple(counts[leaf, priority]), total)
        for (leaf, priority), total in seconds.items()
    ]


def read_decision_counts() -> list[tuple[Leaf, str, int, int]]:
    """Leaf, action, number of decisions, their GPUs."""
    return _read_counts(DecisionCount, "action", "gpus")


def read_lost_counts() -> list[tuple[Leaf, str, int, int]]:
    """Leaf, cause, number of attempts that something else ended, the GPU-milliseconds that they lost."""
    return _read_counts(LostCount, "cause", "gpu_ms")


def _read_counts(model: type[DecisionCount | LostCount], what: str, amount: str) -> list[tuple[Leaf, str, int, int]]:
    rows = model._default_manager.values_list(
        "pool__parent__name", "pool__name", "pool__subpool_name", what, "count", amount
    )
    return [
        (_leaf(parent or pool, part), name, count, total)
        for parent, pool, part, name, count, total in rows.order_by("pool__name", what)
    ]


def read_job_runs() -> list[JobRun]:
    """The background jobs that run by an interval."""
    rows = PeriodicTask.objects.filter(enabled=True, interval__isnull=False).select_related("interval")
    return [
        JobRun(row.name, PERIOD_SECONDS[row.interval.period] * row.interval.every, row.last_run_at)
        for row in rows.order_by("name")
    ]


def read_fair_shares() -> Iterator[tuple[str, Amount]]:
    """The fair share of each queue in GPUs, by its Kubernetes name, as the engine divides it now. The queues of a
    backend are left out while its first long queue is being built."""
    for backend in Backend.objects.order_by("name"):
        queue = pending_queues().get_available(backend, ())
        for name, share in queue.fair_shares.items():
            yield names.k8s_queue_name(name), share


class WaitFaults(NamedTuple):
    """Of a simulated backend: its stuck gangs, its promised starts that are over while the gang waits, those beside a
    forecast of never, and the numbers of those that have ended, by outcome, since the beginning; the previews that were
    compared within a day, by outcome."""

    backend: str
    stuck: int
    overdue: int
    contradicted: int
    ended: Mapping[str, int]
    previews: Mapping[str, int]


def read_wait_faults(now: datetime) -> list[WaitFaults]:
    """The faults of every simulated backend, also of one without any. One query."""
    counts = PromiseCount.objects.filter(backend_id=OuterRef("pk"))
    compared = ShownEffect.objects.filter(ended_at__gt=now - WRONG_FOR)
    backends = Backend.objects.filter(kind=Backend.Kind.SIMULATED).annotate(
        stuck=_number_of(StuckGroup.objects.all()),
        overdue=_number_of(overdue_promises(now)),
        contradicted=_number_of(contradicted_promises(now)),
        **{each: Coalesce(Subquery(counts.filter(outcome=each).values("count")), 0) for each in ENDED_OUTCOMES},
        **{f"preview_{each}": _number_of(compared.filter(outcome=each)) for each in ENDED_OUTCOMES},
    )
    previews = [f"preview_{each}" for each in ENDED_OUTCOMES]
    rows = backends.order_by("name").values("name", "stuck", "overdue", "contradicted", *ENDED_OUTCOMES, *previews)
    return [
        WaitFaults(
            row["name"],
            row["stuck"],
            row["overdue"],
            row["contradicted"],
            {each: row[each] for each in ENDED_OUTCOMES},
            {each: row[f"preview_{each}"] for each in ENDED_OUTCOMES},
        )
        for row in rows
    ]


def _number_of(rows: QuerySet[Any]) -> Coalesce:
    """The number of these rows that belong to the backend of the outer query."""
    counts = rows.filter(backend_id=OuterRef("pk")).order_by().values("backend_id").annotate(number=Count("*"))
    return Coalesce(Subquery(counts.values("number")), 0)


def _leaf(pool: str, part: str | None) -> Leaf:
    return Leaf(pool, part or names.SHARED_QUEUE)


class NoticeCounts(NamedTuple):
    """Notices that arrived or became dead letters and attempts that failed, since the beginning; those that wait to be
    sent now, without those that quiet hours keep back, and since when the oldest of them waits."""

    delivered: int
    dead: int
    failures: int
    waiting: int
    oldest: datetime | None


def read_notice_counts() -> NoticeCounts:
    """The numbers of notices. Three queries."""
    progress = NoticeProgress.objects.filter(pk=1).values_list("delivered", "dead", "failures").first() or (0, 0, 0)
    sent = Notice.objects.filter(status=NoticeStatus.WAITING, target__is_enabled=True)
    quiet = NoticeTarget.objects.quiet_at(timezone.now())
    waiting = sent.exclude(target__quiet_hours__in=quiet).aggregate(count=Count("pk"), oldest=Min("created_at"))
    return NoticeCounts(*progress, waiting["count"], waiting["oldest"])
