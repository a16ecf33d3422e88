"""The history of an installation as a trace: work that has ended, as one reader may see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.names import SEPARATOR, SHARED_QUEUE
from pools.domain.people.roles import Actor
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.domain.receipts.lost import checkpoint_interval
from scheduling.history.traces.trace_file import TraceJob
from scheduling.models import Group, Task, WaitSpan, Workflow

MAX_TRACE_JOBS = 200_000


def read_trace(actor: Actor, since: datetime, until: datetime) -> list[TraceJob]:
    """Each gang that was submitted in this time, held GPUs and has ended, in the order in which they began to wait.

    Its duration is that of its last attempt. Raises BadInput when there are more than `MAX_TRACE_JOBS`."""
    first_wait = WaitSpan.objects.filter(workflow_id=OuterRef("workflow_id"), group_id=OuterRef("pk"))
    workflows = Workflow.objects.visible_to(actor).filter(submit_time__gte=since, submit_time__lt=until)
    rows = (
        Group.objects.filter(workflow__in=workflows, start_time__isnull=False, end_time__gt=F("start_time"), gpus__gt=0)
        .annotate(
            arrived=Coalesce(
                Subquery(first_wait.order_by("since").values("since")[:1]), "ready_at", "workflow__submit_time"
            )
        )
        .order_by("arrived", "workflow__name", "position")
        .values_list(
            "arrived", "start_time", "end_time", "gpus", "workflow__pool__name", "workflow__pool__parent_id",
            "workflow__name", "workflow__submitted_by__username", "workflow__priority", "workflow__exec_timeout",
            "workflow__labels", "pk", "workflow__root_pool_id",
        )[: MAX_TRACE_JOBS + 1]
    )  # fmt: skip
    found = list(rows)
    flavors = _flavors_of({group: root for *_, group, root in found})
    jobs = []
    for arrived, start, end, gpus, pool, parent, name, user, priority, limit, labels, group, _root in found:
        team = pool if parent is not None else f"{pool}{SEPARATOR}{SHARED_QUEUE}"
        seconds = None if limit is None else limit.total_seconds()
        submit = arrived.astimezone(UTC).replace(tzinfo=None)
        if start is not None and end is not None:
            duration = (end - start).total_seconds()
            every = checkpoint_interval(labels)
            saves = None if every is None else every.total_seconds()
            jobs.append(
                TraceJob(
                    submit, duration, gpus, team, name, user, Priority(priority), seconds or None, saves,
                    flavors.get(group, ()),
                )
            )  # fmt: skip
    if len(jobs) > MAX_TRACE_JOBS:
        message = f"A trace has at most {MAX_TRACE_JOBS:,} jobs; this time has more: give a later since."
        raise BadInput.of([Violation("since", Fault.WINDOW_TOO_LONG, message, numbers=(("max_jobs", MAX_TRACE_JOBS),))])
    return jobs


def _flavors_of(roots: Mapping[UUID, int]) -> dict[UUID, tuple[str, ...]]:
    """The flavors that gangs may use, the preferred one first: those that their first task with GPUs names, else those
    of their pool, and in the end the one that they had, if their pool has it no more. `roots`: the pool of each."""
    named = {pool.pk: pool.gpu_flavors for pool in Pool.objects.filter(pk__in=set(roots.values())).exclude(flavors=[])}
    groups = [group for group, root in roots.items() if root in named]
    tasks = Task.objects.filter(group__in=groups, gpu_count__gt=0).order_by("group_id", "position", "-retry_id")
    found = {}
    for group, asked, had in tasks.distinct("group_id").values_list("group_id", "gpu_flavors", "flavor"):
        allowed = tuple(name for name in asked or named[roots[group]] if name in named[roots[group]])
        found[group] = allowed if had in allowed or not had else (*allowed, had)
    return found
