"""The quotas of a cluster's pools, and what of them it can give now."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.shortage.degraded import HeldPromise
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.selectors.quotas.degraded import ClusterPromises, read_promises


class PromiseAnswer(TypedDict):
    """The quota of a pool in GPUs, of a `flavor` where the pool names some: the part that the cluster can give now
    (`held`), and the rest."""

    pool: str
    flavor: NotRequired[str]
    quota: int
    held: int
    missing: int


class ClusterPromisesAnswer(TypedDict):
    """The promises of a cluster. The sums are null for callers who may not see all its pools: `usable` are the GPUs of
    nodes that take work, and those that work holds on the others; `gpus` those of all nodes."""

    backend: str
    degraded: bool
    rule: str
    usable: int | None
    gpus: int | None
    missing: int | None
    pools: list[PromiseAnswer]


class ClusterPromisesDetail(View):
    """While a cluster has fewer usable GPUs than the quotas of its pools, they share what it has by its rule
    `degraded`."""

    @describe_operation(
        "Show what of the quotas of a backend's pools it can give now, for the pools that the caller may see.",
        answer=ClusterPromisesAnswer,
    )
    def get(self, request: Request, backend: str) -> Response:
        return Response(_body(read_promises(self.actor, backend)))


def _body(found: ClusterPromises) -> ClusterPromisesAnswer:
    return {
        "backend": found.backend,
        "degraded": found.is_degraded,
        "rule": found.rule.value,
        "usable": found.usable,
        "gpus": found.gpus,
        "missing": found.missing,
        "pools": [promise_body(each) for each in found.pools],
    }


def promise_body(each: HeldPromise) -> PromiseAnswer:
    """A promise as an answer has it."""
    body: PromiseAnswer = {"pool": each.pool, "quota": each.quota, "held": each.held, "missing": each.missing}
    return body if each.flavor == DEFAULT_FLAVOR else {**body, "flavor": each.flavor}
