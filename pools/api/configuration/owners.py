"""The objects of the configuration that Git owns. Only roles of the platform may read them."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.domain.configuration.ownership import OwnedKind, OwnerKind
from pools.models import ConfigurationOwner
from pools.services.changes.ownership import list_owners


class OwnedObjectAnswer(TypedDict):
    """An object that Git owns."""

    kind: Annotated[str, OwnedKind]
    name: str
    owner: Annotated[str, Literal["git"]]
    source: str
    path: str
    commit: str
    subpools: bool
    since: ZonedText


class OwnerListAnswer(TypedDict):
    """The objects that Git owns."""

    owners: list[OwnedObjectAnswer]


class OwnerList(View):
    """Owned objects by kind and name."""

    @describe_operation(
        "List the objects that Git owns, each with its source, file and commit. All other objects are the admins'.",
        answer=OwnerListAnswer,
    )
    def get(self, request: Request) -> Response:
        return Response(OwnerListAnswer(owners=[_owner_body(row) for row in list_owners(self.actor)]))


def _owner_body(row: ConfigurationOwner) -> OwnedObjectAnswer:
    owner = row.owner
    return {
        "kind": row.kind,
        "name": row.name,
        "owner": str(OwnerKind.GIT),
        "source": owner.source,
        "path": owner.path,
        "commit": owner.commit,
        "subpools": row.subpools,
        "since": zoned_text(row.since),
    }
