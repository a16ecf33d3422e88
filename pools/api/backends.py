"""Backends: where work runs (api.md, "Simulated backend"). They are the house's, and no secret: others are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version, only, unwrapped
from pools.api.schema import ANYTHING, BOOLEAN, DRY_RUN, NULL, OBJECT, TEXT, array, documented, fields
from pools.api.views import View
from pools.domain.backend_config import KINDS
from pools.domain.cluster_config import ACCESS, KEYS, KUBECONFIG, SHOWN, SYNC_MODES
from pools.domain.roles import Action
from pools.domain.sizes import exact_size
from pools.models import Backend, KubernetesSettings
from pools.permissions import require_house
from pools.services.backends import delete_backend, put_backend, read_backend
from pools.services.dry_run import effect_of

BACKEND_BODY = fields(
    {
        "type": {"type": "string", "enum": list(KINDS)},
        "namespace": TEXT,
        "nodes": array(
            fields(
                {
                    "name": TEXT,
                    "gpus": {"type": "integer"},
                    "cpu": {"type": "integer"},
                    "memory": ANYTHING,
                    "storage": ANYTHING,
                    "platform": TEXT,
                },
                required=["name", "gpus"],
            )
        ),
        "auto_end": BOOLEAN,
        "offline": BOOLEAN,
        "access": {"type": "string", "enum": list(ACCESS)},
        "kubeconfig": TEXT,
        "kubeconfig_file": TEXT,
        "context": TEXT,
        "scheduler_name": TEXT,
        "node_pool_key": TEXT,
        "node_pool": TEXT,
        "sync_mode": {"type": "string", "enum": list(SYNC_MODES)},
    },
    required=[],
    more=True,
)


class BackendList(View):
    """All backends."""

    @documented("List backends with their nodes.", answer=fields({"backends": array(OBJECT)}))
    def get(self, request: Request) -> Response:
        require_house(self.actor, Action.HOUSE_READ)
        rows = Backend.objects.select_related("kubernetes").prefetch_related("nodes", "pools").order_by("name")
        return Response({"backends": [backend_body(row) for row in rows]})


class BackendDetail(View):
    """One backend."""

    @documented("Show one backend with its nodes.", answer=OBJECT)
    def get(self, request: Request, name: str) -> Response:
        row = read_backend(self.actor, name)
        return Response(backend_body(row), headers=etag(row.version))

    @documented(
        "Make or change a backend; keys left out stay as they are. `nodes` and `auto_end` are a simulated one's, "
        "`access` and what follows a Kubernetes one's. `kubeconfig` is never shown again.",
        query=[DRY_RUN],
        body=BACKEND_BODY,
        answer=OBJECT,
    )
    def put(self, request: Request, name: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        version = expected_version(request)

        def deed() -> Any:
            return put_backend(
                actor=self.actor, name=name, body=body, description=description, expected_version=version
            )

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: _shown(name), actor=self.actor))
        result = deed()
        return Response(backend_body(result.row, warnings=result.warnings), headers=etag(result.row.version))

    @documented("Remove a backend that no pool is on.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        only(body)
        version = expected_version(request)

        def deed() -> None:
            delete_backend(actor=self.actor, name=name, description=description, expected_version=version)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: _shown(name), actor=self.actor))
        deed()
        return Response(None)


def backend_body(row: Backend, *, warnings: Iterable[str] = ()) -> dict[str, Any]:
    """A backend as a PUT takes it (but for its kubeconfig, which nobody sees again), with the pools on it and its
    version."""
    nodes = sorted(row.nodes.all(), key=lambda node: node.name)
    return {
        "name": row.name,
        "type": row.kind,
        "namespace": row.namespace,
        "description": row.description,
        "nodes": [
            {
                "name": node.name,
                "gpus": node.gpus,
                "cpu": node.cpu,
                "memory": exact_size(node.memory_bytes),
                "storage": exact_size(node.storage_bytes),
                "platform": node.platform,
            }
            for node in nodes
        ],
        "auto_end": row.auto_end,
        "offline": row.wished_offline,
        **_cluster_body(row),
        "pools": sorted(pool.name for pool in row.pools.all()),
        "version": row.version,
        "warnings": list(warnings),
    }


def _cluster_body(row: Backend) -> dict[str, Any]:
    """The Kubernetes side, nothing for others."""
    cluster: KubernetesSettings | None = getattr(row, "kubernetes", None)
    shown = [key for key in (*KEYS, *SHOWN) if key != KUBECONFIG]
    return {key: getattr(cluster, key) for key in shown} if cluster is not None else {}


def _shown(name: str) -> dict[str, Any] | None:
    row = Backend.objects.filter(name=name).first()
    return backend_body(row) if row else None
