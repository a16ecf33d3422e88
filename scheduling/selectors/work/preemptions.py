"""Who preempted which work, as one reader may know it: read from the scheduling decisions (design, D10).

The owner of preempted work always learns that it was preempted, when, and by which rule. They learn the work that got
the GPUs, its person and its pool only if they have a role on its pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from pools.domain.people.roles import Actor, Permission
from scheduling.domain.decision_messages import PreemptionFacts, preemption_cause
from scheduling.domain.engine.steps import StepAction
from scheduling.models import Decision, Workflow

MOST_READ = 50
NEWS_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Preemption:
    """Work that lost GPUs to other work in one step of the scheduler. `by_workflow`, `by_user` and `by_pool` are empty
    where the reader may not know them, and where the scheduler of a cluster decided (`is_by_cluster`)."""

    time: datetime
    action: StepAction
    workflow: str
    user: str
    pool: str
    gpus: int
    by_workflow: str
    by_user: str
    by_pool: str
    is_by_cluster: bool

    @property
    def by(self) -> str:
        """Who took the GPUs: `urgent-1 (pat)`."""
        if self.is_by_cluster:
            return "the scheduler of the cluster"
        return f"{self.by_workflow} ({self.by_user})" if self.by_workflow else "other work"

    @property
    def cause(self) -> str:
        """By which rule, with its numbers."""
        return preemption_cause(PreemptionFacts(self.action, self.pool, self.gpus, self.by_pool, self.is_by_cluster))


@dataclass(frozen=True, slots=True)
class WorkflowPreemptions:
    """The preemptions of a workflow, and the work that it preempted as far as the reader may see it, the newest first.
    `has_hidden`: it preempted other work, too."""

    lost: Sequence[Preemption]
    taken: Sequence[Preemption]
    has_hidden: bool


def read_preemptions(actor: Actor, workflow: Workflow) -> WorkflowPreemptions:
    """The preemptions around a workflow that `actor` may see. One query."""
    rows = _read(Decision.objects.filter(Q(workflow=workflow) | Q(for_workflow=workflow)))
    gained = [row for row in rows if row.for_workflow_id == workflow.pk]
    seen = [row for row in gained if _may_see(actor, row.workflow)]
    return WorkflowPreemptions(
        lost=_together(_preemption(actor, row) for row in rows if row.workflow_id == workflow.pk),
        taken=_together(_preemption(actor, row) for row in seen),
        has_hidden=len(seen) < len(gained),
    )


def preemption_news(actor: Actor, *, limit: int) -> list[Preemption]:
    """The last preemption of each of the actor's own workflows within a day, the newest first. One query."""
    since = timezone.now() - NEWS_FOR
    rows = _read(Decision.objects.filter(workflow__submitted_by=actor.user_id, time__gte=since))
    newest: dict[str, Preemption] = {}
    for each in _together(_preemption(actor, row) for row in rows):
        newest.setdefault(each.workflow, each)
    return list(newest.values())[:limit]


def _read(rows: QuerySet[Decision]) -> list[Decision]:
    work = ("workflow", "for_workflow")
    related = (f"{each}__{part}" for each in work for part in ("submitted_by", "pool", "root_pool"))
    found = rows.filter(action__in=(StepAction.RECLAIM, StepAction.PREEMPT)).select_related("pool", *related)
    return list(found.order_by("-id")[:MOST_READ])


def _may_see(actor: Actor, workflow: Workflow) -> bool:
    roots = actor.pools_with(Permission.POOL_READ)
    return actor.can_read_all or workflow.submitted_by_id == actor.user_id or workflow.root_pool.name in roots


def _preemption(actor: Actor, row: Decision) -> Preemption:
    gainer = row.for_workflow
    knows = gainer is not None and _may_see(actor, gainer)
    return Preemption(
        time=row.time,
        action=StepAction(row.action),
        workflow=row.workflow.name,
        user=row.workflow.submitted_by.username,
        pool=row.pool.name,
        gpus=row.gpus,
        by_workflow=gainer.name if gainer is not None and knows else "",
        by_user=gainer.submitted_by.username if gainer is not None and knows else "",
        by_pool=gainer.pool.name if gainer is not None and knows else "",
        is_by_cluster=gainer is None,
    )


def _together(rows: Iterable[Preemption]) -> list[Preemption]:
    """Groups that lost GPUs in the same step count as one preemption."""
    found: list[Preemption] = []
    for row in rows:
        last = found[-1] if found else None
        if last is not None and replace(last, gpus=row.gpus) == row:
            found[-1] = replace(last, gpus=last.gpus + row.gpus)
        else:
            found.append(row)
    return found
