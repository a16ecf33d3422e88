"""What was said about the future, and what came of it: certain latest starts, and the previews of confirmed changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from django.db.models import OuterRef, QuerySet, Subquery, Value

from pools.domain.people.roles import Actor
from pools.models import Backend
from pools.selectors.list_order import read_part
from scheduling.domain.judgement.outcome_words import effect_found, effect_words, start_found, start_said
from scheduling.domain.lists import OutcomeKind, OutcomeQuery
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.models import PromisedStart, ShownEffect, Workflow


@dataclass(frozen=True, slots=True)
class SaidBefore:
    """What was said once, and what came of it."""

    kind: OutcomeKind
    subject: Annotated[str, "The gang that waited, or the title of the change."]
    workflow: Annotated[str | None, "The workflow that waited; null for a preview."]
    backend: str
    said: str
    found: Annotated[str, "What came; empty while it is open."]
    outcome: PromiseOutcome
    reason: Annotated[str, "Why it was withdrawn, as a code; else empty."]
    made_at: datetime
    ended_at: datetime | None


def list_outcomes(actor: Actor, query: OutcomeQuery) -> tuple[list[SaidBefore], bool]:
    """A page of them, the newest first, and whether more follow: the starts of work that the actor may see, and the
    previews of readers of the whole installation or of the actor's own changes. Three queries."""
    kinds = {OutcomeKind.START: _starts(actor), OutcomeKind.PREVIEW: _previews(actor)}
    wanted = [_keys(_matching(rows, query), kind) for kind, rows in kinds.items() if query.kind in {None, kind}]
    keys = wanted[0] if len(wanted) == 1 else wanted[0].union(*wanted[1:], all=True)
    page, more = read_part(keys.order_by("-made_at", "kind", "-id"), limit=query.limit, offset=query.offset)
    found: dict[tuple[str, int], SaidBefore] = {}
    for kind, rows in kinds.items():
        if ids := [pk for pk, _, of_kind in page if of_kind == kind]:
            read = _read_start if kind is OutcomeKind.START else _read_preview
            found |= {(kind.value, row.pk): read(row) for row in rows.filter(pk__in=ids)}
    return [found[of_kind, pk] for pk, _, of_kind in page], more


def _starts(actor: Actor) -> QuerySet[Any]:
    rows: QuerySet[Any] = PromisedStart.objects.select_related("group__workflow")
    return _with_cluster(rows if actor.can_read_all else rows.filter(group__workflow__in=_visible(actor)))


def _previews(actor: Actor) -> QuerySet[Any]:
    rows = ShownEffect.objects.all()
    return _with_cluster(rows if actor.can_read_all else rows.filter(user_id=actor.user_id))


def _visible(actor: Actor) -> QuerySet[Workflow]:
    return Workflow.objects.visible_to(actor)


def _with_cluster(rows: QuerySet[Any]) -> QuerySet[Any]:
    """With the name of the cluster, which may have gone."""
    names = Backend.objects.filter(pk=OuterRef("backend_id")).values("name")
    found: QuerySet[Any] = rows.annotate(cluster=Subquery(names))
    return found


def _matching(rows: QuerySet[Any], query: OutcomeQuery) -> QuerySet[Any]:
    if query.outcome is not None:
        rows = rows.filter(outcome=query.outcome)
    return rows.filter(cluster=query.backend) if query.backend else rows


def _keys(rows: QuerySet[Any], kind: OutcomeKind) -> QuerySet[Any]:
    found: QuerySet[Any] = rows.order_by().annotate(kind=Value(kind.value)).values_list("id", "made_at", "kind")
    return found


def _read_start(row: Any) -> SaidBefore:
    outcome = PromiseOutcome(row.outcome)
    return SaidBefore(
        OutcomeKind.START, row.gang, row.group.workflow.name, row.cluster or "", start_said(row.latest_start),
        start_found(outcome, row.reason, row.ended_at), outcome, row.reason, row.made_at, row.ended_at,
    )  # fmt: skip


def _read_preview(row: Any) -> SaidBefore:
    outcome = PromiseOutcome(row.outcome)
    return SaidBefore(
        OutcomeKind.PREVIEW, row.title, None, row.cluster or "", effect_words(row.lost, row.started),
        effect_found(outcome, row.reason, row.found_lost, row.found_started), outcome, row.reason, row.made_at,
        row.ended_at,
    )  # fmt: skip
