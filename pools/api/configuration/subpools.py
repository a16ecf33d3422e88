"""Subpools: list, create, read, resize, delete (design, A2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, require_change
from pools.api.questions import parameters_of, read_query
from pools.api.request_parsing import etag_header, unwrap_body
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.changes.command import body_fields
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, SetDrainDeadline, SubpoolChange
from pools.domain.errors import NotFound
from pools.domain.lists import SubpoolQuery
from pools.domain.people.roles import Actor
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.structured_input.declared_values import QUOTA as QUOTA_KIND
from pools.domain.values.amounts import encode_gpus
from pools.models import Pool
from pools.permissions import get_visible_root
from pools.representations.subpool import PoolTreeAnswer, SubpoolAnswer, pool_tree_body, subpool_body
from pools.selectors.quotas.pool_balance import read_balance, read_balances, subpool_from_row
from pools.selectors.quotas.pool_totals import LeafTotals, read_pool_totals
from pools.services.changes.dry_run import EffectAnswer, effect_on_pool_tree
from pools.services.configuration.subpools import (
    SubpoolResult,
    create_subpool,
    delete_subpool,
    resize_subpool,
    set_drain_deadline,
)

QUOTA = QUOTA_KIND.schema


class SubpoolList(View):
    """The subpools of a pool. A subpool is a part of a pool with a quota of its own."""

    @describe_operation(
        "Show a pool with its subpools. `available` is quota minus guaranteed use.",
        query_parameters=parameters_of(SubpoolQuery),
        answer=PoolTreeAnswer,
    )
    def get(self, request: Request, parent: str) -> Response:
        root = get_visible_root(self.actor, parent)
        query = read_query(SubpoolQuery, request)
        body = pool_tree_body(root, include_archived=query.include_archived)
        if not query.start_room:
            return Response(body)
        totals = read_pool_totals([root], read_balances([root]))
        return Response(
            {
                **body,
                **_starts(totals.of_pool(root.name)),
                "shared": {**body["shared"], **_starts(totals.of_leaf(root.name, None))},
                "subpools": [
                    {**part, **_starts(totals.of_leaf(root.name, part["subpool_name"]))} for part in body["subpools"]
                ],
            }
        )

    @describe_change(CreateSubpool, answer=SubpoolAnswer)
    def post(self, request: Request, parent: str) -> Response:
        return answer_change(self, CreateSubpool, create_subpool, SUBPOOL_CHANGES, {"parent": parent})


def _starts(held: LeafTotals) -> dict[str, Any]:
    return {
        "can_start_now": encode_gpus(held.can_start_now),
        "low_can_start_now": encode_gpus(held.low_can_start_now),
        "bar": held.bar.as_body(),
    }


class SubpoolDetail(View):
    """One subpool. An ARCHIVED subpool can only be read, by its name."""

    @describe_operation("Show one subpool.", answer=SubpoolAnswer)
    def get(self, request: Request, parent: str, subpool: str) -> Response:
        return subpool_response(self.actor, parent, subpool)

    @describe_change(ResizeSubpool, SetDrainDeadline, answer=SubpoolAnswer)
    def patch(self, request: Request, parent: str, subpool: str) -> Response:
        address = {"parent": parent, "subpool_name": subpool}
        require_change(self.actor, ResizeSubpool, address)
        if body_fields(SetDrainDeadline).keys() & unwrap_body(request)[0].keys():
            return answer_change(self, SetDrainDeadline, set_drain_deadline, SUBPOOL_CHANGES, address)
        return answer_change(self, ResizeSubpool, resize_subpool, SUBPOOL_CHANGES, address)

    @describe_change(DeleteSubpool, answer=SubpoolAnswer)
    def delete(self, request: Request, parent: str, subpool: str) -> Response:
        address = {"parent": parent, "subpool_name": subpool}
        return answer_change(self, DeleteSubpool, delete_subpool, SUBPOOL_CHANGES, address)


def subpool_response(actor: Actor, parent: str, subpool: str) -> Response:
    """One subpool, in any state. Its canonical name among the pools answers the same (design, D9)."""
    get_visible_root(actor, parent)
    rows = Pool.objects.select_related("parent__backend", "usage")
    row = rows.filter(parent__name=parent, subpool_name=subpool).first()
    if row is None:
        raise NotFound(f"Pool {parent} has no subpool {subpool}.")
    return Response(subpool_body(row, subpool_from_row(row), kinds_of(row.root)), headers=etag_header(row.version))


def _render(result: SubpoolResult) -> Response:
    body = subpool_body(
        result.row, result.subpool, kinds_of(result.row.root), warnings=result.warnings, reactivated=result.reactivated,
        cancelled=result.cancelled,
    )  # fmt: skip
    return Response(body, headers=etag_header(result.row.version))


def kinds_of(root: Pool) -> Mapping[str, PoolBalance]:
    """The balances of the flavors of a pool; no query where it names none."""
    return read_balance(root).kinds if root.flavors else {}


def _effect(command: SubpoolChange, run: Callable[[], object], actor: Actor) -> EffectAnswer:
    return effect_on_pool_tree(command.parent, run, actor=actor)


SUBPOOL_CHANGES = ChangeAnswer(_render, _effect)
