"""Cohorts and the tree of quotas (api.md, "Quota tree and cohorts").

Only roles of the platform may read and change cohorts. The tree shows each caller the part that they may see.
"""

from __future__ import annotations

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import etag_header, expected_version, query_boolean, reject_unknown_keys, unwrap_body
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    INTEGER,
    NULL,
    OBJECT,
    TEXT,
    QueryParameter,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from pools.domain.roles import Permission
from pools.models import Cohort
from pools.permissions import require_platform
from pools.representations.cohort import cohort_bodies, cohort_body
from pools.representations.quota_tree import tree_node_bodies
from pools.selectors.quota_tree import read_quota_view
from pools.services.cohort_effects import effect_on_cohort
from pools.services.cohorts import CohortResult, delete_cohort, patch_cohort, put_cohort, read_cohort

AMOUNT = {"type": "integer", "minimum": 0}
QUOTA_ROW = object_with(
    {
        "flavor": TEXT,
        "resource": TEXT,
        "nominal": AMOUNT,
        "borrowing_limit": nullable(AMOUNT),
        "lending_limit": nullable(AMOUNT),
    },
    required=["resource"],
)
COHORT_BODY = object_with(
    {"parent": nullable(TEXT), "quotas": array_of(QUOTA_ROW), "weight": {"type": "number", "minimum": 0}},
    required=[],
    additional=True,
)
COHORT = object_with(
    {
        "name": TEXT,
        "parent": nullable(TEXT),
        "explicit": BOOLEAN,
        "quotas": array_of(OBJECT),
        "weight": {"type": "number"},
        "active": BOOLEAN,
        "condition": nullable(OBJECT),
        "inactive_since": nullable(TEXT),
        "cohorts": array_of(TEXT),
        "pools": array_of(TEXT),
        "version": INTEGER,
        "warnings": array_of(TEXT),
    },
    additional=True,
)
ORPHAN = QueryParameter("orphan", BOOLEAN, "Its children become the roots of their own trees.")


class CohortList(View):
    """All cohorts, implicit ones too."""

    @describe_operation(
        "List cohorts with their quotas and children.", answer=object_with({"cohorts": array_of(COHORT)})
    )
    def get(self, request: Request) -> Response:
        require_platform(self.actor, Permission.PLATFORM_READ)
        return Response({"cohorts": cohort_bodies(Cohort.objects.order_by("name"))})


class CohortDetail(View):
    """One cohort."""

    @describe_operation("Show one cohort.", answer=COHORT)
    def get(self, request: Request, name: str) -> Response:
        row = read_cohort(self.actor, name)
        return Response(cohort_body(row), headers=etag_header(row.version))

    @describe_operation(
        "Create a cohort, or replace its configuration.", query_parameters=[DRY_RUN], body=COHORT_BODY, answer=COHORT
    )
    def put(self, request: Request, name: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        version = expected_version(request)
        return _run_or_preview(
            self,
            name,
            lambda: put_cohort(
                actor=self.actor, name=name, body=body, description=description, expected_version=version
            ),
        )

    @describe_operation(
        "Replace only the keys that are given: another parent moves it with everything below it.",
        query_parameters=[DRY_RUN],
        body=COHORT_BODY,
        answer=COHORT,
    )
    def patch(self, request: Request, name: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        version = expected_version(request)
        return _run_or_preview(
            self,
            name,
            lambda: patch_cohort(
                actor=self.actor, name=name, patch=body, description=description, expected_version=version
            ),
        )

    @describe_operation("Remove a cohort without children.", query_parameters=[ORPHAN, DRY_RUN], answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        orphan, version = query_boolean(request, "orphan"), expected_version(request)

        def operation() -> None:
            delete_cohort(actor=self.actor, name=name, orphan=orphan, description=description, expected_version=version)

        if query_boolean(request, "dry_run"):
            return Response(effect_on_cohort(self.actor, name, operation))
        operation()
        return Response(None)


class QuotaTreeView(View):
    """The tree of all quotas."""

    @describe_operation(
        "Show the tree of quotas: for each node its quota, its usage, what it borrows and lends, and in `available` "
        "the amount that can start now.",
        query_parameters=[QueryParameter("root", TEXT, "Only this cohort or pool and the nodes below it.")],
        answer=object_with({"nodes": array_of(OBJECT)}),
        extra_statuses=[404],
    )
    def get(self, request: Request) -> Response:
        view = read_quota_view(self.actor, root=request.query_params.get("root") or None)
        return Response({"nodes": tree_node_bodies(view)})


def _run_or_preview(view: View, name: str, operation: Callable[[], CohortResult]) -> Response:
    """Run the operation and show the cohort, or with `dry_run` show the effect."""
    if query_boolean(view.request, "dry_run"):
        return Response(effect_on_cohort(view.actor, name, operation))
    result = operation()
    return Response(cohort_body(result.row, warnings=result.warnings), headers=etag_header(result.row.version))
