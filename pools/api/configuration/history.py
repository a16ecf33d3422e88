"""Revisions of the pool configuration (design, O8), for roles of the platform: they show all pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change
from pools.api.questions import parameters_of, read_query
from pools.api.rendering import utc_text
from pools.api.schema import NULL, UtcText, describe_operation
from pools.api.views import View
from pools.domain.changes.revisions import RollBack
from pools.domain.lists import RevisionDiffQuery, RevisionQuery
from pools.domain.people.roles import Actor, Permission
from pools.filtersets.revisions import RevisionFilterSet
from pools.models import ConfigRevision, Pool
from pools.permissions import require_platform
from pools.services.changes.dry_run import EffectAnswer
from pools.services.configuration.cohort_effects import effect_on_pools
from pools.services.configuration.config_history import current_revision, get_revision, list_revisions, revision_data
from pools.services.configuration.config_rollback import rollback_configuration

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
        "List revisions of the configuration.", query_parameters=parameters_of(RevisionQuery), answer=RevisionListAnswer
    )
    def get(self, request: Request) -> Response:
        filters = RevisionFilterSet(request.query_params, list_revisions(self.actor), actor=self.actor)
        rows, limit, offset = filters.matching_rows(), filters.value("limit"), filters.value("offset")
        with_data = not filters.value("omit_data")
        if with_data:
            limit = min(limit, MAX_ROWS_WITH_DATA)
        page = rows[offset : offset + limit]
        return Response(RevisionListAnswer(configs=[revision_body(row, with_data=with_data) for row in page]))


def _effect_of_rollback(_command: RollBack, run: Callable[[], None], actor: Actor) -> EffectAnswer:
    return effect_on_pools(run, names=_all_pool_names, actor=actor)


_ROLLBACK: ChangeAnswer[RollBack, None] = ChangeAnswer(answer_nothing, _effect_of_rollback)


class ConfigurationRollback(View):
    """The rollback to an old configuration."""

    @describe_change(RollBack, required=["revision"], answer=NULL)
    def post(self, request: Request) -> Response:
        return answer_change(self, RollBack, rollback_configuration, _ROLLBACK, {})


class RevisionDiff(View):
    """Two revisions side by side."""

    @describe_operation(
        "Show the configuration at two revisions.",
        query_parameters=parameters_of(RevisionDiffQuery),
        answer=RevisionDiffAnswer,
        extra_statuses=[404],
    )
    def get(self, request: Request) -> Response:
        require_platform(self.actor, Permission.PLATFORM_READ)
        query = read_query(RevisionDiffQuery, request)
        first = get_revision(self.actor, query.config_type, query.first_revision)
        newer = query.second_revision and get_revision(self.actor, query.config_type, query.second_revision)
        second = newer or current_revision(self.actor) or first
        return Response(RevisionDiffAnswer(first_data=revision_data(first), second_data=revision_data(second)))


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
