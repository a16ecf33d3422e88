"""Quota and use of pools (design, O5.2)."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request

from pools.api.questions import parameters_of, read_query
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.lists import PoolListQuery
from scheduling.selectors.cluster.pool_quota import PoolQuotaAnswer, render_pool_quota


class PoolQuota(View):
    """Every pool that the caller may see with its subpools: quota, use, and the GPUs of its nodes."""

    @describe_operation(
        "List pools with quota and use.", query_parameters=parameters_of(PoolListQuery), answer=PoolQuotaAnswer
    )
    def get(self, request: Request) -> HttpResponse:
        query = read_query(PoolListQuery, request)
        answer = render_pool_quota(
            self.actor,
            names=query.names,
            include_archived=query.include_archived,
            with_subpools=query.with_subpools,
        )
        return HttpResponse(answer, content_type="application/json")
