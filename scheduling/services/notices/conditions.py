"""Finds the states that no change announces: silent clusters, quotas that a cluster cannot give now and drains beyond
their deadline, which are news for the inbox, and, where somebody chose to get notices of them, late background jobs,
work that waits longer than usual and quotas that are nearly used. The beginning of each is an entry of the audit trail,
from which the notices are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change, one_snapshot
from pools.domain.configuration.flavors import parts_among
from pools.domain.people.notices import NoticeKind
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.shortage.degraded import DegradedCluster
from pools.domain.structured_input.faults import join_words
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import gpu_words
from pools.models import FlavorUsage, LeafUsage, NoticeCondition, NoticeTarget, Pool, User
from pools.selectors.quotas.degraded import read_degraded
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group
from scheduling.selectors.queue.waiting_pools import read_waiting_pools
from scheduling.selectors.status.problems import (
    MIN_LONG_WAIT,
    ProblemCode,
    cluster_problems,
    late_jobs,
    long_drains,
    long_waits,
    read_usual_waits,
    suspect_nodes,
)

NEARLY_USED, NO_LONGER = 90, 80
"""Percent of a quota in use at which the condition begins, and below which it ends, so that it does not alternate."""
ALWAYS_SEARCHED = frozenset({NoticeKind.CLUSTER_SILENT, NoticeKind.DEGRADED, NoticeKind.DRAIN})
"""Rare, and somebody has to act. The others would fill the inbox of a busy installation, so people choose them."""
MAX_WAITING = 500
"""Workflows of people that one round compares, those that wait longest."""


@dataclass(frozen=True, slots=True)
class _Found:
    kind: NoticeKind
    subject: str
    message: str
    pool_id: int | None = None
    owner_id: int | None = None


def find_conditions() -> int:
    """Write the conditions that have begun and remove those that have ended; returns the number of those that began.
    Other kinds than `ALWAYS_SEARCHED` are searched only where somebody has chosen them."""
    kinds = ALWAYS_SEARCHED | _chosen_kinds()
    with one_snapshot():
        known = {(row.kind, row.subject): row.pk for row in NoticeCondition.objects.all()}
        found, unknown = _find(kinds, known, timezone.now())
    ended = [pk for key, pk in known.items() if key not in found and key[0] not in unknown]
    began = [each for key, each in found.items() if key not in known]
    if not ended and not began:
        return 0
    with change(actor=SYSTEM):
        NoticeCondition.objects.filter(pk__in=ended).delete()
        rows = [
            NoticeCondition(
                kind=each.kind, subject=each.subject, message=each.message, pool_id=each.pool_id,
                owner_id=each.owner_id,
            )
            for each in began
        ]  # fmt: skip
        NoticeCondition.objects.bulk_create(rows, ignore_conflicts=True)
    return len(began)


def _chosen_kinds() -> set[str]:
    chosen = {
        kind for kinds in NoticeTarget.objects.filter(is_enabled=True).values_list("kinds", flat=True) for kind in kinds
    }
    has_switch = Q(email_notification=True) | Q(slack_notification=True)
    if NoticeKind.LONG_WAIT not in chosen and User.objects.filter(has_switch, is_active=True).exists():
        chosen.add(NoticeKind.LONG_WAIT)
    return chosen


def _find(
    kinds: Collection[str], known: Collection[tuple[str, str]], now: datetime
) -> tuple[dict[tuple[str, str], _Found], set[str]]:
    """The conditions that hold by kind and subject, and the kinds that could not be searched, whose conditions stay."""
    nearly = {subject for kind, subject in known if kind == NoticeKind.QUOTA_NEARLY_USED}
    searches: list[tuple[NoticeKind, Callable[[], Iterator[_Found]]]] = [
        (NoticeKind.JOB_LATE, lambda: _late_jobs(now)),
        (NoticeKind.CLUSTER_SILENT, lambda: _silent_clusters(now)),
        (NoticeKind.DRAIN, lambda: _overdue_drains(now)),
        (NoticeKind.QUOTA_NEARLY_USED, lambda: _nearly_used(nearly)),
        (NoticeKind.DEGRADED, _degraded_pools),
        (NoticeKind.NODE_SUSPECT, _suspect_nodes),
        (NoticeKind.LONG_WAIT, lambda: _long_waits_of_pools(now)),
        (NoticeKind.LONG_WAIT, lambda: _long_waits_of_people(now)),
    ]
    found: dict[tuple[str, str], _Found] = {}
    unsearched = Counter(kind for kind, _ in searches if kind in kinds)
    for kind, search in searches:
        if kind in kinds:
            with left_out_on_error("the search for a condition of notices", kind), transaction.atomic():
                found |= {(each.kind, each.subject): each for each in search()}
                unsearched[kind] -= 1
    return found, {str(kind) for kind, count in unsearched.items() if count}


def _late_jobs(now: datetime) -> Iterator[_Found]:
    for job in late_jobs(SYSTEM, now):
        yield _Found(NoticeKind.JOB_LATE, job.subject, job.message)


def _silent_clusters(now: datetime) -> Iterator[_Found]:
    for cluster in cluster_problems(SYSTEM):
        if cluster.code == ProblemCode.SILENT_CLUSTER and cluster.is_urgent:  # others are only not judged yet
            yield _Found(NoticeKind.CLUSTER_SILENT, cluster.subject, cluster.message)


def _overdue_drains(now: datetime) -> Iterator[_Found]:
    """Subpools whose drain has passed its deadline. Two queries."""
    found = {
        problem.subject.partition("/")[2]: problem
        for problem in long_drains(SYSTEM, now)
        if problem.code == ProblemCode.OVERDUE_DRAIN
    }
    for name, root in Pool.objects.filter(name__in=found).values_list("name", "parent_id"):
        yield _Found(NoticeKind.DRAIN, found[name].subject, found[name].message, pool_id=root)


def _degraded_pools() -> Iterator[_Found]:
    """Pools whose cluster has too few GPUs for their quota. Four queries."""
    short: dict[str, tuple[DegradedCluster, list[str]]] = {}
    for found in read_degraded().values():
        for each in found.short_of():
            short.setdefault(each.pool, (found, []))[1].append(each.text)
    for name, root in Pool.objects.roots().filter(name__in=short).order_by("name").values_list("name", "pk"):
        found, parts = short[name]
        can = f"pool {name} can have {join_words(parts)}"
        message = f"Cluster {found.backend} has fewer usable GPUs than the quotas of its pools: {can}."
        yield _Found(NoticeKind.DEGRADED, f"pool/{name}", message, pool_id=root)


def _suspect_nodes() -> Iterator[_Found]:
    for node in suspect_nodes(SYSTEM):
        yield _Found(NoticeKind.NODE_SUSPECT, node.subject, node.message)


def _nearly_used(known: Collection[str]) -> Iterator[_Found]:
    """Subpools and pools whose guaranteed quota is nearly used, with flavors that of one of them: the notice names the
    fullest. Three queries."""
    leaves = Pool.objects.filter(
        subpool_state=SubpoolState.ACTIVE, last_quota__gt=0, usage__used__gt=0, parent__archived=False
    ).values_list("name", "parent_id", "last_quota", "usage__used")
    sums = dict(
        LeafUsage.objects.filter(used__gt=0)
        .order_by()
        .annotate(root=Coalesce("pool__parent_id", "pool_id"))
        .values_list("root")
        .annotate(total=Sum("used"))
    )
    roots = Pool.objects.roots().filter(pk__in=sums, archived=False, guarantee__gt=0)
    whole = [(name, pk, quota, sums[pk]) for name, pk, quota in roots.values_list("name", "pk", "guarantee")]
    kinds = _used_by_flavor()
    for name, root, *of_all in sorted([*leaves, *whole]):
        subject = f"pool/{name}"
        quota, used, kind = kinds.get(name, (*of_all, "GPUs"))
        if quota and used * 100 >= quota * (NO_LONGER if subject in known else NEARLY_USED):
            message = f"The quota of {name} is nearly used: {used} of {quota} {kind}."
            yield _Found(NoticeKind.QUOTA_NEARLY_USED, subject, message, pool_id=root)


def _used_by_flavor() -> dict[str, tuple[int, int, str]]:
    """By the name of each pool and subpool with flavors: quota, use and the GPUs of its fullest flavor, in words."""
    rows = FlavorUsage.objects.filter(used__gt=0).values_list(
        "pool__parent__name", "pool__name", "flavor", "used", "pool__parent__flavors", "pool__flavors",
        "pool__parent__backend__flavors", "pool__backend__flavors",
    )  # fmt: skip
    used: Counter[tuple[str, str]] = Counter()
    quotas: dict[str, Mapping[str, int]] = {}
    words: dict[tuple[str, str], str] = {}
    for parent, name, flavor, gpus, above, own, *kinds in rows:
        root = parent or name
        words[root, flavor] = words[name, flavor] = gpu_words(flavor, parts_among(kinds[not parent] or ()))[1]
        used[root, flavor] += gpus
        quotas[root] = gpus_by_flavor(above if parent else own)
        if parent:
            used[name, flavor] += gpus
            quotas[name] = gpus_by_flavor(own)
    found: dict[str, tuple[int, int, str]] = {}
    for (name, flavor), gpus in sorted(used.items()):
        quota = quotas[name].get(flavor, 0)
        if quota and (name not in found or gpus * found[name][0] > found[name][1] * quota):
            found[name] = quota, gpus, words[name, flavor]
    return found


def _long_waits_of_pools(now: datetime) -> Iterator[_Found]:
    waiting = read_waiting_pools(SYSTEM, {})
    ids = {each.pool: each.pool_id for each in waiting}
    for problem in long_waits(waiting, now):
        pool = problem.subject.partition("/")[2]
        yield _Found(NoticeKind.LONG_WAIT, problem.subject, problem.message, pool_id=ids[pool])


def _long_waits_of_people(now: datetime) -> Iterator[_Found]:
    """Workflows of people who chose to get notices. Two queries."""
    chosen = NoticeTarget.objects.filter(is_enabled=True, is_profile=False, kinds__contains=[NoticeKind.LONG_WAIT])
    people = User.objects.filter(
        Q(email_notification=True) | Q(slack_notification=True) | Q(pk__in=chosen.values("user_id")), is_active=True
    )
    rows = (
        Group.objects.filter(status=TaskStatus.SCHEDULING, workflow__submitted_by__in=people)
        .annotate(waits_since=Coalesce("ready_at", "workflow__submit_time"))
        .filter(waits_since__lt=now - MIN_LONG_WAIT)
        .order_by("waits_since")
        .values_list("workflow__name", "workflow__root_pool_id", "workflow__submitted_by_id", "waits_since")
    )
    waiting = list(rows[:MAX_WAITING])
    usual = read_usual_waits(sorted({row[1] for row in waiting}), now) if waiting else {}
    found: dict[str, _Found] = {}
    for name, root, owner, since in waiting:
        p90 = usual.get(root)
        if p90 is not None and (now - since).total_seconds() > p90:
            message = f"Workflow {name} waits longer than nine of ten workflows of its pool did."
            subject = f"workflow/{name}"
            found.setdefault(name, _Found(NoticeKind.LONG_WAIT, subject, message, pool_id=root, owner_id=owner))
    yield from found.values()
