"""One revision of the configuration: its removal from the history, and its tags."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change, effect_on
from pools.api.configuration.history import RevisionAnswer, revision_body
from pools.api.schema import NULL
from pools.api.views import View
from pools.domain.changes.revisions import DeleteRevision, RevisionChange, TagRevision
from pools.domain.people.roles import Actor
from pools.domain.values.query_values import MAX_INTEGER
from pools.models import ConfigRevision
from pools.services.configuration.config_history import delete_revision, tag_revision


def _find_body(command: RevisionChange, _: Actor) -> RevisionAnswer | None:
    rows = ConfigRevision.objects.filter(config_type=command.config_type.upper(), revision=command.revision)
    row = rows.filter(deleted_at__isnull=True).first()
    return revision_body(row, with_data=False) if row else None


_CHANGES: ChangeAnswer[Any, Any] = ChangeAnswer(answer_nothing, effect_on(_find_body))


class RevisionDetail(View):
    """One revision."""

    @describe_change(DeleteRevision, answer=NULL)
    def delete(self, request: Request, config_type: str, revision: int) -> Response:
        return answer_change(self, DeleteRevision, delete_revision, _CHANGES, _address(config_type, revision))


class RevisionTags(View):
    """Tags of a revision."""

    @describe_change(TagRevision, answer=NULL)
    def post(self, request: Request, config_type: str, revision: int) -> Response:
        return answer_change(self, TagRevision, tag_revision, _CHANGES, _address(config_type, revision))


def _address(config_type: str, revision: int) -> dict[str, Any]:
    """The number is limited to the range of the column; no revision has a larger one."""
    return {"config_type": config_type, "revision": min(revision, MAX_INTEGER)}
