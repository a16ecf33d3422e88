"""What was said about the future, and what came of it."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.domain.lists import OutcomeQuery
from scheduling.selectors.status.outcomes import SaidBefore, list_outcomes


class OutcomeListAnswer(TypedDict):
    """A page of them, the newest first."""

    outcomes: list[SaidBefore]
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
        return Response(OutcomeListAnswer(outcomes=found, more_entries=more))
