"""The scheduling decisions that one reader may see, newest first: starts, moves, preemptions and reclaims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Extract, Floor

from pools.domain.people.roles import Actor, Permission
from pools.selectors.list_order import read_part
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.timelines.event_lanes import LaneCount
from scheduling.models import Decision, Interruption, Workflow
from scheduling.selectors.work.leaf_names import leaf_names_of


@dataclass(frozen=True, slots=True)
class VisibleDecision:
    """A decision of a scheduler, with the names that the reader may see."""

    id: int
    time: datetime
    action: Annotated[str, StepAction]
    message: str
    pool: str
    workflow: str
    group: str
    gpus: int
    nodes: tuple[str, ...]
    for_workflow: Annotated[str | None, "The workflow that caused it, if not its own."]
    receipt: Annotated[int | None, "The id of the receipt, of `GET /api/workflow/NAME/receipts`; null for a start."]


def in_pool(actor: Actor, rows: QuerySet[Decision], name: str) -> QuerySet[Decision]:
    """The decisions in a pool with its subpools, or in one leaf."""
    return rows.filter(pool__name__in=leaf_names_of(actor, name))


def about_workflow(rows: QuerySet[Decision], name: str) -> QuerySet[Decision]:
    """The decisions about a workflow, and those that were made for it."""
    return rows.filter(Q(workflow__name=name) | Q(for_workflow__name=name))


def list_decisions(
    actor: Actor, decisions: QuerySet[Decision], *, limit: int, offset: int = 0
) -> tuple[list[VisibleDecision], bool]:
    """One page of `decisions`, which `actor` may see, the newest first, and whether older ones follow. Two queries
    for any number of decisions."""
    rows = decisions.select_related("pool", "workflow", "group", "for_workflow", "for_workflow__root_pool")
    caused = Interruption.objects.filter(workflow=OuterRef("workflow"), time=OuterRef("time"), group=OuterRef("group"))
    rows = rows.annotate(receipt=Subquery(caused.order_by("id").values("pk")[:1]))
    page, more = read_part(rows.order_by("-id"), limit=limit, offset=offset)
    return _visible_decisions(actor, page), more


def count_decisions(decisions: QuerySet[Decision], slot: timedelta) -> list[LaneCount]:
    """The decisions by leaf, action and slot of time; one query."""
    seconds = slot.total_seconds()
    number = Cast(Floor(Extract("time", "epoch") / seconds), IntegerField())
    rows = decisions.order_by().annotate(slot=number).values_list("pool__name", "action", "slot")
    return [
        LaneCount(pool, action, datetime.fromtimestamp(at * seconds, UTC), count)
        for pool, action, at, count in rows.annotate(count=Count("pk"))
    ]


def _visible_decisions(actor: Actor, rows: Sequence[Decision]) -> list[VisibleDecision]:
    roots = actor.pools_with(Permission.POOL_READ)
    visible = []
    for row in rows:
        gainer = row.for_workflow
        knows = gainer is not None and (
            actor.can_read_all or gainer.submitted_by_id == actor.user_id or gainer.root_pool.name in roots
        )
        visible.append(
            VisibleDecision(
                id=row.pk,
                time=row.time,
                action=row.action,
                message=row.message if gainer is None or knows else row.message_without_beneficiary,
                pool=row.pool.name,
                workflow=row.workflow.name,
                group=row.group.name,
                gpus=row.gpus,
                nodes=tuple(dict.fromkeys(row.nodes)),
                for_workflow=gainer.name if gainer is not None and knows else None,
                receipt=None if row.action == Decision.Action.START else getattr(row, "receipt", None),
            )
        )
    return visible


def read_flavor_starts(workflow: Workflow) -> dict[UUID, Decision]:
    """The latest start of each gang of a workflow in a pool with GPU flavors, whose message says which flavor it got
    and why; none in another pool."""
    if not workflow.root_pool.flavors:
        return {}
    rows = workflow.decisions.filter(action=Decision.Action.START).order_by("id")
    return {row.group_id: row for row in rows}
