"""Draining subpools: since when, and when their work ends at the latest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.domain.numbers import POOL_NUMBERS
from pools.domain.questions import FILTER_TEXTS, Page, page_limit, parameter
from scheduling.selectors.work.drains import Drain, read_drains
from scheduling.selectors.work.leaf_names import leaf_names_of


class DrainAnswer(TypedDict):
    """The drain of a subpool."""

    subpool: str
    since: ZonedText
    long: bool
    drain_by: ZonedText | None
    overdue: bool
    live_workflows: Annotated[int, POOL_NUMBERS["live_workflows"].meaning]
    waiting_workflows: int
    unlimited_workflows: int
    gpus: int
    half_free_by: ZonedText | None
    limits_end_at: ZonedText | None
    ends_by: ZonedText | None


class DrainListAnswer(TypedDict):
    """A page of the drains."""

    drains: list[DrainAnswer]
    more_entries: bool


@dataclass(frozen=True, slots=True)
class DrainQuery(Page):
    """The query of the drains."""

    limit: int = page_limit(1000)
    pool: list[str] = parameter(FILTER_TEXTS, "Only subpools of this pool, or this subpool.", default=())


class DrainList(View):
    """The drains that the caller may see, the oldest first. A drain ends no work; its latest end, `ends_by`, is known
    only if all its work runs (none of it waits) with a time limit (none of it is unlimited). `drain_by` is a deadline
    that somebody set, and `overdue` says that it has passed; it stops no work."""

    @describe_operation(
        "List draining subpools: since when, the GPUs in use, when time limits end their work, and the "
        "deadline that somebody set.",
        query_parameters=parameters_of(DrainQuery),
        answer=DrainListAnswer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(DrainQuery, request)
        pools = leaf_names_of(self.actor, *query.pool)
        found = read_drains(self.actor, pools=pools, limit=query.limit + 1, offset=query.offset)
        drains = [_drain_body(each) for each in found[: query.limit]]
        return Response(DrainListAnswer(drains=drains, more_entries=len(found) > query.limit))


def _drain_body(drain: Drain) -> DrainAnswer:
    now = timezone.now()
    return {
        "subpool": drain.subpool,
        "since": zoned_text(drain.since),
        "long": drain.is_long(now),
        "drain_by": zoned_text(drain.drain_by),
        "overdue": drain.is_overdue(now),
        "live_workflows": drain.workflows,
        "waiting_workflows": drain.waiting,
        "unlimited_workflows": drain.unlimited,
        "gpus": drain.gpus,
        "half_free_by": zoned_text(drain.half_free_by),
        "limits_end_at": zoned_text(drain.limits_end_at),
        "ends_by": zoned_text(drain.ends_by),
    }
