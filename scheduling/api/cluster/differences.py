"""The decisions of an observed cluster's scheduler that ours would not have made."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.selectors.list_order import read_part
from pools.services.configuration.backends import read_backend
from scheduling.domain.lists import DifferenceQuery
from scheduling.domain.observed.differences import DifferenceKind
from scheduling.filtersets.differences import DifferenceFilterSet
from scheduling.models import SchedulerDifference


class DifferenceAnswer(TypedDict):
    """One difference."""

    id: int
    time: ZonedText
    backend: str
    kind: Annotated[str, DifferenceKind]
    pool: str
    workflow: str
    gpus: int
    rule: Annotated[str, "The code of the reason for which ours lets it wait; empty where there is none."]
    message: str
    instead: Annotated[list[str], "The work that ours would have started, or from which it would have taken GPUs."]


class DifferenceListAnswer(TypedDict):
    """A page of the differences."""

    differences: list[DifferenceAnswer]
    more_entries: bool


class DifferenceList(View):
    """The differences of one cluster, for platform viewers: a sentence may name the work of any pool."""

    @describe_operation(
        "List the decisions of an observed cluster's scheduler that ours would not have made, the newest first.",
        query_parameters=parameters_of(DifferenceQuery),
        answer=DifferenceListAnswer,
    )
    def get(self, request: Request, backend: str) -> Response:
        row = read_backend(self.actor, backend)
        rows = SchedulerDifference.objects.filter(backend=row).select_related("backend", "pool", "workflow")
        filters = DifferenceFilterSet(request.query_params, rows, actor=self.actor)
        matching, limit, offset = filters.matching_rows(), filters.value("limit"), filters.value("offset")
        page, more = read_part(matching.order_by("-id"), limit=limit, offset=offset)
        return Response(DifferenceListAnswer(differences=[_difference_body(each) for each in page], more_entries=more))


def _difference_body(row: SchedulerDifference) -> DifferenceAnswer:
    return {
        "id": row.pk,
        "time": zoned_text(row.time),
        "backend": row.backend.name,
        "kind": row.kind,
        "pool": row.pool.name,
        "workflow": row.workflow.name,
        "gpus": row.gpus,
        "rule": row.rule,
        "message": row.message,
        "instead": list(row.instead),
    }
