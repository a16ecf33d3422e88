"""Revisions of the pool configuration (OSMO contract, section 8), for roles of the platform: they show all pools."""

from __future__ import annotations

from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.rendering import utc_text
from pools.api.request_parsing import (
    BodyReader,
    collect_faults,
    query_boolean,
    query_integer,
    unwrap_body,
)
from pools.api.schema import (
    DRY_RUN,
    INTEGER,
    NULL,
    TEXT,
    QueryParameter,
    UtcText,
    describe_operation,
    object_with,
)
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.domain.lists import RevisionQuery
from pools.domain.roles import Permission
from pools.filtersets.revisions import RevisionFilterSet
from pools.models import ConfigRevision, Pool
from pools.permissions import require_platform
from pools.services.cohort_effects import effect_on_pools
from pools.services.config_history import (
    POOL,
    current_revision,
    get_revision,
    list_revisions,
    revision_data,
)
from pools.services.config_rollback import rollback_configuration

MAX_REVISION = 2**31 - 1
MAX_ROWS_WITH_DATA = 100


class RevisionAnswer(TypedDict):
    """A revision of the configuration."""

    config_type: str
    name: str
    revision: int
    username: str
    created_at: UtcText
    description: str
    tags: list[str] | None
    data: dict[str, Any] | None


class RevisionListAnswer(TypedDict):
    """A page of the revisions."""

    configs: list[RevisionAnswer]


class RevisionDiffAnswer(TypedDict):
    """The configuration at two revisions."""

    first_data: dict[str, Any]
    second_data: dict[str, Any]


class RevisionList(View):
    """The revisions with their authors."""

    @describe_operation(
        "List revisions of the configuration.",
        query_parameters=parameters_of(RevisionQuery),
        answer=RevisionListAnswer,
    )
    def get(self, request: Request) -> Response:
        filters = RevisionFilterSet(request.query_params, list_revisions(self.actor), actor=self.actor)
        rows, limit, offset = filters.matching_rows(), filters.value("limit"), filters.value("offset")
        with_data = not filters.value("omit_data")
        if with_data:
            limit = min(limit, MAX_ROWS_WITH_DATA)
        page = rows[offset : offset + limit]
        return Response(RevisionListAnswer(configs=[revision_body(row, with_data=with_data) for row in page]))


class ConfigurationRollback(View):
    """The rollback to an old configuration."""

    @describe_operation(
        "Restore the pools of a revision; pools created since then stay.",
        query_parameters=[DRY_RUN],
        body=object_with(
            {"revision": INTEGER, "config_type": TEXT, "description": TEXT}, required=["revision"], additional=True
        ),
        answer=NULL,
    )
    def post(self, request: Request) -> Response:
        require_platform(self.actor, Permission.POOL_CONFIGURE)
        body, description, tags = unwrap_body(request, wrappers=())
        reader = BodyReader(body)
        reader.reject_unknown_keys(("revision", "config_type"), ())
        number, config_type = reader.body.get("revision"), reader.any_text("config_type", POOL)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MAX_REVISION:
            reader.add_fault("revision", "bad_value", "must be the number of a revision.")
        if config_type.upper() != POOL:
            reader.add_fault("config_type", "bad_value", f"must be {POOL}: only pools have revisions.")
        reader.raise_faults()

        def operation() -> None:
            rollback_configuration(actor=self.actor, revision=int(number or 0), description=description, tags=tags)

        def answer() -> Response:
            operation()
            return Response(None)

        if query_boolean(request, "dry_run"):
            return Response(effect_on_pools(operation, names=_all_pool_names, actor=self.actor))
        return self.run_once(answer, require=lambda: require_platform(self.actor, Permission.POOL_CONFIGURE))


class RevisionDiff(View):
    """Two revisions side by side."""

    @describe_operation(
        "Show the configuration at two revisions.",
        query_parameters=[
            QueryParameter("config_type", TEXT, "POOL."),
            QueryParameter("first_revision", INTEGER, "The older one.", is_required=True),
            QueryParameter("second_revision", INTEGER, "The newer one; the one in force if not given."),
        ],
        answer=RevisionDiffAnswer,
        extra_statuses=[404],
    )
    def get(self, request: Request) -> Response:
        require_platform(self.actor, Permission.PLATFORM_READ)
        config_type = request.query_params.get("config_type") or POOL
        older, number = collect_faults(
            lambda: _first_revision(request), lambda: query_integer(request, "second_revision", 0, minimum=1)
        )
        first = get_revision(self.actor, config_type, older)
        second = get_revision(self.actor, config_type, number) if number else current_revision(self.actor) or first
        return Response(RevisionDiffAnswer(first_data=revision_data(first), second_data=revision_data(second)))


def _first_revision(request: Request) -> int:
    if not request.query_params.get("first_revision"):
        raise BadInput.of([Violation("first_revision", "missing", "first_revision is missing.")])
    return query_integer(request, "first_revision", 0, minimum=1)


def revision_body(row: ConfigRevision, *, with_data: bool) -> RevisionAnswer:
    """One revision as lists show it."""
    return {
        "config_type": row.config_type,
        "name": row.name,
        "revision": row.revision,
        "username": row.username,
        "created_at": utc_text(row.created_at),
        "description": row.description,
        "tags": row.tags,
        "data": revision_data(row) if with_data else None,
    }


def _all_pool_names() -> list[str]:
    return list(Pool.objects.roots().order_by("name").values_list("name", flat=True))
