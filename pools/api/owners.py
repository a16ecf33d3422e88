"""The objects of the configuration that Git owns. Only roles of the platform may read them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.schema import BOOLEAN, DATETIME, TEXT, array_of, describe_operation, object_with
from pools.api.views import View
from pools.domain.ownership import OwnedKind, OwnerKind
from pools.models import ConfigurationOwner
from pools.services.ownership import list_owners

OWNER = object_with(
    {
        "kind": {"type": "string", "enum": [str(kind) for kind in OwnedKind]},
        "name": TEXT,
        "owner": {"type": "string", "enum": [str(OwnerKind.GIT)]},
        "source": TEXT,
        "path": TEXT,
        "commit": TEXT,
        "subpools": BOOLEAN,
        "since": DATETIME,
    }
)


class OwnerList(View):
    """Owned objects by kind and name."""

    @describe_operation(
        "List the objects that Git owns, each with its source, file and commit. All other objects are the admins'.",
        answer=object_with({"owners": array_of(OWNER)}),
    )
    def get(self, request: Request) -> Response:
        return Response({"owners": [_owner_body(row) for row in list_owners(self.actor)]})


def _owner_body(row: ConfigurationOwner) -> dict[str, object]:
    return {
        "kind": row.kind,
        "name": row.name,
        **row.owner.as_dict(),
        "subpools": row.subpools,
        "since": utc_text(row.since),
    }
