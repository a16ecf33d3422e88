"""Backends: where work runs (design, A3). Only roles of the platform may read and change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NotRequired, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change, schema_of
from pools.api.request_parsing import etag_header, unwrap_as
from pools.api.schema import NULL, describe_operation
from pools.api.views import View
from pools.domain.changes.backends import BACKEND_KEYS, BackendChange, DeleteBackend, PutBackend
from pools.domain.configuration.cluster_config import ClusterKeys
from pools.domain.people.roles import Actor
from pools.domain.values.byte_sizes import exact_size_text
from pools.models import Backend, KubernetesSettings, Node
from pools.services.changes.dry_run import EffectAnswer, read_effect
from pools.services.configuration.backends import (
    BackendResult,
    delete_backend,
    list_backends,
    put_backend,
    read_backend,
)


class BackendNodeAnswer(TypedDict):
    """A node, with sizes as texts such as 1Ti."""

    name: str
    gpus: int
    cpu: int
    memory: str
    storage: str
    platform: str
    labels: NotRequired[dict[str, str]]
    flavor: NotRequired[str]


class FlavorAnswer(TypedDict):
    """A kind of hardware, and the labels of its nodes."""

    name: str
    node_labels: dict[str, str]


class BackendAnswer(ClusterKeys):
    """A backend as a PUT takes it (without its kubeconfig, which is never shown), with its pools and its version."""

    name: str
    type: str
    namespace: str
    description: str
    nodes: list[BackendNodeAnswer]
    auto_end: bool
    reserve_after: int | None
    ageing: int | None
    victims: str
    degraded: str
    flavors: NotRequired[list[FlavorAnswer]]
    offline: bool
    pools: list[str]
    version: int
    warnings: list[str]


class BackendListAnswer(TypedDict):
    """All backends."""

    backends: list[BackendAnswer]


class BackendList(View):
    """All backends."""

    @describe_operation("List backends with their nodes.", answer=BackendListAnswer)
    def get(self, request: Request) -> Response:
        rows = list_backends(self.actor).select_related("kubernetes").prefetch_related("nodes", "pools")
        return Response(BackendListAnswer(backends=[backend_body(row) for row in rows]))


class BackendDetail(View):
    """One backend."""

    @describe_operation("Show one backend with its nodes.", answer=BackendAnswer)
    def get(self, request: Request, name: str) -> Response:
        row = read_backend(self.actor, name)
        return Response(backend_body(row), headers=etag_header(row.version))

    @describe_change(PutBackend, body=schema_of(BACKEND_KEYS), answer=BackendAnswer)
    def put(self, request: Request, name: str) -> Response:
        return answer_change(self, PutBackend, put_backend, BACKEND_CHANGES, {"name": name}, unwrap=unwrap_as("body"))

    @describe_change(DeleteBackend, answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        return answer_change(self, DeleteBackend, delete_backend, BACKEND_DELETION, {"name": name})


def _effect(command: BackendChange, run: Callable[[], object], actor: Actor) -> EffectAnswer:
    return read_effect(run, read_state=partial(_find_backend_body, command.name), actor=actor)


def _render(result: BackendResult) -> Response:
    return Response(backend_body(result.row, warnings=result.warnings), headers=etag_header(result.row.version))


BACKEND_CHANGES: ChangeAnswer[PutBackend, BackendResult] = ChangeAnswer(_render, _effect)
BACKEND_DELETION: ChangeAnswer[DeleteBackend, None] = ChangeAnswer(answer_nothing, _effect)


def backend_body(row: Backend, *, warnings: Iterable[str] = ()) -> BackendAnswer:
    """One backend."""
    nodes = sorted(row.nodes.all(), key=lambda node: node.name)
    body: BackendAnswer = {
        "name": row.name,
        "type": row.kind,
        "namespace": row.namespace,
        "description": row.description,
        "nodes": [_node_body(node, row) for node in nodes],
        "auto_end": row.auto_end,
        "reserve_after": row.reserve_after,
        "ageing": row.ageing,
        "victims": row.victims,
        "degraded": row.degraded,
        "offline": row.desired_offline,
        "pools": sorted(pool.name for pool in row.pools.all()),
        "version": row.version,
        "warnings": list(warnings),
    }
    if row.flavors:
        body["flavors"] = row.flavors
    return cast("BackendAnswer", {**body, **_cluster_body(row)})


def _node_body(node: Node, backend: Backend) -> BackendNodeAnswer:
    body: BackendNodeAnswer = {
        "name": node.name,
        "gpus": node.gpus,
        "cpu": node.cpu,
        "memory": exact_size_text(node.memory_bytes),
        "storage": exact_size_text(node.storage_bytes),
        "platform": node.platform,
    }
    if node.labels:
        body["labels"] = node.labels
    if backend.flavors:
        body["flavor"] = node.flavor
    return body


def _cluster_body(row: Backend) -> ClusterKeys:
    """The keys of a Kubernetes backend; none for a simulated one."""
    cluster: KubernetesSettings | None = getattr(row, "kubernetes", None)
    keys = ClusterKeys.__annotations__ if cluster is not None else ()
    return cast("ClusterKeys", {key: getattr(cluster, key) for key in keys})


def _find_backend_body(name: str) -> BackendAnswer | None:
    row = Backend.objects.filter(name=name).first()
    return backend_body(row) if row else None
