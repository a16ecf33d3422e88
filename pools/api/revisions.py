"""One revision of the configuration: hiding it, and tags on it."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.history import MAX_REVISION, revision_body
from pools.api.request_parsing import body_object, collect_faults, query_boolean, reject_unknown_keys, unwrap_body
from pools.api.schema import DRY_RUN, NULL, TEXT, array_of, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.models import ConfigRevision
from pools.permissions import require_platform
from pools.services.config_history import delete_revision, tag_revision
from pools.services.dry_run import read_effect


class RevisionDetail(View):
    """One revision."""

    @describe_operation(
        "Hide a revision from the history; not the one in force.", query_parameters=[DRY_RUN], answer=NULL
    )
    def delete(self, request: Request, config_type: str, revision: int) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        number = _bounded(revision)

        def deed() -> None:
            delete_revision(actor=self.actor, config_type=config_type, revision=number, description=description)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(deed, read_state=lambda: _shown(config_type, number)))
        deed()
        return Response(None)


class RevisionTags(View):
    """Marks on a revision."""

    @describe_operation(
        "Put tags on a revision and take others off.",
        query_parameters=[DRY_RUN],
        body=object_with({"set_tags": array_of(TEXT), "delete_tags": array_of(TEXT)}, required=[], additional=True),
        answer=NULL,
    )
    def post(self, request: Request, config_type: str, revision: int) -> Response:
        require_platform(self.actor)
        body = body_object(request)
        put, take, _ = collect_faults(
            lambda: _texts(body, "set_tags"),
            lambda: _texts(body, "delete_tags"),
            lambda: reject_unknown_keys(body, "set_tags", "delete_tags", "description", "tags"),
        )

        number = _bounded(revision)

        def deed() -> Response:
            tag_revision(actor=self.actor, config_type=config_type, revision=number, add=put, remove=take)
            return Response(None)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(deed, read_state=lambda: _shown(config_type, number)))
        return self.run_once(deed)


def _shown(config_type: str, revision: int) -> dict[str, Any] | None:
    rows = ConfigRevision.objects.filter(config_type=config_type.upper(), revision=revision, deleted_at__isnull=True)
    row = rows.first()
    return revision_body(row, with_data=False) if row else None


def _bounded(revision: int) -> int:
    """A revision from an address; beyond any column it is simply unknown."""
    return min(revision, MAX_REVISION)


def _texts(body: dict[str, Any], key: str) -> list[str]:
    value = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise BadInput.of([Violation(key, "bad_value", f"{key} must be a list of texts.")])
    return value
