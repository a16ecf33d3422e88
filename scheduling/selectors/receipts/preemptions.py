"""Who took the place of which work, as one reader may know it: read from the receipts (design, D10).

The owner of work that something else ended always learns that it ended, when, by which rule and with which numbers.
They learn the work that got the GPUs, its person and its pool only if they have a role on its pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from pools.database.prepared import read_rows
from pools.domain.people.roles import Actor, Permission
from scheduling.domain.receipts.causes import EndCause
from scheduling.domain.receipts.words import CAUSE_VERBS, EndFacts, end_cause_text
from scheduling.models import Interruption, Workflow
from scheduling.selectors.receipts.losses import RECEIPT_ROWS, FlavorLosses

MOST_READ = 50
NEWS_FOR = timedelta(days=1)
_AROUND_SQL = """
    SELECT id FROM scheduling_interruption WHERE workflow_id = %(workflow)s OR for_workflow_id = %(workflow)s
    ORDER BY time DESC, id DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Work whose attempts something else ended at one instant. `by_workflow` and `by_pool` are empty where the reader
    may not know them, and where no work got the place; `by_user` is the person of that work, or who cancelled this
    one. `is_by_cluster`: the scheduler of a cluster decided and did not say for whom."""

    id: int
    time: datetime
    rule: EndCause
    workflow: str
    user: str
    pool: str
    losses: FlavorLosses
    by_workflow: str
    by_user: str
    by_pool: str
    facts: EndFacts

    @property
    def gpus(self) -> int:
        """The GPUs that it lost."""
        return self.losses.gpus

    @property
    def gpus_text(self) -> str:
        """The GPUs that it lost: `8 GPUs`, and with flavors `8 h100 GPUs`."""
        return self._ended.gpus_text

    @property
    def _ended(self) -> EndFacts:
        losses = self.losses
        return replace(self.facts, gpus=losses.gpus, by_flavor=losses.gpus_by_flavor, parts=losses.parts)

    @property
    def cause(self) -> str:
        """By which rule, with its numbers."""
        return end_cause_text(self._ended)

    @property
    def verb(self) -> str:
        """What happened to the work: *Preempted*, *Moved*, *Lost*, *Cancelled*."""
        return CAUSE_VERBS.get(self.rule, "Preempted")

    @property
    def is_by_cluster(self) -> bool:
        """Whether the scheduler of a cluster decided, which names no work."""
        return self.rule is EndCause.NOT_KNOWN and not self.by_workflow

    @property
    def by(self) -> str:
        """Who took the GPUs: `urgent-1 (pat)`; empty where nobody did."""
        if self.rule is EndCause.PERSON:
            return self.by_user
        if self.rule in {EndCause.NODE, EndCause.EVICTED, EndCause.BELOW_MINIMUM}:
            return ""
        if self.is_by_cluster:
            return "the scheduler of the cluster"
        return f"{self.by_workflow} ({self.by_user})" if self.by_workflow else "other work"

    @property
    def message(self) -> str:
        """By whom, and by which rule."""
        return f"by {self.by}: {self.cause}" if self.by else self.cause


@dataclass(frozen=True, slots=True)
class WorkflowPreemptions:
    """What something else took from a workflow, and what it took from other work as far as the reader may see it, the
    newest first. `has_hidden`: it took from other work, too."""

    lost: Sequence[Preemption]
    taken: Sequence[Preemption]
    has_hidden: bool


def read_preemptions(actor: Actor, workflow: Workflow) -> WorkflowPreemptions:
    """The interruptions around a workflow that `actor` may see. One query, and one more if there are any."""
    around = [pk for (pk,) in read_rows(_AROUND_SQL, {"workflow": workflow.pk, "most": MOST_READ})]
    if not around:  # as with most work: the wide query costs more than the rest of the page of such work
        return WorkflowPreemptions((), (), has_hidden=False)
    rows = _read(Interruption.objects.filter(pk__in=around))
    gained = [row for row in rows if row.for_workflow_id == workflow.pk]
    seen = [row for row in gained if may_see_work(actor, row.workflow)]
    return WorkflowPreemptions(
        lost=_together(preemption_of(actor, row) for row in rows if row.workflow_id == workflow.pk),
        taken=_together(preemption_of(actor, row) for row in seen),
        has_hidden=len(seen) < len(gained),
    )


def preemption_news(actor: Actor, *, limit: int) -> list[Preemption]:
    """The last interruption of each of the actor's own workflows within a day, the newest first. One query."""
    since = timezone.now() - NEWS_FOR
    rows = _read(Interruption.objects.filter(workflow__submitted_by=actor.user_id, time__gte=since))
    newest: dict[str, Preemption] = {}
    for each in _together(preemption_of(actor, row) for row in rows):
        newest.setdefault(each.workflow, each)
    return list(newest.values())[:limit]


def may_see_work(actor: Actor, workflow: Workflow) -> bool:
    """Whether the reader may know a workflow, its person and its pool."""
    roots = actor.pools_with(Permission.POOL_READ)
    return actor.can_read_all or workflow.submitted_by_id == actor.user_id or workflow.root_pool.name in roots


def _read(rows: QuerySet[Interruption]) -> list[Interruption]:
    work = ("workflow", "for_workflow")
    related = (f"{each}__{part}" for each in work for part in ("submitted_by", "pool", "root_pool"))
    rows = rows.select_related("pool", "backend", *related)
    return list(rows.annotate(receipt_rows=RECEIPT_ROWS).order_by("-time", "-id")[:MOST_READ])


def preemption_of(actor: Actor, row: Interruption) -> Preemption:
    """One row with its annotated receipts, as `actor` may know it."""
    gainer, rule = row.for_workflow, EndCause(row.cause)
    known = gainer if gainer is not None and may_see_work(actor, gainer) else None
    by_leaf = "" if known is None else known.pool.name
    loser = row.numbers.get("loser") or {}
    facts = EndFacts(
        rule, row.pool.name, 0, by_leaf, row.by_user, row.numbers.get("quota_at_start"), loser.get("quota")
    )
    return Preemption(
        id=row.pk,
        time=row.time,
        rule=rule,
        workflow=row.workflow.name,
        user=row.workflow.submitted_by.username,
        pool=row.pool.name,
        losses=FlavorLosses.of(row),
        by_workflow="" if known is None else known.name,
        by_user=row.by_user if known is None else known.submitted_by.username,
        by_pool=by_leaf,
        facts=facts,
    )


def _together(rows: Iterable[Preemption]) -> list[Preemption]:
    """Groups of a workflow that lost GPUs at the same instant by one rule count as one."""
    found: list[Preemption] = []
    for row in rows:
        last = found[-1] if found else None
        if last is not None and replace(last, id=row.id, losses=row.losses) == row:
            found[-1] = replace(last, losses=last.losses + row.losses)
        else:
            found.append(row)
    return found
