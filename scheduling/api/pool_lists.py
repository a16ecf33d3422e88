"""Quota and use of pools (OSMO contract, section 5.2)."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request

from pools.api.http import boolean
from pools.api.pool_lists import FILTERS, named_pools
from pools.api.schema import OBJECT, array, documented, fields
from pools.api.views import View
from scheduling.selectors.pool_quota import pool_quota


class PoolQuota(View):
    """Every pool that one sees with its slices: quota, use, and the GPUs of the nodes behind it."""

    @documented(
        "List pools with quota and use.",
        query=FILTERS,
        answer=fields({"node_sets": array(OBJECT), "resource_sum": OBJECT}),
    )
    def get(self, request: Request) -> HttpResponse:
        names, archived = named_pools(request), boolean(request, "include_archived")
        answer = pool_quota(self.actor, names=names, include_archived=archived)
        return HttpResponse(answer, content_type="application/json")
