"""What scheduling decided, newest first, as one reader may know it: starts, moves, preemptions and reclaims."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from pools.domain.roles import Actor, Permission
from scheduling.models import Decision


@dataclass(frozen=True, slots=True)
class VisibleDecision:
    """A decision in words its reader may read. `for_workflow` is empty where nobody gained by it, or he may not know
    who did."""

    pk: int
    time: datetime
    action: str
    sentence: str
    pool: str
    workflow: str
    group: str
    gpus: int
    nodes: tuple[str, ...]
    for_workflow: str


def list_decisions(
    actor: Actor,
    *,
    pools: Collection[str] = (),
    workflow: str = "",
    action: str = "",
    limit: int,
    offset: int = 0,
) -> tuple[list[VisibleDecision], bool]:
    """One page of the decisions that `actor` may see, and whether older ones follow. `pools` are canonical names of
    leaves (:func:`scheduling.pages.leaves_meant`); `workflow` is an id, as the one that moved or the one it was for;
    `action` as :class:`scheduling.models.Decision` names it. Two queries, however many there are."""
    rows = Decision.objects.visible_to(actor).select_related(
        "pool", "workflow", "group", "for_workflow", "for_workflow__root_pool"
    )
    if pools:
        rows = rows.filter(pool__name__in=pools)
    if action:
        rows = rows.filter(action=action)
    if workflow:
        rows = rows.filter(workflow__name=workflow) | rows.filter(for_workflow__name=workflow)
    found = list(rows.order_by("-id")[offset : offset + limit + 1])
    return _visible_decisions(actor, found[:limit]), len(found) > limit


def _visible_decisions(actor: Actor, rows: Sequence[Decision]) -> list[VisibleDecision]:
    roots = actor.pools_with(Permission.POOL_READ)
    told = []
    for row in rows:
        gainer = row.for_workflow
        knows = gainer is not None and (
            actor.can_read_all or gainer.submitted_by_id == actor.user_id or gainer.root_pool.name in roots
        )
        told.append(
            VisibleDecision(
                pk=row.pk,
                time=row.time,
                action=row.action,
                sentence=row.message if gainer is None or knows else row.message_without_beneficiary,
                pool=row.pool.name,
                workflow=row.workflow.name,
                group=row.group.name,
                gpus=row.gpus,
                nodes=tuple(dict.fromkeys(row.nodes)),
                for_workflow=gainer.name if gainer is not None and knows else "",
            )
        )
    return told
