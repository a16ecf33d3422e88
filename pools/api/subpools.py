"""Subpools: list, create, read, resize, delete (api.md, "Subpools")."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.approvals import REQUEST_APPROVAL, run_or_request
from pools.api.request_parsing import (
    BodyReader,
    etag_header,
    expected_version,
    query_boolean,
    unwrap_body,
)
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    DRY_RUN,
    INCLUDE_ARCHIVED,
    INTEGER,
    OBJECT,
    TEXT,
    QueryParameter,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from pools.domain.amounts import NO_LIMIT, UNLIMITED, Amount
from pools.domain.approvals import ApprovalService
from pools.domain.errors import NotFound
from pools.domain.query_values import parse_datetime
from pools.domain.roles import Actor, Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.permissions import get_visible_root, require_permission
from pools.representations.subpool import pool_tree_body, subpool_body
from pools.selectors.pool_balance import read_balances, subpool_from_row
from pools.selectors.start_room import read_start_room
from pools.services.approvals import RequestedChange
from pools.services.dry_run import effect_on_pool_tree
from pools.services.subpools import (
    SubpoolResult,
    create_subpool,
    delete_subpool,
    resize_subpool,
    set_drain_deadline,
)

QUOTA = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}
SUBPOOL = object_with(
    {
        "name": TEXT,
        "parent_pool": TEXT,
        "subpool_name": TEXT,
        "subpool_state": {"type": "string", "enum": [str(state) for state in SubpoolState]},
        "quota": INTEGER,
        "last_quota": INTEGER,
        "quota_until": nullable(DATETIME),
        "quota_after": nullable(INTEGER),
        "drain_by": nullable(DATETIME),
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
START_ROOM = QueryParameter(
    "start_room",
    {"type": "boolean"},
    "With `can_start_now` of the pool, the shared leaf and each subpool: GPUs that quotas and limits let start now, "
    "LOW work included; -1 is unlimited.",
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
    """The subpools of a pool. A subpool is a part of a pool with a quota of its own."""

    @describe_operation(
        "Show a pool with its subpools. `available` is quota minus guaranteed use.",
        query_parameters=[INCLUDE_ARCHIVED, START_ROOM],
        answer=POOL_TREE,
    )
    def get(self, request: Request, parent: str) -> Response:
        root = get_visible_root(self.actor, parent)
        body = pool_tree_body(root, include_archived=query_boolean(request, "include_archived"))
        if not query_boolean(request, "start_room"):
            return Response(body)
        room = read_start_room([root], read_balances([root]))
        body["can_start_now"] = _room_number(room.of_pool(root.name))
        body["shared"]["can_start_now"] = _room_number(room.of_leaf(root.name, None))
        for part in body["subpools"]:
            part["can_start_now"] = _room_number(room.of_leaf(root.name, part["subpool_name"]))
        return Response(body)

    @describe_operation(
        "Create a subpool, or restore an archived one.",
        query_parameters=[DRY_RUN, REQUEST_APPROVAL],
        body=object_with({"subpool_name": TEXT, "quota": QUOTA}, required=[], additional=True),
        answer=SUBPOOL,
    )
    def post(self, request: Request, parent: str) -> Response:
        body, description, _ = unwrap_body(request)
        reader = _read_required(body, "subpool_name", "quota")
        name, quota = reader.any_text("subpool_name"), body.get("quota")
        reader.raise_faults()
        version = expected_version(request)

        def operation() -> SubpoolResult:
            return create_subpool(
                actor=self.actor,
                parent=parent,
                subpool_name=name,
                quota=quota,
                description=description,
                expected_version=version,
            )

        # A request for an approval is stored after the transaction of the refused change; its repetition finds it.
        return run_or_request(
            self,
            lambda: self.run_once(
                lambda: _run_or_preview(self, parent, operation),
                require=lambda: require_permission(self.actor, Permission.POOL_PARTITION, parent),
                is_preview=query_boolean(request, "dry_run"),
            ),
            RequestedChange(
                ApprovalService.CREATE_SUBPOOL,
                {"parent": parent, "subpool_name": name, "quota": quota},
                description,
            ),
        )


def _room_number(amount: Amount) -> int:
    return NO_LIMIT if amount == UNLIMITED else int(amount)


class SubpoolDetail(View):
    """One subpool. An ARCHIVED subpool can only be read, by its name."""

    @describe_operation("Show one subpool.", answer=SUBPOOL)
    def get(self, request: Request, parent: str, subpool: str) -> Response:
        return subpool_response(self.actor, parent, subpool)

    @describe_operation(
        "Change the quota of a subpool, with `until` (UTC) for a limited time: then it gets its present quota again. A "
        "draining subpool takes `drain_by` alone: the time (UTC) at which its work should have ended, null for none.",
        query_parameters=[DRY_RUN, REQUEST_APPROVAL],
        body=object_with(
            {"quota": QUOTA, "until": nullable(DATETIME), "drain_by": nullable(DATETIME)}, required=[], additional=True
        ),
        answer=SUBPOOL,
    )
    def patch(self, request: Request, parent: str, subpool: str) -> Response:
        body, description, _ = unwrap_body(request)
        if "drain_by" in body:
            return self._set_deadline(parent, subpool, body, description)
        reader = _read_required(body, "quota", optional=("until",))
        until = _read_time(reader, "until")
        reader.raise_faults()
        quota = body["quota"]
        version = expected_version(request)
        return run_or_request(
            self,
            lambda: _run_or_preview(
                self,
                parent,
                lambda: resize_subpool(
                    actor=self.actor,
                    parent=parent,
                    subpool_name=subpool,
                    quota=quota,
                    until=until,
                    description=description,
                    expected_version=version,
                ),
            ),
            RequestedChange(
                ApprovalService.RESIZE_SUBPOOL,
                {"parent": parent, "subpool_name": subpool, "quota": quota, "until": until},
                description,
            ),
        )

    @describe_operation(
        "Delete a subpool; it drains first if it has active work. `drain_by` is the time (UTC) at which that work "
        "should have ended; no work is stopped then.",
        query_parameters=[DRY_RUN, REQUEST_APPROVAL],
        body=object_with({"cancel_pending": BOOLEAN, "drain_by": nullable(DATETIME)}, required=[], additional=True),
        answer=SUBPOOL,
    )
    def delete(self, request: Request, parent: str, subpool: str) -> Response:
        body, description, _ = unwrap_body(request)
        reader = BodyReader(body)
        reader.reject_unknown_keys(("cancel_pending", "drain_by"), ())
        cancel_pending = reader.boolean("cancel_pending")
        drain_by = _read_time(reader, "drain_by")
        reader.raise_faults()
        version = expected_version(request)
        return run_or_request(
            self,
            lambda: _run_or_preview(
                self,
                parent,
                lambda: delete_subpool(
                    actor=self.actor,
                    parent=parent,
                    subpool_name=subpool,
                    cancel_pending=cancel_pending,
                    drain_by=drain_by,
                    description=description,
                    expected_version=version,
                ),
            ),
            RequestedChange(
                ApprovalService.DELETE_SUBPOOL,
                {
                    "parent": parent,
                    "subpool_name": subpool,
                    "cancel_pending": cancel_pending,
                    "drain_by": drain_by,
                },
                description,
            ),
        )

    def _set_deadline(self, parent: str, subpool: str, body: dict[str, object], description: str) -> Response:
        reader = BodyReader(body)
        reader.reject_unknown_keys(("drain_by",), ())
        drain_by = _read_time(reader, "drain_by")
        reader.raise_faults()
        version = expected_version(self.request)
        return _run_or_preview(
            self,
            parent,
            lambda: set_drain_deadline(
                actor=self.actor,
                parent=parent,
                subpool_name=subpool,
                drain_by=drain_by,
                description=description,
                expected_version=version,
            ),
        )


def subpool_response(actor: Actor, parent: str, subpool: str) -> Response:
    """One subpool, in any state. Its canonical name among the pools answers the same (D9)."""
    get_visible_root(actor, parent)
    rows = Pool.objects.select_related("parent__backend", "usage")
    row = rows.filter(parent__name=parent, subpool_name=subpool).first()
    if row is None:
        raise NotFound(f"Pool {parent} has no subpool {subpool}.")
    return Response(subpool_body(row, subpool_from_row(row)), headers=etag_header(row.version))


def _run_or_preview(view: View, parent: str, operation: Callable[[], SubpoolResult]) -> Response:
    """Run the operation, or with `dry_run` answer the effect."""
    if query_boolean(view.request, "dry_run"):
        return Response(effect_on_pool_tree(parent, operation, actor=view.actor))
    result = operation()
    body = subpool_body(result.row, result.subpool, warnings=result.warnings, reactivated=result.reactivated)
    return Response(body, headers=etag_header(result.row.version))


def _read_time(reader: BodyReader, key: str) -> datetime | None:
    """The end of a temporary quota or the deadline of a drain: an ISO time, in UTC if it has no zone. None without
    one."""
    text = reader.body.get(key)
    if text is None:
        return None
    end = parse_datetime(text) if isinstance(text, str) else None
    if end is None:
        reader.add_fault(key, "bad_value", "must be a time such as 2026-11-27T18:00:00 (UTC).")
    return end


def _read_required(body: dict[str, object], *required: str, optional: Collection[str] = ()) -> BodyReader:
    """The reader of a body that needs these keys and takes no others but the optional ones."""
    reader = BodyReader(body)
    reader.reject_unknown_keys((*required, *optional), ())
    for key in required:
        if not reader.is_given(key):
            reader.add_fault(key, "missing", "is missing.")
    return reader
