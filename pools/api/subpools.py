"""Subpools: list, create, read, resize, delete (api.md, "Subpools")."""

from __future__ import annotations

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import (
    etag_header,
    expected_version,
    query_boolean,
    reject_unknown_keys,
    unknown_key_violation,
    unwrap_body,
)
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    INCLUDE_ARCHIVED,
    INTEGER,
    OBJECT,
    TEXT,
    array_of,
    describe_operation,
    object_with,
)
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation
from pools.domain.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.permissions import get_visible_root
from pools.selectors.pool_balance import pool_tree_body, subpool_body, subpool_from_row
from pools.services.dry_run import effect_on_pool_tree
from pools.services.subpools import SubpoolResult, create_subpool, delete_subpool, resize_subpool

QUOTA = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}
SUBPOOL = object_with(
    {
        "name": TEXT,
        "parent_pool": TEXT,
        "subpool_name": TEXT,
        "subpool_state": {"type": "string", "enum": [str(state) for state in SubpoolState]},
        "quota": INTEGER,
        "last_quota": INTEGER,
        "scheduling_quota": INTEGER,
        "used": INTEGER,
        "available": INTEGER,
        "total_usage": INTEGER,
        "live_workflows": INTEGER,
        "queue": TEXT,
        "k8s_queue": TEXT,
        "warnings": array_of(TEXT),
        "version": INTEGER,
        "reactivated": BOOLEAN,
    },
    additional=True,
)
POOL_TREE = object_with(
    {
        "pool": TEXT,
        "quota": INTEGER,
        "scheduling_quota": INTEGER,
        "unallocated": INTEGER,
        "shared": OBJECT,
        "subpools": array_of(SUBPOOL),
    },
    additional=True,
)


class SubpoolList(View):
    """All slices of a pool, and new ones."""

    @describe_operation("Show a pool with its slices.", query_parameters=[INCLUDE_ARCHIVED], answer=POOL_TREE)
    def get(self, request: Request, parent: str) -> Response:
        root = get_visible_root(self.actor, parent)
        return Response(pool_tree_body(root, include_archived=query_boolean(request, "include_archived")))

    @describe_operation(
        "Cut a new slice, or bring an archived one back.",
        query_parameters=[DRY_RUN],
        body=object_with({"subpool_name": TEXT, "quota": QUOTA}, required=[], additional=True),
        answer=SUBPOOL,
    )
    def post(self, request: Request, parent: str) -> Response:
        body, description, _ = unwrap_body(request)
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

        return self.run_once(lambda: _answer(self, parent, deed))


class SubpoolDetail(View):
    """One slice. An ARCHIVED one can be read by name, and only that."""

    @describe_operation("Show one slice.", answer=SUBPOOL)
    def get(self, request: Request, parent: str, subpool: str) -> Response:
        return subpool_response(self.actor, parent, subpool)

    @describe_operation(
        "Give a slice another quota.",
        query_parameters=[DRY_RUN],
        body=object_with({"quota": QUOTA}, required=[], additional=True),
        answer=SUBPOOL,
    )
    def patch(self, request: Request, parent: str, subpool: str) -> Response:
        body, description, _ = unwrap_body(request)
        quota = _checked(body, "quota")["quota"]
        version = expected_version(request)
        return _answer(
            self,
            parent,
            lambda: resize_subpool(
                actor=self.actor,
                parent=parent,
                subpool_name=subpool,
                quota=quota,
                description=description,
                expected_version=version,
            ),
        )

    @describe_operation(
        "Delete a slice: it drains first if work is on it.",
        query_parameters=[DRY_RUN],
        body=object_with({"cancel_pending": BOOLEAN}, required=[], additional=True),
        answer=SUBPOOL,
    )
    def delete(self, request: Request, parent: str, subpool: str) -> Response:
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body, "cancel_pending")
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


def subpool_response(actor: Actor, parent: str, subpool: str) -> Response:
    """One slice, in whatever state. Its canonical name among the pools answers the same (D9)."""
    get_visible_root(actor, parent)
    rows = Pool.objects.select_related("parent__backend", "usage")
    row = rows.filter(parent__name=parent, subpool_name=subpool).first()
    if row is None:
        raise NotFound(f"Pool {parent} has no subpool {subpool}.")
    return Response(subpool_body(row, subpool_from_row(row)), headers=etag_header(row.version))


def _answer(view: View, parent: str, deed: Callable[[], SubpoolResult]) -> Response:
    """Do it, or with `dry_run` say what it would do."""
    if query_boolean(view.request, "dry_run"):
        return Response(effect_on_pool_tree(parent, deed, actor=view.actor))
    result = deed()
    body = subpool_body(result.row, result.subpool, warnings=result.warnings, reactivated=result.reactivated)
    return Response(body, headers=etag_header(result.row.version))


def _checked(body: dict[str, object], *needed: str) -> dict[str, object]:
    """The body, with these keys and no others; every fault at once."""
    found = [unknown_key_violation(key) for key in body if key not in needed]
    found += [Violation(key, "missing", f"{key} is missing.") for key in needed if body.get(key) is None]
    name = body.get("subpool_name")
    if "subpool_name" in needed and name is not None and not isinstance(name, str):
        found.append(Violation("subpool_name", "bad_value", "subpool_name must be a text."))
    if found:
        raise BadInput.of(found)
    return body
