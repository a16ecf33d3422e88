"""One revision of the configuration: its removal from the history, and its tags."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.history import MAX_REVISION, RevisionAnswer, revision_body
from pools.api.request_parsing import (
    BodyReader,
    body_object,
    query_boolean,
    reject_unknown_keys,
    unwrap_body,
)
from pools.api.schema import DRY_RUN, NULL, TEXT, array_of, describe_operation, object_with
from pools.api.views import View
from pools.models import ConfigRevision
from pools.permissions import require_platform
from pools.services.config_history import delete_revision, tag_revision
from pools.services.dry_run import read_effect


class RevisionDetail(View):
    """One revision."""

    @describe_operation(
        "Hide a revision from the history; the revision in force stays.", query_parameters=[DRY_RUN], answer=NULL
    )
    def delete(self, request: Request, config_type: str, revision: int) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        number = _limit_to_column(revision)

        def operation() -> None:
            delete_revision(actor=self.actor, config_type=config_type, revision=number, description=description)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: _find_revision_body(config_type, number)))
        operation()
        return Response(None)


class RevisionTags(View):
    """Tags of a revision."""

    @describe_operation(
        "Add tags to a revision and remove others.",
        query_parameters=[DRY_RUN],
        body=object_with({"set_tags": array_of(TEXT), "delete_tags": array_of(TEXT)}, required=[], additional=True),
        answer=NULL,
    )
    def post(self, request: Request, config_type: str, revision: int) -> Response:
        require_platform(self.actor)
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("set_tags", "delete_tags"))
        put, take = _read_tags(reader, "set_tags"), _read_tags(reader, "delete_tags")
        reader.raise_faults()
        number = _limit_to_column(revision)

        def operation() -> Response:
            tag_revision(actor=self.actor, config_type=config_type, revision=number, add=put, remove=take)
            return Response(None)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: _find_revision_body(config_type, number)))
        return self.run_once(operation, require=lambda: require_platform(self.actor))


def _find_revision_body(config_type: str, revision: int) -> RevisionAnswer | None:
    rows = ConfigRevision.objects.filter(config_type=config_type.upper(), revision=revision, deleted_at__isnull=True)
    row = rows.first()
    return revision_body(row, with_data=False) if row else None


def _limit_to_column(revision: int) -> int:
    """The number of a revision in an address, limited to the range of the column; no revision has a larger number."""
    return min(revision, MAX_REVISION)


def _read_tags(reader: BodyReader, key: str) -> list[str]:
    tags = reader.read_texts(key)
    if not all(tags):
        reader.add_fault(key, "bad_value", "must be a list of texts that are not empty.")
    return tags
