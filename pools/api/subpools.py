"""Subpools: list, create, read, resize, delete (api.md, "Subpools")."""

from __future__ import annotations

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version, only, unknown_key, unwrapped
from pools.api.schema import BOOLEAN, DRY_RUN, INCLUDE_ARCHIVED, OBJECT, TEXT, WHOLE, array, documented, fields
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation
from pools.domain.lifecycle import SubpoolState
from pools.domain.roles import Actor
from pools.models import Pool
from pools.permissions import visible_root
from pools.selectors.pool_balance import as_slice, subpool_body, tree_body
from pools.services.dry_run import effect_on_tree
from pools.services.subpools import SubpoolResult, create_subpool, delete_subpool, update_quota

QUOTA = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}
SUBPOOL = fields(
    {
        "name": TEXT,
        "parent_pool": TEXT,
        "subpool_name": TEXT,
        "subpool_state": {"type": "string", "enum": [str(state) for state in SubpoolState]},
        "quota": WHOLE,
        "last_quota": WHOLE,
        "scheduling_quota": WHOLE,
        "used": WHOLE,
        "available": WHOLE,
        "total_usage": WHOLE,
        "live_workflows": WHOLE,
        "queue": TEXT,
        "k8s_queue": TEXT,
        "warnings": array(TEXT),
        "version": WHOLE,
        "reactivated": BOOLEAN,
    },
    more=True,
)
TREE = fields(
    {
        "pool": TEXT,
        "quota": WHOLE,
        "scheduling_quota": WHOLE,
        "unallocated": WHOLE,
        "shared": OBJECT,
        "subpools": array(SUBPOOL),
    },
    more=True,
)


class SubpoolList(View):
    """All slices of a pool, and new ones."""

    @documented("Show a pool with its slices.", query=[INCLUDE_ARCHIVED], answer=TREE)
    def get(self, request: Request, parent: str) -> Response:
        root = visible_root(self.actor, parent)
        return Response(tree_body(root, include_archived=boolean(request, "include_archived")))

    @documented(
        "Cut a new slice, or bring an archived one back.",
        query=[DRY_RUN],
        body=fields({"subpool_name": TEXT, "quota": QUOTA}, required=[], more=True),
        answer=SUBPOOL,
    )
    def post(self, request: Request, parent: str) -> Response:
        body, description, _ = unwrapped(request)
        body = _checked(body, "subpool_name", "quota")
        name, quota = str(body["subpool_name"]), body["quota"]
        version = expected_version(request)

        def deed() -> SubpoolResult:
            return create_subpool(
                actor=self.actor,
                parent=parent,
                subpool_name=name,
                quota=quota,
                description=description,
                expected_version=version,
            )

        return self.once(lambda: _answer(self, parent, deed))


class SubpoolDetail(View):
    """One slice. An ARCHIVED one can be read by name, and only that."""

    @documented("Show one slice.", answer=SUBPOOL)
    def get(self, request: Request, parent: str, subpool: str) -> Response:
        return read_subpool(self.actor, parent, subpool)

    @documented(
        "Give a slice another quota.",
        query=[DRY_RUN],
        body=fields({"quota": QUOTA}, required=[], more=True),
        answer=SUBPOOL,
    )
    def patch(self, request: Request, parent: str, subpool: str) -> Response:
        body, description, _ = unwrapped(request)
        quota = _checked(body, "quota")["quota"]
        version = expected_version(request)
        return _answer(
            self,
            parent,
            lambda: update_quota(
                actor=self.actor,
                parent=parent,
                subpool_name=subpool,
                quota=quota,
                description=description,
                expected_version=version,
            ),
        )

    @documented(
        "Delete a slice: it drains first if work is on it.",
        query=[DRY_RUN],
        body=fields({"cancel_pending": BOOLEAN}, required=[], more=True),
        answer=SUBPOOL,
    )
    def delete(self, request: Request, parent: str, subpool: str) -> Response:
        body, description, _ = unwrapped(request)
        only(body, "cancel_pending")
        cancel_pending = body.get("cancel_pending", False)
        if not isinstance(cancel_pending, bool):
            raise BadInput.of([Violation("cancel_pending", "bad_value", "cancel_pending is true or false.")])
        version = expected_version(request)
        return _answer(
            self,
            parent,
            lambda: delete_subpool(
                actor=self.actor,
                parent=parent,
                subpool_name=subpool,
                cancel_pending=cancel_pending,
                description=description,
                expected_version=version,
            ),
        )


def read_subpool(actor: Actor, parent: str, subpool: str) -> Response:
    """One slice, in whatever state. Its canonical name among the pools answers the same (D9)."""
    visible_root(actor, parent)
    rows = Pool.objects.select_related("parent__backend", "usage")
    row = rows.filter(parent__name=parent, subpool_name=subpool).first()
    if row is None:
        raise NotFound(f"Pool {parent} has no subpool {subpool}.")
    return Response(subpool_body(row, as_slice(row)), headers=etag(row.version))


def _answer(view: View, parent: str, deed: Callable[[], SubpoolResult]) -> Response:
    """Do it, or with `dry_run` say what it would do."""
    if boolean(view.request, "dry_run"):
        return Response(effect_on_tree(parent, deed, actor=view.actor))
    result = deed()
    body = subpool_body(result.row, result.part, warnings=result.warnings, reactivated=result.reactivated)
    return Response(body, headers=etag(result.row.version))


def _checked(body: dict[str, object], *needed: str) -> dict[str, object]:
    """The body, with these keys and no others; every fault at once."""
    found = [unknown_key(key) for key in body if key not in needed]
    found += [Violation(key, "missing", f"{key} is missing.") for key in needed if body.get(key) is None]
    name = body.get("subpool_name")
    if "subpool_name" in needed and name is not None and not isinstance(name, str):
        found.append(Violation("subpool_name", "bad_value", "subpool_name must be a text."))
    if found:
        raise BadInput.of(found)
    return body
