"""Revisions of the pool configuration (OSMO contract, section 8). They show all pools, so they are the house's."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import all_at_once, boolean, page, unknown_keys, unwrapped, whole
from pools.api.pool_requests import picture
from pools.api.rendering import naive
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    LIMIT,
    NULL,
    OBJECT,
    OFFSET,
    TEXT,
    TIME,
    WHOLE,
    Query,
    array,
    documented,
    fields,
)
from pools.api.times import moment
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.domain.roles import Action
from pools.models import ConfigRevision, Pool
from pools.permissions import require_house
from pools.services.cohort_effects import effect_with_debts
from pools.services.config_history import (
    POOL,
    HistoryFilter,
    current,
    data_of,
    history,
    revision_of,
)
from pools.services.config_rollback import rollback

MOST_REVISION = 2**31 - 1
MOST_WITH_DATA = 100
ORDERS = ("ASC", "DESC")
FILTERS = [
    Query("config_types", TEXT, "Only these types; POOL has a history here.", many=True),
    Query("name", TEXT, "Only changes of this pool."),
    Query("revision", WHOLE, "Only this revision."),
    Query("tags", TEXT, "Only revisions with one of these tags.", many=True),
    Query("created_after", TEXT, "From this time on, UTC."),
    Query("created_before", TEXT, "Until this time, UTC."),
    Query("at_timestamp", TEXT, "The one in force at this time, UTC."),
    Query("omit_data", BOOLEAN, "Without the configuration itself."),
    Query("order", {"type": "string", "enum": list(ORDERS)}, "Newest first (DESC) if not given."),
    LIMIT,
    OFFSET,
]
ENTRY = fields(
    {
        "config_type": TEXT,
        "name": TEXT,
        "revision": WHOLE,
        "username": TEXT,
        "created_at": TIME,
        "description": TEXT,
        "tags": {"type": "array", "items": TEXT, "nullable": True},
        "data": {"type": "object", "nullable": True},
    }
)


class History(View):
    """What was written, when and by whom."""

    @documented("List revisions of the configuration.", query=FILTERS, answer=fields({"configs": array(ENTRY)}))
    def get(self, request: Request) -> Response:
        limit, offset = page(request)
        rows = history(self.actor, _filter(request))
        if _order(request) == "ASC":
            rows = rows.order_by("revision")
        with_data = not boolean(request, "omit_data")
        if with_data:
            limit = min(limit, MOST_WITH_DATA)
        return Response({"configs": [entry(row, with_data=with_data) for row in rows[offset : offset + limit]]})


class Rollback(View):
    """Put an old configuration back."""

    @documented(
        "Put the pools of a revision back as they were; pools made since stay.",
        query=[DRY_RUN],
        body=fields({"revision": WHOLE, "config_type": TEXT, "description": TEXT}, required=["revision"], more=True),
        answer=NULL,
    )
    def post(self, request: Request) -> Response:
        require_house(self.actor, Action.POOL_CONFIGURE)
        body, description, tags = unwrapped(request, wrapper=())
        revision, config_type = body.get("revision"), body.get("config_type", POOL)
        found = unknown_keys(body, "revision", "config_type")
        if isinstance(revision, bool) or not isinstance(revision, int) or not 0 < revision <= MOST_REVISION:
            found.append(Violation("revision", "bad_value", "revision must be the number of a revision."))
        if not isinstance(config_type, str) or config_type.upper() != POOL:
            found.append(
                Violation("config_type", "bad_value", f"config_type must be {POOL}: only pools have revisions.")
            )
        if found:
            raise BadInput.of(found)

        number = int(revision or 0)

        def deed() -> None:
            rollback(actor=self.actor, revision=number, description=description, tags=tags)

        def answer() -> Response:
            deed()
            return Response(None)

        if boolean(request, "dry_run"):
            return Response(effect_with_debts(deed, read=_all_pools, actor=self.actor))
        return self.once(answer)


class Diff(View):
    """Two revisions side by side."""

    @documented(
        "Show the configuration at two revisions.",
        query=[
            Query("config_type", TEXT, "POOL."),
            Query("first_revision", WHOLE, "The older one.", required=True),
            Query("second_revision", WHOLE, "The newer one; the one in force if not given."),
        ],
        answer=fields({"first_data": OBJECT, "second_data": OBJECT}),
        more=[404],
    )
    def get(self, request: Request) -> Response:
        require_house(self.actor, Action.HOUSE_READ)
        config_type = request.query_params.get("config_type") or POOL
        older, number = all_at_once(
            lambda: _first_revision(request), lambda: whole(request, "second_revision", 0, least=1)
        )
        first = revision_of(self.actor, config_type, older)
        second = revision_of(self.actor, config_type, number) if number else current(self.actor) or first
        return Response({"first_data": data_of(first), "second_data": data_of(second)})


def _first_revision(request: Request) -> int:
    if not request.query_params.get("first_revision"):
        raise BadInput.of([Violation("first_revision", "missing", "first_revision is missing.")])
    return whole(request, "first_revision", 0, least=1)


def _filter(request: Request) -> HistoryFilter:
    query = request.query_params
    at, before, after, revision = all_at_once(
        lambda: moment(request, "at_timestamp"),
        lambda: moment(request, "created_before"),
        lambda: moment(request, "created_after"),
        lambda: whole(request, "revision", 0, least=1) or None,
    )
    if at is not None and (before is not None or after is not None):
        raise BadInput.of(
            [Violation("at_timestamp", "bad_query", "Give either at_timestamp, or created_before and created_after.")]
        )
    return HistoryFilter(
        config_types=[each for each in query.getlist("config_types") if each],
        name=query.get("name") or None,
        revision=revision,
        tags=[tag for tag in query.getlist("tags") if tag],
        created_before=before,
        created_after=after,
        at=at,
    )


def _order(request: Request) -> str:
    order = request.query_params.get("order") or "DESC"
    if order.upper() not in ORDERS:
        raise BadInput.of([Violation("order", "bad_query", f"order={order[:60]!r}: give ASC or DESC.")])
    return order.upper()


def entry(row: ConfigRevision, *, with_data: bool) -> dict[str, Any]:
    """One revision as lists show it."""
    return {
        "config_type": row.config_type,
        "name": row.name,
        "revision": row.revision,
        "username": row.username,
        "created_at": naive(row.created_at),
        "description": row.description,
        "tags": row.tags,
        "data": data_of(row) if with_data else None,
    }


def _all_pools() -> dict[str, Any]:
    return {name: picture(name) for name in Pool.objects.roots().order_by("name").values_list("name", flat=True)}
