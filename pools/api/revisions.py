"""One revision of the configuration: hiding it, and tags on it."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.history import MOST_REVISION, entry
from pools.api.http import all_at_once, body_object, boolean, only, unwrapped
from pools.api.schema import DRY_RUN, NULL, TEXT, array, documented, fields
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.models import ConfigRevision
from pools.permissions import require_house
from pools.services.config_history import delete_revision, tag_revision
from pools.services.dry_run import effect_of


class Revision(View):
    """One revision."""

    @documented("Hide a revision from the history; not the one in force.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, config_type: str, revision: int) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        only(body)
        number = _bounded(revision)

        def deed() -> None:
            delete_revision(actor=self.actor, config_type=config_type, revision=number, description=description)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: _shown(config_type, number)))
        deed()
        return Response(None)


class RevisionTags(View):
    """Marks on a revision."""

    @documented(
        "Put tags on a revision and take others off.",
        query=[DRY_RUN],
        body=fields({"set_tags": array(TEXT), "delete_tags": array(TEXT)}, required=[], more=True),
        answer=NULL,
    )
    def post(self, request: Request, config_type: str, revision: int) -> Response:
        require_house(self.actor)
        body = body_object(request)
        put, take, _ = all_at_once(
            lambda: _texts(body, "set_tags"),
            lambda: _texts(body, "delete_tags"),
            lambda: only(body, "set_tags", "delete_tags", "description", "tags"),
        )

        number = _bounded(revision)

        def deed() -> Response:
            tag_revision(actor=self.actor, config_type=config_type, revision=number, put=put, take=take)
            return Response(None)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: _shown(config_type, number)))
        return self.once(deed)


def _shown(config_type: str, revision: int) -> dict[str, Any] | None:
    rows = ConfigRevision.objects.filter(config_type=config_type.upper(), revision=revision, deleted_at__isnull=True)
    row = rows.first()
    return entry(row, with_data=False) if row else None


def _bounded(revision: int) -> int:
    """A revision from an address; beyond any column it is simply unknown."""
    return min(revision, MOST_REVISION)


def _texts(body: dict[str, Any], key: str) -> list[str]:
    value = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise BadInput.of([Violation(key, "bad_value", f"{key} must be a list of texts.")])
    return value
