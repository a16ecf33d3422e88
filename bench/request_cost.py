"""Processor time of single requests in the web process, without HTTP: `python -m bench request_cost`.

Each request goes through the WSGI application with all its middlewares, in this process, on the database of a real
installation with 101 pools, 404 nodes and thousands of workflows. `version` touches no table, so it is the floor; every
other row is compared with it. A row is the median of three rounds, in processor milliseconds of this process (the
database's own are not included), with its number of SQL statements. Round trips differ from statements: a BEGIN travels
alone.
"""

from __future__ import annotations

import io
import json
import logging
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from bench import fill
from bench.installation import Installation
from bench.pgbench import workflow_file
from bench.statements import counted_statements
from pools.domain.changes.gpu_quotas import PutGpuQuota

POOLS, NODES, ENDED, WAITING = 101, 404, 5_000, 100
ROUNDS, REQUESTS, WARM_UP = 3, 150, 20
TARGETS_MS = {
    "version": 0.8, "profile": 2, "pool_quota_one": 2.5, "pool_quota_all": 7, "workflow_list": 3.5, "queue": 8.82,
    "workflow": 2.85, "dry_run": 4, "submission": 4.5, "gpu_allocate": 3.5, "gpu_release": 3.5, "admission_review": 1.5,
}  # fmt: skip
"""Issue targets. Those of `queue` and `workflow` are half of their first recorded measurement, 17.64 and 5.7 ms on
2026-11-23."""

HOT, LISTED, QUEUED = "cost0", "cost1", "cost2"
NAMESPACE = "bench-cost"
BACKEND = "cost"


@dataclass(frozen=True, slots=True)
class CostRequest:
    """One kind of request; `body(number)` makes the body of the n-th one. The answer must contain `expected`."""

    method: str
    path: Callable[[int], str]
    body: Callable[[int], bytes] = lambda _number: b""
    expected: bytes = b""


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Every row: median processor milliseconds, statements, its ratio to `version`, and its target."""
    from osmo_admin.monitoring.logs import leave_out_call_sites
    from osmo_admin.serving.collector import set_collector_for_requests
    from osmo_admin.wsgi import application

    token = installation.login()
    name, mark = fill_installation()
    set_collector_for_requests()  # as in the web process
    leave_out_call_sites()
    _drop_log_lines()
    rows: dict[str, Any] = {}
    for row, request in make_requests(name, mark).items():
        call = _Caller(application, token, request)
        call.repeat(WARM_UP)
        measured = [call.cost_ms(REQUESTS) for _ in range(ROUNDS)]
        rows[row] = {"ms": round(statistics.median(measured), 2), "statements": call.statements()}
    for row, values in rows.items():
        values["over_version"] = round(values["ms"] / rows["version"]["ms"], 1)
        if row in TARGETS_MS:
            values |= {"target_ms": TARGETS_MS[row], "within_target": values["ms"] <= TARGETS_MS[row]}
    return rows


def _drop_log_lines() -> None:
    """The line of each request is made, as in the web process, and goes nowhere: standard error is for people."""
    nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(nowhere)


class _Caller:
    """Sends one kind of request; each request has a number of its own."""

    def __init__(self, application: Callable[..., Any], token: str, request: CostRequest) -> None:
        self._application, self._token, self._request = application, token, request
        self._number = 0

    def repeat(self, count: int) -> None:
        for _ in range(count):
            self._send(self._environ())

    def cost_ms(self, count: int) -> float:
        environs = [self._environ() for _ in range(count)]
        begin = time.process_time()
        for environ in environs:
            self._send(environ)
        return (time.process_time() - begin) * 1000 / count

    def statements(self) -> int:
        with counted_statements() as count:
            self._send(self._environ())
        return count()

    def _environ(self) -> dict[str, Any]:
        self._number += 1
        request = self._request
        path, _, query = request.path(self._number).partition("?")
        body = request.body(self._number)
        return {
            "REQUEST_METHOD": request.method, "PATH_INFO": path, "QUERY_STRING": query, "SCRIPT_NAME": "",
            "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1", "HTTP_AUTHORIZATION": f"Bearer {self._token}", "HTTP_ACCEPT": "application/json",
            "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body),
            "wsgi.url_scheme": "http", "wsgi.errors": io.StringIO(), "wsgi.version": (1, 0),
            "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False,
        }  # fmt: skip

    def _send(self, environ: dict[str, Any]) -> None:
        statuses: list[str] = []
        response = self._application(environ, lambda status, _headers, _error=None: statuses.append(status))
        text = b"".join(response)
        response.close()
        if not statuses[0].startswith("2") or self._request.expected not in text:
            raise SystemExit(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}: {statuses[0]} {text[:500]!r}")


def make_requests(name: str, mark: str) -> dict[str, CostRequest]:
    def submission(prefix: str) -> Callable[[int], bytes]:
        return lambda number: json.dumps({"file": workflow_file(f"{prefix}{number}")}).encode()

    def worker(number: int) -> bytes:
        amounts = {"request": {"tflops": "10", "vram": "1Gi"}, "limit": {"tflops": "20", "vram": "2Gi"}}
        return json.dumps({"id": f"cost-{number}", "workload": "bench", "count": 1, **amounts}).encode()

    allocations = f"/api/gpu_quota/{NAMESPACE}/allocation"
    return {
        "version": CostRequest("GET", lambda _: "/api/version"),
        "profile": CostRequest("GET", lambda _: "/api/profile/settings"),
        "pool_quota_one": CostRequest("GET", lambda _: f"/api/pool_quota?pools={HOT}"),
        "pool_quota_all": CostRequest("GET", lambda _: "/api/pool_quota?all_pools=True"),
        "workflow_list": CostRequest("GET", lambda _: "/api/workflow?limit=20&order=DESC&all_pools=True"),
        "queue": CostRequest("GET", lambda _: f"/api/queue?pool={QUEUED}"),
        "workflow": CostRequest("GET", lambda _: f"/api/workflow/{name}"),
        "dry_run": CostRequest("POST", lambda _: f"/api/pool/{HOT}/workflow?dry_run=True", submission("dry")),
        "submission": CostRequest("POST", lambda _: f"/api/pool/{HOT}/workflow", submission("real")),
        "gpu_allocate": CostRequest("POST", lambda _: allocations, worker),
        "gpu_release": CostRequest("DELETE", lambda number: f"{allocations}/cost-{number}"),
        "admission_review": CostRequest(
            "POST", lambda _: f"/webhooks/pod/{BACKEND}/{mark}", lambda _: _REVIEW, b'"allowed":true'
        ),
    }


_REVIEW = json.dumps({
    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    "request": {
        "uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "namespace": "team", "name": "p",
        "userInfo": {"username": "somebody", "groups": []},
        "object": {
            "metadata": {"name": "p", "labels": {"kai.scheduler/queue": "default-queue"}},
            "spec": {"containers": [{"name": "c", "image": "busybox"}]},
        },
    },
}).encode()  # fmt: skip


def fill_installation(*, is_offline: bool = True) -> tuple[str, str]:
    """Pools, nodes, waiting workflows, a GPU quota and a queue guard; the name of one workflow, and the mark of the
    webhooks. Nothing is scheduled on an offline backend."""
    from pools.domain.people.roles import SYSTEM
    from pools.models import Backend, Node
    from pools.services.gpu_quota.gpu_quotas import put_gpu_quota
    from scheduling.models import QueueGuard, Workflow
    from scheduling.services.webhooks.marks import current_mark

    backend = Backend.objects.create(name=BACKEND, namespace=BACKEND, offline=is_offline)
    guard = QueueGuard.objects.create(backend=backend, mode=QueueGuard.Mode.ENFORCE)
    Node.objects.bulk_create([Node(backend=backend, name=f"n{number:04}", gpus=8) for number in range(NODES)])
    fill.insert_pools(POOLS, prefix="cost", on=backend.pk, guarantee=100_000)
    fill.insert_pending([*[fill.PendingWorkload(LISTED)] * ENDED, *[fill.PendingWorkload(QUEUED)] * WAITING])
    put_gpu_quota(
        PutGpuQuota(
            namespace=NAMESPACE, spec={"total": {"requests": {"tflops": "1E", "vram": "1E"}, "maxWorkers": 2**31 - 1}}
        ),
        actor=SYSTEM,
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    name: str = Workflow.objects.filter(pool__name=QUEUED).values_list("name", flat=True)[0]
    return name, current_mark(guard)
