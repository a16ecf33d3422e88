"""Backends: where work runs (api.md, "Simulated backend"). Only roles of the platform may read and change them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import etag_header, expected_version, query_boolean, reject_unknown_keys, unwrap_body
from pools.api.schema import ANY_VALUE, BOOLEAN, DRY_RUN, NULL, OBJECT, TEXT, array_of, describe_operation, object_with
from pools.api.views import View
from pools.domain.backend_config import BACKEND_TYPES, POLICY_DEFAULTS, POLICY_TIMES, VictimRule
from pools.domain.byte_sizes import exact_size_text
from pools.domain.cluster_config import ACCESS_MODES, ANSWER_KEYS, KEYS, KUBECONFIG, SYNC_MODES
from pools.domain.roles import Permission
from pools.models import Backend, KubernetesSettings
from pools.permissions import require_platform
from pools.services.backends import delete_backend, put_backend, read_backend
from pools.services.dry_run import read_effect

BACKEND_BODY = object_with(
    {
        "type": {"type": "string", "enum": list(BACKEND_TYPES)},
        "namespace": TEXT,
        "nodes": array_of(
            object_with(
                {
                    "name": TEXT,
                    "gpus": {"type": "integer"},
                    "cpu": {"type": "integer"},
                    "memory": ANY_VALUE,
                    "storage": ANY_VALUE,
                    "platform": TEXT,
                },
                required=["name", "gpus"],
            )
        ),
        "auto_end": BOOLEAN,
        **{key: {"type": ["integer", "null"]} for key in POLICY_TIMES},
        "victims": {"type": "string", "enum": [rule.value for rule in VictimRule]},
        "offline": BOOLEAN,
        "access": {"type": "string", "enum": list(ACCESS_MODES)},
        "kubeconfig": TEXT,
        "kubeconfig_file": TEXT,
        "context": TEXT,
        "scheduler_name": TEXT,
        "node_pool_key": TEXT,
        "node_pool": TEXT,
        "sync_mode": {"type": "string", "enum": list(SYNC_MODES)},
    },
    required=[],
    additional=True,
)


class BackendList(View):
    """All backends."""

    @describe_operation("List backends with their nodes.", answer=object_with({"backends": array_of(OBJECT)}))
    def get(self, request: Request) -> Response:
        require_platform(self.actor, Permission.PLATFORM_READ)
        rows = Backend.objects.select_related("kubernetes").prefetch_related("nodes", "pools").order_by("name")
        return Response({"backends": [backend_body(row) for row in rows]})


class BackendDetail(View):
    """One backend."""

    @describe_operation("Show one backend with its nodes.", answer=OBJECT)
    def get(self, request: Request, name: str) -> Response:
        row = read_backend(self.actor, name)
        return Response(backend_body(row), headers=etag_header(row.version))

    @describe_operation(
        "Create or change a backend; keys left out stay as they are. `nodes`, `auto_end`, `victims`, and "
        "`reserve_after` and `ageing` (seconds; null: never) belong to a simulated backend, `access` and the keys "
        "after it to a Kubernetes backend. `kubeconfig` is never shown again.",
        query_parameters=[DRY_RUN],
        body=BACKEND_BODY,
        answer=OBJECT,
    )
    def put(self, request: Request, name: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        version = expected_version(request)

        def operation() -> Any:
            return put_backend(
                actor=self.actor, name=name, body=body, description=description, expected_version=version
            )

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: _find_backend_body(name), actor=self.actor))
        result = operation()
        return Response(backend_body(result.row, warnings=result.warnings), headers=etag_header(result.row.version))

    @describe_operation("Remove a backend that has no pools.", query_parameters=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        version = expected_version(request)

        def operation() -> None:
            delete_backend(actor=self.actor, name=name, description=description, expected_version=version)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: _find_backend_body(name), actor=self.actor))
        operation()
        return Response(None)


def backend_body(row: Backend, *, warnings: Iterable[str] = ()) -> dict[str, Any]:
    """A backend as a PUT takes it (without its kubeconfig, which is never shown), with its pools and its version."""
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
                "memory": exact_size_text(node.memory_bytes),
                "storage": exact_size_text(node.storage_bytes),
                "platform": node.platform,
            }
            for node in nodes
        ],
        "auto_end": row.auto_end,
        **{key: getattr(row, key) for key in POLICY_DEFAULTS},
        "offline": row.desired_offline,
        **_cluster_body(row),
        "pools": sorted(pool.name for pool in row.pools.all()),
        "version": row.version,
        "warnings": list(warnings),
    }


def _cluster_body(row: Backend) -> dict[str, Any]:
    """The keys of a Kubernetes backend; none for a simulated one."""
    cluster: KubernetesSettings | None = getattr(row, "kubernetes", None)
    shown_keys = [key for key in (*KEYS, *ANSWER_KEYS) if key != KUBECONFIG]
    return {key: getattr(cluster, key) for key in shown_keys} if cluster is not None else {}


def _find_backend_body(name: str) -> dict[str, Any] | None:
    row = Backend.objects.filter(name=name).first()
    return backend_body(row) if row else None
