"""What was said about the future, and what came of it."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from scheduling.domain.lists import OutcomeKind, OutcomeQuery
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.selectors.status.outcomes import SaidBefore, list_outcomes


class OutcomeAnswer(TypedDict):
    """What was said once, and what came of it."""

    kind: Annotated[str, OutcomeKind]
    subject: Annotated[str, "The gang that waited, or the title of the change."]
    workflow: Annotated[str | None, "The workflow that waited; null for a preview."]
    backend: str
    said: str
    found: Annotated[str, "What came; empty while it is open."]
    outcome: Annotated[str, PromiseOutcome]
    reason: Annotated[str, "Why it was withdrawn, as a code; else empty."]
    made_at: ZonedText
    ended_at: ZonedText | None


class OutcomeListAnswer(TypedDict):
    """A page of them, the newest first."""

    outcomes: list[OutcomeAnswer]
    more_entries: bool


class OutcomeList(View):
    """Certain latest starts and previews, as far as the caller may see them."""

    @describe_operation(
        "List what was said about the future, and what came of it: certain latest starts, and previews of changes.",
        query_parameters=parameters_of(OutcomeQuery),
        answer=OutcomeListAnswer,
    )
    def get(self, request: Request) -> Response:
        found, more = list_outcomes(self.actor, read_query(OutcomeQuery, request))
        return Response(OutcomeListAnswer(outcomes=[_body(each) for each in found], more_entries=more))


def _body(each: SaidBefore) -> OutcomeAnswer:
    return {
        "kind": each.kind,
        "subject": each.subject,
        "workflow": each.workflow or None,
        "backend": each.backend,
        "said": each.said,
        "found": each.found,
        "outcome": each.outcome,
        "reason": each.reason,
        "made_at": zoned_text(each.made_at),
        "ended_at": zoned_text(each.ended_at),
    }
