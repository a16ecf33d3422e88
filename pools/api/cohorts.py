"""Cohorts and the tree of quotas (api.md, "Quota tree and cohorts").

Cohorts are the house's, and no secret: who may not read them is refused. The tree shows each what they may see of it.
"""

from __future__ import annotations

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version, only, unwrapped
from pools.api.schema import BOOLEAN, DRY_RUN, NULL, OBJECT, TEXT, WHOLE, Query, array, documented, fields, nullable
from pools.api.views import View
from pools.domain.roles import Action
from pools.models import Cohort
from pools.permissions import require_house
from pools.representations.cohort import cohort_bodies, cohort_body
from pools.representations.quota_tree import tree_nodes
from pools.selectors.quota_tree import quota_view
from pools.services.cohort_effects import effect_on_cohort
from pools.services.cohorts import CohortResult, delete_cohort, patch_cohort, put_cohort, read_cohort

AMOUNT = {"type": "integer", "minimum": 0}
QUOTA_ROW = fields(
    {
        "flavor": TEXT,
        "resource": TEXT,
        "nominal": AMOUNT,
        "borrowing_limit": nullable(AMOUNT),
        "lending_limit": nullable(AMOUNT),
    },
    required=["resource"],
)
COHORT_BODY = fields(
    {"parent": nullable(TEXT), "quotas": array(QUOTA_ROW), "weight": {"type": "number", "minimum": 0}},
    required=[],
    more=True,
)
COHORT = fields(
    {
        "name": TEXT,
        "parent": nullable(TEXT),
        "explicit": BOOLEAN,
        "quotas": array(OBJECT),
        "weight": {"type": "number"},
        "active": BOOLEAN,
        "condition": nullable(OBJECT),
        "inactive_since": nullable(TEXT),
        "cohorts": array(TEXT),
        "pools": array(TEXT),
        "version": WHOLE,
        "warnings": array(TEXT),
    },
    more=True,
)
ORPHAN = Query("orphan", BOOLEAN, "Make its children the tops of their own trees.")


class CohortList(View):
    """All cohorts, those that are only named too."""

    @documented(
        "List cohorts with what they own and what stands below them.", answer=fields({"cohorts": array(COHORT)})
    )
    def get(self, request: Request) -> Response:
        require_house(self.actor, Action.HOUSE_READ)
        return Response({"cohorts": cohort_bodies(Cohort.objects.order_by("name"))})


class CohortDetail(View):
    """One cohort."""

    @documented("Show one cohort.", answer=COHORT)
    def get(self, request: Request, name: str) -> Response:
        row = read_cohort(self.actor, name)
        return Response(cohort_body(row), headers=etag(row.version))

    @documented("Make a cohort, or replace its configuration.", query=[DRY_RUN], body=COHORT_BODY, answer=COHORT)
    def put(self, request: Request, name: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        version = expected_version(request)
        return _answered(
            self,
            name,
            lambda: put_cohort(
                actor=self.actor, name=name, body=body, description=description, expected_version=version
            ),
        )

    @documented(
        "Replace only the keys that are given: another parent moves it with everything below it.",
        query=[DRY_RUN],
        body=COHORT_BODY,
        answer=COHORT,
    )
    def patch(self, request: Request, name: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        version = expected_version(request)
        return _answered(
            self,
            name,
            lambda: patch_cohort(
                actor=self.actor, name=name, patch=body, description=description, expected_version=version
            ),
        )

    @documented("Remove a cohort that nothing stands below.", query=[ORPHAN, DRY_RUN], answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        only(body)
        orphan, version = boolean(request, "orphan"), expected_version(request)

        def deed() -> None:
            delete_cohort(actor=self.actor, name=name, orphan=orphan, description=description, expected_version=version)

        if boolean(request, "dry_run"):
            return Response(effect_on_cohort(self.actor, name, deed))
        deed()
        return Response(None)


class QuotaTreeView(View):
    """Every quota, promise and debt in one tree."""

    @documented(
        "Show the tree of quotas: what every node owns, uses, borrows, lends and may still have.",
        query=[Query("root", TEXT, "Only this cohort or pool and what stands below it.")],
        answer=fields({"nodes": array(OBJECT)}),
        more=[404],
    )
    def get(self, request: Request) -> Response:
        view = quota_view(self.actor, root=request.query_params.get("root") or None)
        return Response({"nodes": tree_nodes(view)})


def _answered(view: View, name: str, deed: Callable[[], CohortResult]) -> Response:
    """Do it and show the cohort, or with `dry_run` show what it would do."""
    if boolean(view.request, "dry_run"):
        return Response(effect_on_cohort(view.actor, name, deed))
    result = deed()
    return Response(cohort_body(result.row, warnings=result.warnings), headers=etag(result.row.version))
