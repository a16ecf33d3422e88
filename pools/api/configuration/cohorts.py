"""Cohorts and the tree of quotas (design, A4).

Only roles of the platform may read and change cohorts. The tree shows each caller the part that they may see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change
from pools.api.request_parsing import etag_header, unwrap_as
from pools.api.schema import NULL, TEXT, QueryParameter, describe_operation, object_with
from pools.api.views import View
from pools.domain.changes.cohorts import CohortChange, DeleteCohort, PatchCohort, PutCohort
from pools.domain.configuration.cohort_config import COHORT_FIELDS
from pools.domain.people.roles import Actor, Permission
from pools.domain.structured_input.config_fields import properties_of
from pools.models import Cohort
from pools.permissions import require_platform
from pools.representations.cohort import CohortAnswer, cohort_bodies, cohort_body
from pools.representations.quota_tree import TreeNodeAnswer, tree_node_bodies
from pools.selectors.quotas.quota_tree import read_quota_view
from pools.services.changes.dry_run import EffectAnswer
from pools.services.configuration.cohort_effects import effect_on_cohort
from pools.services.configuration.cohorts import CohortResult, delete_cohort, patch_cohort, put_cohort, read_cohort

COHORT_BODY = object_with(properties_of(COHORT_FIELDS), required=[], additional=True)


class CohortListAnswer(TypedDict):
    """Cohorts by name."""

    cohorts: list[CohortAnswer]


class QuotaTreeAnswer(TypedDict):
    """The nodes, each parent before its children."""

    nodes: list[TreeNodeAnswer]


class CohortList(View):
    """All cohorts, implicit ones too."""

    @describe_operation("List cohorts with their quotas and children.", answer=CohortListAnswer)
    def get(self, request: Request) -> Response:
        require_platform(self.actor, Permission.PLATFORM_READ)
        return Response(CohortListAnswer(cohorts=cohort_bodies(Cohort.objects.order_by("name"))))


class CohortDetail(View):
    """One cohort."""

    @describe_operation("Show one cohort.", answer=CohortAnswer)
    def get(self, request: Request, name: str) -> Response:
        row = read_cohort(self.actor, name)
        return Response(cohort_body(row), headers=etag_header(row.version))

    @describe_change(PutCohort, answer=CohortAnswer, body=COHORT_BODY)
    def put(self, request: Request, name: str) -> Response:
        return answer_change(self, PutCohort, put_cohort, COHORT_CHANGES, {"name": name}, unwrap=unwrap_as("body"))

    @describe_change(PatchCohort, answer=CohortAnswer, body=COHORT_BODY)
    def patch(self, request: Request, name: str) -> Response:
        return answer_change(self, PatchCohort, patch_cohort, COHORT_CHANGES, {"name": name}, unwrap=unwrap_as("patch"))

    @describe_change(DeleteCohort, answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        return answer_change(self, DeleteCohort, delete_cohort, COHORT_DELETION, {"name": name})


def _effect(command: CohortChange, run: Callable[[], object], actor: Actor) -> EffectAnswer:
    return effect_on_cohort(actor, command.name, run)


def _render(result: CohortResult) -> Response:
    return Response(cohort_body(result.row, warnings=result.warnings), headers=etag_header(result.row.version))


COHORT_CHANGES = ChangeAnswer(_render, _effect)
COHORT_DELETION = ChangeAnswer(Response, _effect)


class QuotaTreeView(View):
    """The tree of all quotas."""

    @describe_operation(
        "Show the tree of quotas: for each node its quota, its usage, what it borrows and lends, and in `available` "
        "the amount that can start now.",
        query_parameters=[QueryParameter("root", TEXT, "Only this cohort or pool and the nodes below it.")],
        answer=QuotaTreeAnswer,
        extra_statuses=[404],
    )
    def get(self, request: Request) -> Response:
        view = read_quota_view(self.actor, root=request.query_params.get("root") or None)
        return Response(QuotaTreeAnswer(nodes=tree_node_bodies(view)))
