"""500 workflows through a real API server, dispatched and observed to the end, and the latency from a pod's event to
its status. The benchmark plays scheduler and kubelet. Beside it the limit: objects created by a bare client."""

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
    """Seconds of each part for all workflows, the rate beside a bare client's, and the latency of single events."""
    return measure_on_api_server(lambda server: _measure(installation, server))


def _measure(installation: Installation, server: Any) -> dict[str, Any]:
    from scheduling.kube import resource_kinds
    from scheduling.models import Workflow

    cluster = server.connect()
    for name in (NAMESPACE, LIMIT):
        cluster.create(resource_kinds.NAMESPACE, {"metadata": {"name": name}}, field_manager="bench")
    bare = _bare_client(cluster)
    body = {"type": "kubernetes", "namespace": NAMESPACE, "kubeconfig": server.kubeconfig_text()}
    _ask(installation, "PUT", f"/api/configs/backend/{BACKEND}", body)
    config = {"backend": BACKEND, "resources": {"gpu": {"guarantee": 100}}}
    _ask(installation, "PUT", f"/api/configs/pool/{POOL}", {"configs": config})

    def ended() -> int:
        return Workflow.objects.filter(status="COMPLETED", pool__name=POOL).count()

    begin = time.perf_counter()
    for _ in range(WORKFLOWS // 100):
        _ask(installation, "POST", f"/api/pool/{POOL}/workflows", {"workflows": [{"file": FILE}] * 100})
    submitted = time.perf_counter()
    pods = _until(lambda: _pods(cluster, WORKFLOWS * TASKS))
    dispatched = time.perf_counter()
    _say(cluster, pods, phase="Running")
    _until(lambda: Workflow.objects.filter(status="RUNNING", pool__name=POOL).count() == WORKFLOWS)
    running = time.perf_counter()
    _say(cluster, pods, phase="Succeeded")
    _until(lambda: ended() == WORKFLOWS)
    observed = time.perf_counter()
    _until(lambda: not cluster.list(resource_kinds.POD, namespace=NAMESPACE).items)
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
        "event_to_visible_ms": _latency(installation, cluster),
    }


def _bare_client(cluster: Any) -> float:
    """Objects per second that the same client creates with as many parallel calls and nothing else to do."""
    from scheduling.kube import resource_kinds
    from scheduling.kube.parallel import MAX_PARALLEL_CALLS

    def make(number: int) -> None:
        spec = {"containers": [{"name": "c", "image": "ubuntu"}]}
        body = {"metadata": {"name": f"p{number}", "namespace": LIMIT}, "spec": spec}
        cluster.create(resource_kinds.POD, body, field_manager="bench")

    begin = time.perf_counter()
    with ThreadPoolExecutor(MAX_PARALLEL_CALLS) as hands:
        list(hands.map(make, range(WORKFLOWS)))
    return WORKFLOWS / (time.perf_counter() - begin)


def _latency(installation: Installation, cluster: Any) -> dict[str, float]:
    """From the answer to a pod's new status to the moment the ledger shows it, one pod at a time."""
    from scheduling.models import Workflow

    found = []
    for _ in range(SAMPLES):
        _ask(installation, "POST", f"/api/pool/{POOL}/workflows", {"workflows": [{"file": FILE}]})
        pods = _until(lambda: _pods(cluster, TASKS))
        _say(cluster, pods[:1], phase="Running")
        begin = time.perf_counter()
        _until(lambda: Workflow.objects.filter(status="RUNNING", pool__name=POOL).exists(), pause=0.001)
        found.append((time.perf_counter() - begin) * 1000)
        _say(cluster, pods, phase="Succeeded")
        _until(lambda: not _pods(cluster, 1))
    found.sort()
    return {
        "p50": round(statistics.median(found), 1),
        "p95": round(found[int(len(found) * 0.95)], 1),
        "worst": round(found[-1], 1),
    }


def _pods(cluster: Any, least: int) -> list[Any]:
    """Our pods, once there are at least so many; else nothing."""
    from scheduling.kube import resource_kinds

    found = cluster.list(resource_kinds.POD, namespace=NAMESPACE).items
    return list(found) if len(found) >= least else []


def _say(cluster: Any, pods: list[Any], **status: str) -> None:
    from scheduling.kube import errors, resource_kinds

    def tell(pod: Any) -> None:
        name = pod["metadata"]["name"]
        with suppress(errors.ObjectNotFound):  # its gang ended with its lead, and is taken away already
            cluster.merge(
                resource_kinds.POD, name, {"status": status}, field_manager="kubelet", namespace=NAMESPACE, status=True
            )

    with ThreadPoolExecutor(4) as hands:
        list(hands.map(tell, pods))


def _until(look: Callable[[], Any], *, pause: float = 0.02) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > end:
            raise SystemExit("the condition did not come true in time")
        time.sleep(pause)
    return found


def _ask(installation: Installation, method: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{installation.base_url}{path}",
        data=json.dumps(body).encode(),
        method=method,
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {installation.login()}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
