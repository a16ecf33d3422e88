"""Quota and use of pools (OSMO contract, section 5.2)."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request

from pools.api.pool_lists import POOL_FILTERS, requested_pools
from pools.api.request_parsing import query_boolean
from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.selectors.pool_quota import PoolQuotaAnswer, render_pool_quota


class PoolQuota(View):
    """Every pool that the caller may see with its subpools: quota, use, and the GPUs of its nodes."""

    @describe_operation("List pools with quota and use.", query_parameters=POOL_FILTERS, answer=PoolQuotaAnswer)
    def get(self, request: Request) -> HttpResponse:
        names, archived = requested_pools(request), query_boolean(request, "include_archived")
        answer = render_pool_quota(self.actor, names=names, include_archived=archived)
        return HttpResponse(answer, content_type="application/json")
