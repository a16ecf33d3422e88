"""500 workflows through a real API server, dispatched and observed to the end, and the latency from a pod's event to
its status. The benchmark acts as scheduler and kubelet. The limit for comparison: objects created by a bare client."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from bench.installation import Installation
from bench.kube import measure_on_api_server

WORKFLOWS, TASKS, SAMPLES, PATIENCE = 500, 2, 60, 600.0
POOL, BACKEND, NAMESPACE, LIMIT = "bench-dispatch", "bench-cluster", "bench", "bench-limit"
FILE = """workflow:
  name: job
  groups:
  - name: gang
    tasks:
    - {name: lead, image: ubuntu, command: [sh], lead: true}
    - {name: other, image: ubuntu, command: [sh]}
"""


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Seconds of each part for all workflows, the rate with that of a bare client, and the latency of single events."""
    return measure_on_api_server(lambda server: _measure(installation, server))


def _measure(installation: Installation, server: Any) -> dict[str, Any]:
    from scheduling.kube.connection import resource_kinds
    from scheduling.models import Workflow

    cluster = server.connect()
    for name in (NAMESPACE, LIMIT):
        cluster.create(resource_kinds.NAMESPACE, {"metadata": {"name": name}}, field_manager="bench")
    bare = _measure_bare_client(cluster)
    body = {"type": "kubernetes", "namespace": NAMESPACE, "kubeconfig": server.kubeconfig_text()}
    _send_request(installation, "PUT", f"/api/configs/backend/{BACKEND}", body)
    config = {"backend": BACKEND, "resources": {"gpu": {"guarantee": 100}}}
    _send_request(installation, "PUT", f"/api/configs/pool/{POOL}", {"configs": config})

    def count_completed() -> int:
        return Workflow.objects.filter(status="COMPLETED", pool__name=POOL).count()

    begin = time.perf_counter()
    for _ in range(WORKFLOWS // 100):
        _send_request(installation, "POST", f"/api/pool/{POOL}/workflows", {"workflows": [{"file": FILE}] * 100})
    submitted = time.perf_counter()
    pods = _wait_for(lambda: _list_pods(cluster, WORKFLOWS * TASKS))
    dispatched = time.perf_counter()
    _set_pod_status(cluster, pods, phase="Running")
    _wait_for(lambda: Workflow.objects.filter(status="RUNNING", pool__name=POOL).count() == WORKFLOWS)
    running = time.perf_counter()
    _set_pod_status(cluster, pods, phase="Succeeded")
    _wait_for(lambda: count_completed() == WORKFLOWS)
    observed = time.perf_counter()
    _wait_for(lambda: not cluster.list(resource_kinds.POD, namespace=NAMESPACE).items)
    gone = time.perf_counter()
    rate = WORKFLOWS * (1 + TASKS) / (dispatched - begin)
    return {
        "workflows": WORKFLOWS,
        "pods": WORKFLOWS * TASKS,
        "seconds": {
            "submitted": round(submitted - begin, 2),
            "dispatched": round(dispatched - begin, 2),
            "all_running": round(running - dispatched, 2),
            "all_ended": round(observed - running, 2),
            "all_gone": round(gone - observed, 2),
        },
        "objects_made_per_second": round(rate, 1),
        "bare_client_per_second": round(bare, 1),
        "ratio_to_bare_client": round(rate / bare, 2),
        "event_to_visible_ms": _measure_latency(installation, cluster),
    }


def _measure_bare_client(cluster: Any) -> float:
    """Objects per second that the same client creates with as many parallel calls and nothing else to do."""
    from scheduling.kube.connection import resource_kinds
    from scheduling.kube.connection.parallel import MAX_PARALLEL_CALLS

    def create_pod(number: int) -> None:
        spec = {"containers": [{"name": "c", "image": "ubuntu"}]}
        body = {"metadata": {"name": f"p{number}", "namespace": LIMIT}, "spec": spec}
        cluster.create(resource_kinds.POD, body, field_manager="bench")

    begin = time.perf_counter()
    with ThreadPoolExecutor(MAX_PARALLEL_CALLS) as executor:
        list(executor.map(create_pod, range(WORKFLOWS)))
    return WORKFLOWS / (time.perf_counter() - begin)


def _measure_latency(installation: Installation, cluster: Any) -> dict[str, float]:
    """From the answer to a pod's new status to the moment the ledger shows it, one pod at a time."""
    from scheduling.models import Workflow

    found = []
    for _ in range(SAMPLES):
        _send_request(installation, "POST", f"/api/pool/{POOL}/workflows", {"workflows": [{"file": FILE}]})
        pods = _wait_for(lambda: _list_pods(cluster, TASKS))
        _set_pod_status(cluster, pods[:1], phase="Running")
        begin = time.perf_counter()
        _wait_for(lambda: Workflow.objects.filter(status="RUNNING", pool__name=POOL).exists(), pause=0.001)
        found.append((time.perf_counter() - begin) * 1000)
        _set_pod_status(cluster, pods, phase="Succeeded")
        _wait_for(lambda: not _list_pods(cluster, 1))
    found.sort()
    return {
        "p50": round(statistics.median(found), 1),
        "p95": round(found[int(len(found) * 0.95)], 1),
        "worst": round(found[-1], 1),
    }


def _list_pods(cluster: Any, least: int) -> list[Any]:
    """Our pods, once there are at least that many; else nothing."""
    from scheduling.kube.connection import resource_kinds

    found = cluster.list(resource_kinds.POD, namespace=NAMESPACE).items
    return list(found) if len(found) >= least else []


def _set_pod_status(cluster: Any, pods: list[Any], **status: str) -> None:
    from scheduling.kube.connection import errors, resource_kinds

    def set_status(pod: Any) -> None:
        name = pod["metadata"]["name"]
        with suppress(errors.ObjectNotFound):  # its gang ended with its lead, so the pod is already removed
            cluster.merge(
                resource_kinds.POD, name, {"status": status}, field_manager="kubelet", namespace=NAMESPACE, status=True
            )

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(set_status, pods))


def _wait_for(condition: Callable[[], Any], *, pause: float = 0.02) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit("the condition did not come true in time")
        time.sleep(pause)
    return found


def _send_request(installation: Installation, method: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{installation.base_url}{path}",
        data=json.dumps(body).encode(),
        method=method,
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {installation.login()}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
