"""The states that somebody should look at: silent clusters, differing queues, refused calls, late jobs, quotas that no
node covers, GPU quota alerts, long drains, long waits, idle quota while work waits, stuck gangs, wrong previews, and
promised starts that did not come.

Each search is one query, however many pools and workflows there are, and names only what its reader may see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Count, Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from pools.database.statements import execute_sql
from pools.domain.numbers import gpu_quota_labels
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.quota.capacity import BackendCapacity
from pools.domain.shortage.degraded import DegradedCluster, degraded_message, shares_message
from pools.domain.values.amounts import gpu_words
from pools.domain.values.counting import counted
from pools.domain.values.durations import span_text
from pools.models import Backend, GpuQuota, Pool
from pools.permissions import namespaces_for
from pools.selectors.quotas.backend_capacity import oversubscription_warning
from pools.selectors.quotas.degraded import visible_promises
from scheduling.domain.cluster.heartbeat import HEARTBEAT_LIFETIME, HEARTBEAT_OVERDUE
from scheduling.models import QueueSync, StuckGroup, SuspectNode, Workflow
from scheduling.selectors.queue.waiting_pools import IdlePool, WaitingPool, sum_parts
from scheduling.selectors.status.promised_starts import (
    faulty_promises,
    is_overdue,
    overdue_message,
    stuck_message,
    wrong_effect_message,
    wrong_effects,
)
from scheduling.selectors.work.drains import read_late_drains

LATE_FACTOR = 3
LATE_GRACE = timedelta(minutes=1)
"""A background job is late after three of its intervals and a minute, which a restart may take: the alert OsmoJobLate
says the same."""
WAIT_SAMPLES = 300
MIN_WAIT_SAMPLES = 20
MAX_POOLS_COMPARED = 50
MAX_SHOWN = 20
MAX_NAMED = 3
PERIOD_SECONDS = {
    IntervalSchedule.DAYS: timedelta(days=1),
    IntervalSchedule.HOURS: timedelta(hours=1),
    IntervalSchedule.MINUTES: timedelta(minutes=1),
    IntervalSchedule.SECONDS: timedelta(seconds=1),
    IntervalSchedule.MICROSECONDS: timedelta(microseconds=1),
}


class ProblemCode(StrEnum):
    """The kinds of problems."""

    SILENT_CLUSTER = "silent_cluster"
    OFFLINE = "offline"
    QUEUE_SYNC = "queue_sync"
    REFUSED_CALL = "refused_call"
    LATE_JOB = "late_job"
    OVERSUBSCRIBED = "oversubscribed"
    DEGRADED = "degraded"
    SUSPECT_NODE = "suspect_node"
    GPU_QUOTA = "gpu_quota"
    LONG_DRAIN = "long_drain"
    OVERDUE_DRAIN = "overdue_drain"
    LONG_WAIT = "long_wait"
    IDLE_QUOTA = "idle_quota"
    STUCK_GANG = "stuck_gang"
    OVERDUE_START = "overdue_start"
    CONTRADICTED_START = "contradicted_start"
    WRONG_PREVIEW = "wrong_preview"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `subject` is an object as in the audit log: `backend/sim`, `pool/team--a`, `workflow/hello-1`,
    `gpu_quota/team-a`, `job/NAME`. `is_urgent`: work or its limits suffer now. `numbers` are GPUs, seconds or counts,
    as their names say."""

    code: ProblemCode
    subject: str
    message: str
    is_urgent: bool
    since: datetime | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


def cluster_problems(actor: Actor) -> Iterator[Problem]:
    """Clusters that do not answer or are offline, queues that differ from their desired state, and what a cluster that
    answers refuses. The cluster's own words are for platform readers. One query."""
    rows = (
        Backend.objects.filter(pk__in=Pool.objects.visible_to(actor).roots().filter(archived=False).values("backend"))
        if not actor.can_read_all
        else Backend.objects.all()
    )
    found = rows.annotate(
        heard_at=F("cluster_state__heartbeat_at"),
        is_heard=Q(cluster_state__heartbeat_at__gte=Now() - HEARTBEAT_LIFETIME),
        answers=Q(cluster_state__heartbeat_at__gte=Now() - HEARTBEAT_OVERDUE),
        is_connected=Q(kubernetes__isnull=False),
        has_pools=Exists(Pool.objects.roots().filter(archived=False, backend=OuterRef("pk"))),
        synced=F("queue_sync__synced"),
        sync_message=F("queue_sync__message"),
        sync_since=F("queue_sync__since"),
        fault=F("cluster_state__error"),
        drift=Count("queue_drift", filter=Q(queue_drift__reapplied_at=None), distinct=True),
    ).order_by("name")
    for row in found:
        yield from _problems_of_backend(row, reads_platform=is_allowed(actor, Permission.PLATFORM_READ))


def _problems_of_backend(row: Backend, *, reads_platform: bool) -> Iterator[Problem]:
    subject, heard_at = f"backend/{row.name}", getattr(row, "heard_at", None)
    is_out_of_sync = getattr(row, "synced", None) == QueueSync.Synced.FALSE
    since = getattr(row, "sync_since", None)
    fault: str = getattr(row, "fault", None) or ""
    sync_message: str = getattr(row, "sync_message", None) or ""
    told, cause = (fault, sync_message) if reads_platform else ("", "")
    is_silent = False
    if row.desired_offline:
        message = f"Cluster {row.name} was set offline: its pools accept work, and nothing starts."
        yield Problem(ProblemCode.OFFLINE, subject, message, is_urgent=False)
    elif row.kind == Backend.Kind.KUBERNETES and getattr(row, "is_connected", False):
        is_silent = row.offline or not getattr(row, "is_heard", False)
    if is_silent:
        # The same failure keeps the queues out of sync, so its cause is named once.
        is_judged = row.offline or heard_at is not None
        message = _silence_message(row, cause if is_out_of_sync else told, never=heard_at is None, is_judged=is_judged)
        since = heard_at or (since if is_out_of_sync else None)
        yield Problem(ProblemCode.SILENT_CLUSTER, subject, message, is_urgent=is_judged, since=since)
    drift: int = getattr(row, "drift", 0)
    if drift:
        fields = "1 field" if drift == 1 else f"{drift} fields"
        message = f"{fields} of the queues of cluster {row.name} differ: another client changed them."
        yield Problem(ProblemCode.QUEUE_SYNC, subject, message, is_urgent=True, numbers={"fields": drift})
    elif is_out_of_sync and not is_silent:
        message = f"The queues of cluster {row.name} are not in sync{f': {cause}' if cause else '.'}"
        yield Problem(ProblemCode.QUEUE_SYNC, subject, message, is_urgent=True, since=since)
    if fault and not is_silent and getattr(row, "answers", False) and not (is_out_of_sync and fault in sync_message):
        message = f"Cluster {row.name}: {told}" if told else f"Cluster {row.name} refuses a call that OSMO Admin needs."
        yield Problem(ProblemCode.REFUSED_CALL, subject, message, is_urgent=True)


def _silence_message(row: Backend, cause: str, *, never: bool, is_judged: bool) -> str:
    """The state of the cluster and what it means, and the cause where it is known: the cause says what is silent."""
    has_pools = getattr(row, "has_pools", False)
    if not is_judged and not cause:
        return f"Cluster {row.name} has never answered so far, and is not judged yet."
    if cause:
        effect = f"The pools of cluster {row.name} are offline and nothing starts there."
        return f"{effect if is_judged and has_pools else f'Cluster {row.name} cannot be used yet.'} {cause}"
    state = f"Cluster {row.name} {'has never answered' if never else 'does not answer'}"
    return f"{state}, so its pools are offline and nothing starts there." if has_pools else f"{state}. It has no pools."


def suspect_nodes(actor: Actor) -> Iterator[Problem]:
    """Nodes on which different work failed within minutes; for platform readers, who see all work. One query."""
    if not is_allowed(actor, Permission.PLATFORM_READ):
        return
    rows = SuspectNode.objects.open().order_by("node__backend__name", "node__name")
    for backend, node, failures, since in rows.values_list("node__backend__name", "node__name", "failures", "since")[
        :MAX_SHOWN
    ]:
        message = f"Node {node} of cluster {backend} is suspect: {suspect_message(failures)}."
        numbers = {"failures": failures}
        yield Problem(ProblemCode.SUSPECT_NODE, f"node/{backend}/{node}", message, True, since, numbers)


def suspect_message(failures: int) -> str:
    """Why a node is suspect, without a full stop."""
    return f"{failures} different workflows failed there within minutes"


def oversubscribed_backends(
    actor: Actor, capacities: Mapping[int, BackendCapacity], degraded: Mapping[int, DegradedCluster]
) -> Iterator[Problem]:
    """Backends with more quota than GPUs: those whose nodes are too few or too small, and those that have lost GPUs.
    One query for each degraded backend, none for platform readers."""
    for pk, each in capacities.items():
        subject, found = f"backend/{each.backend}", degraded.get(pk)
        seen = None if found is None else visible_promises(actor, found)
        short = () if found is None else found.short_of(seen)
        if each.is_oversubscribed:
            message = f"{shares_message(short)} {oversubscription_warning(actor, each)}".lstrip()
            numbers = {"quota": each.quota, "gpus": each.gpus or 0} if actor.can_read_all else {}
            yield Problem(ProblemCode.OVERSUBSCRIBED, subject, message, is_urgent=False, numbers=numbers)
        elif found is not None and short:
            numbers = {"quota": found.quota, "usable": found.usable} if actor.can_read_all else {}
            numbers |= {"missing": sum(pool.missing for pool in short)}
            yield Problem(ProblemCode.DEGRADED, subject, degraded_message(found, seen), is_urgent=True, numbers=numbers)


def gpu_quota_alerts(actor: Actor) -> Iterator[Problem]:
    """GPU quotas that are exceeded or in alert. Two queries, one for platform readers."""
    namespaces = namespaces_for(actor)
    rows = GpuQuota.objects.exclude(alerting=[], conditions=[])
    if namespaces is not None:
        rows = rows.filter(namespace__in=namespaces)
    found = rows.order_by("namespace").values_list("namespace", "alerting", "alert_since", "conditions")
    for namespace, alerting, since, conditions in found:
        exceeded = next((each for each in conditions if each["type"] == "Exceeded" and each["status"] == "True"), None)
        if exceeded is not None:
            message = f"Namespace {namespace} uses more than its GPU quota."
        elif alerting:
            message = f"Namespace {namespace} is near its GPU quota: {', '.join(gpu_quota_labels(alerting))}."
        else:
            continue
        yield Problem(
            ProblemCode.GPU_QUOTA, f"gpu_quota/{namespace}", message, is_urgent=exceeded is not None, since=since
        )


def long_drains(actor: Actor, now: datetime) -> Iterator[Problem]:
    """Subpools that drain beyond their deadline, or for more than a day. One query, two where a pool names flavors."""
    for each in read_late_drains(actor, now, MAX_SHOWN):
        code, since, drains = ProblemCode.LONG_DRAIN, each.began, "drains for more than a day"
        if each.deadline is not None and each.deadline < now:
            code, since, drains = ProblemCode.OVERDUE_DRAIN, each.deadline, "drains beyond its deadline"
        work = "1 active workflow holds" if each.workflows == 1 else f"{each.workflows} active workflows hold"
        message = f"Subpool {each.name} {drains}: {work} {each.gpus_text}."
        numbers = {"workflows": each.workflows, "gpus": each.gpus}
        yield Problem(code, f"pool/{each.name}", message, False, since, numbers)


def late_jobs(actor: Actor, now: datetime) -> Iterator[Problem]:
    """Background jobs that did not run for several of their intervals; for platform readers. One query."""
    if not is_allowed(actor, Permission.PLATFORM_READ):
        return
    rows = PeriodicTask.objects.filter(enabled=True, interval__isnull=False).select_related("interval")
    for row in rows.order_by("name"):
        every = PERIOD_SECONDS[row.interval.period] * row.interval.every
        if row.last_run_at is not None and now - row.last_run_at > LATE_FACTOR * every + LATE_GRACE:
            message = (
                f"Background job “{row.name}” is late: it should run every {row.interval.every} {row.interval.period}."
            )
            yield Problem(ProblemCode.LATE_JOB, f"job/{row.name}", message, is_urgent=True, since=row.last_run_at)


# The waits of the newest submissions of a pool, so that the cost does not grow with its history.
_USUAL_WAITS = f"""
    SELECT root.id, waits.p90
    FROM unnest(%s::bigint[]) AS root (id) CROSS JOIN LATERAL (
        SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY extract(epoch FROM newest.start_time - newest.submit_time))
            AS p90, count(*) AS samples
        FROM (
            SELECT start_time, submit_time FROM scheduling_workflow
            WHERE root_pool_id = root.id AND submit_time > %s ORDER BY submit_time DESC LIMIT {WAIT_SAMPLES * 4}
        ) newest WHERE newest.start_time IS NOT NULL
    ) waits WHERE waits.samples >= {MIN_WAIT_SAMPLES}
"""
USUAL_WAIT_WINDOW = timedelta(days=30)
MIN_LONG_WAIT = timedelta(minutes=1)


def read_usual_waits(pool_ids: Sequence[int], now: datetime) -> dict[int, float]:
    """Seconds within which nine of ten workflows of each of these top-level pools started; a pool with few of them is
    missing. One query, however long their history is."""
    return dict(execute_sql(_USUAL_WAITS, [list(pool_ids), now - USUAL_WAIT_WINDOW]).fetchall())


def long_waits(waiting: Sequence[WaitingPool], now: datetime) -> Iterator[Problem]:
    """Pools in which a gang waits longer than nine of ten waited. One query, none if nothing waits."""
    oldest = sorted(waiting, key=lambda each: each.since)[:MAX_POOLS_COMPARED]
    if not oldest:
        return
    usual = read_usual_waits([each.pool_id for each in oldest], now)
    for each in oldest:
        waited, p90 = now - each.since, usual.get(each.pool_id)
        if p90 is None or waited < MIN_LONG_WAIT or waited.total_seconds() <= p90:
            continue
        message = (
            f"In pool {each.pool} work waits longer than usual: nine of ten workflows started within {span_text(p90)}."
        )
        numbers = {"waited_seconds": int(waited.total_seconds()), "p90_seconds": int(p90), "gangs": each.gangs}
        yield Problem(ProblemCode.LONG_WAIT, f"pool/{each.pool}", message, False, each.since, numbers)


def idle_quota(waiting: Sequence[WaitingPool], idle: Sequence[IdlePool]) -> Iterator[Problem]:
    """Clusters with idle quota on which other work waits. No query."""
    pools: dict[str, list[IdlePool]] = {}
    for pool in idle:
        pools.setdefault(pool.backend, []).append(pool)
    for backend, found in pools.items():
        there = [each for each in waiting if each.backend == backend]
        gpus, parts = sum(each.gpus for each in there), sum_parts(there)
        needed = [counted(number, *gpu_words(flavor, parts)) for flavor, number in parts.items()]
        if gpus or not parts:
            needed.insert(0, counted(gpus, "GPU"))
        listed = ", ".join(_idle_text(each) for each in found[:MAX_NAMED])
        message = f"On cluster {backend} quota is idle ({listed}), while work that needs {' and '.join(needed)} waits."
        numbers = {"idle": sum(each.idle for each in found), "waiting": gpus}
        yield Problem(ProblemCode.IDLE_QUOTA, f"backend/{backend}", message, False, None, numbers)


def _idle_text(pool: IdlePool) -> str:
    whole = [f"{pool.idle} of {pool.quota}"] if pool.quota else []
    parts = [counted(gpus, *gpu_words(flavor, pool.idle_parts)) for flavor, gpus in pool.idle_parts.items()]
    return f"{pool.pool} {' and '.join(whole + parts)}"


def stuck_gangs(actor: Actor) -> Iterator[Problem]:
    """Gangs that wait although nothing may stop them. One query."""
    rows = StuckGroup.objects.filter(_is_visible(actor)).order_by("since", "gang")
    for gang, kind, since, work, backend in rows.values_list(
        "gang", "kind", "since", "group__workflow__name", "backend__name"
    )[:MAX_SHOWN]:
        message = stuck_message(gang, backend, kind)
        yield Problem(ProblemCode.STUCK_GANG, f"workflow/{work}", message, is_urgent=True, since=since)


def promised_starts(actor: Actor, now: datetime) -> Iterator[Problem]:
    """Certain latest starts that are over while the gang still waits, and those of gangs with a forecast of no start at
    all: one of the two is wrong. One query."""
    rows = faulty_promises(now).filter(_is_visible(actor)).select_related("group__workflow")
    rows = rows.only("gang", "latest_start", "group__workflow__name").order_by("latest_start", "gang")
    for promise in rows[:MAX_SHOWN]:
        subject = f"workflow/{promise.group.workflow.name}"
        late = int((now - promise.latest_start).total_seconds())
        if is_overdue(promise, now):
            yield Problem(
                ProblemCode.OVERDUE_START,
                subject,
                overdue_message(promise),
                is_urgent=True,
                since=promise.latest_start,
                numbers={"late_seconds": late},
            )
        else:
            message = (
                f"{promise.gang} is promised to start by {promise.latest_start:%Y-%m-%d %H:%M} UTC, and its forecast "
                f"says: {getattr(promise, 'never', '')}"
            )
            yield Problem(ProblemCode.CONTRADICTED_START, subject, message, is_urgent=False)


def wrong_previews(actor: Actor, now: datetime) -> Iterator[Problem]:
    """Previews of the last day after which something else happened; for readers of the whole installation, and for who
    confirmed the change. One query."""
    rows = wrong_effects(now) if actor.can_read_all else wrong_effects(now).filter(user_id=actor.user_id)
    for row in rows.order_by("ended_at", "pk")[:MAX_SHOWN]:
        yield Problem(
            ProblemCode.WRONG_PREVIEW,
            f"backend/{row.backend_name}",
            wrong_effect_message(row, row.backend_name),
            is_urgent=False,
            since=row.ended_at,
            numbers={
                "lost_shown": len(row.lost),
                "lost": len(row.found_lost),
                "started_shown": len(row.started),
                "started": len(row.found_started),
            },
        )


def _is_visible(actor: Actor) -> Q:
    """Of a row with a `group`: whether the reader may know its workflow."""
    return Q() if actor.can_read_all else Q(group__workflow__in=Workflow.objects.visible_to(actor))
