"""GPU quota by namespace: allocate and release, over HTTP and as a service call, compared with pgbench of the same
transactions; and rebuilding 1,000 namespaces from 50,000 pods.

`python -m bench.gpu_quota NAMESPACES SECONDS PREFIX` is one process of the service load; it prints the number of its
pairs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench import load, pgbench
from bench.installation import Installation
from pools.domain.changes.gpu_quotas import PutGpuQuota

NAMESPACES = 1000
PODS = 50_000
CLIENTS = (1, 8)
"""HTTP clients, processes that call the services, clients of pgbench."""

MARK = "bench999983"
SPEC = {"total": {"requests": {"tflops": "1E", "vram": "1E"}, "maxWorkers": 2**31 - 1}, "single": {"maxGPUCount": 8}}
BODY = {"request": {"tflops": "10", "vram": "1Gi"}, "limit": {"tflops": "20", "vram": "2Gi"}, "count": 2}


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """One hot namespace and a thousand, each with its limit; then the rebuild."""
    from pools.domain.people.roles import SYSTEM
    from pools.services.gpu_quota.gpu_quotas import put_gpu_quota

    for number in range(NAMESPACES):
        put_gpu_quota(PutGpuQuota(namespace=f"ns{number}", spec=SPEC), actor=SYSTEM)
    statements = _capture_statements()
    report: dict[str, Any] = {"statements_per_pair": len(statements)}
    for label, namespaces in (("one_hot_namespace", 1), (f"{NAMESPACES}_namespaces", NAMESPACES)):
        rows: dict[str, Any] = {}
        for clients in CLIENTS:
            limit = pgbench.run_pgbench(_build_script(statements, namespaces), clients=clients, seconds=seconds)
            service = _measure_service(namespaces, clients, seconds)
            http = _measure_http(installation, namespaces, clients, seconds)
            rows[str(clients)] = {
                "pgbench": limit,
                "service": {"pairs_per_second": service},
                "service_to_pgbench": round(service / limit["per_second"], 3),
                "http": http,
                "http_to_pgbench": round(http["pairs_per_second"] / limit["per_second"], 3),
            }
        report[label] = rows
    report["rebuild"] = _measure_rebuild()
    return report


def _parse_worker() -> Any:
    from pools.domain.changes.gpu_allocations import AllocateWorker

    return AllocateWorker.from_json({"namespace": "ns0", "id": MARK, "workload": "bench", **BODY})


def _capture_statements() -> list[str]:
    """Every statement of one allocation and its release, as the services send them."""
    from django.db import connection

    from pools.domain.changes.gpu_allocations import ReleaseWorker
    from pools.domain.people.roles import SYSTEM
    from pools.services.gpu_quota.gpu_allocations import allocate, release

    with connection.cursor() as cursor:  # a number that occurs nowhere else in the statements
        cursor.execute("SELECT setval(pg_get_serial_sequence('pools_gpuallocation', 'id'), 917364528)")
    with pgbench.captured_statements() as queries:
        row = allocate(_parse_worker(), actor=SYSTEM)
        release(ReleaseWorker(namespace="ns0", id=MARK), actor=SYSTEM)
    return [re.sub(rf"\b{row.pk}\b", ":id", re.sub(r"\s+", " ", sql).strip()) for sql in queries]


_LITERAL = re.compile(r"(E?'(?:[^'\\]|\\.|'')*')")


def _build_script(statements: Sequence[str], namespaces: int) -> str:
    """The statements as one pgbench script of two transactions, each pair with an id and a namespace of its own."""
    lines = ["\\set r random(1, 9000000000000000000)", f"\\set n random(0, {namespaces - 1})"]
    for captured in statements:
        if pgbench.LOCK in captured:
            lines += ["BEGIN;", f"{pgbench.CONTEXT};"]
        parts = _LITERAL.split(captured.removesuffix(pgbench.COMMIT))
        parts[1::2] = [_vary_literal(part) for part in parts[1::2]]
        lines.append("".join(parts) + (" \\gset" if captured.startswith("INSERT INTO pools_gpuallocation") else ";"))
        if captured.endswith(pgbench.COMMIT):
            lines.append("END;")
    return "\n".join(lines) + "\n"


def _vary_literal(literal: str) -> str:
    found = literal
    for text, value in ((MARK, "(:r)::text"), ("ns0", "'ns' || :n")):
        if text in literal:
            found = f"replace({found}, '{text}', {value})"
    return f"({found})::text[]" if found != literal and literal.startswith("'{") else found


def _measure_service(namespaces: int, processes: int, seconds: int) -> float:
    """Pairs per second of this number of processes that call the services."""
    command = [sys.executable, "-m", "bench.gpu_quota", str(namespaces), str(seconds)]
    children = [
        subprocess.Popen([*command, f"p{number}"], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        output = child.stdout.readline()
        if output != "ready\n":
            raise SystemExit(f"a process of the load ended before it began: {output} {child.wait()}")
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    done = [json.loads(child.communicate(timeout=seconds + 120)[0]) for child in children]
    return round(sum(each["pairs"] / each["seconds"] for each in done), 1)


def _measure_http(installation: Installation, namespaces: int, clients: int, seconds: int) -> dict[str, Any]:
    """Each client allocates a worker, then releases it, in turn."""

    def request(client: int, number: int) -> load.LoadRequest:
        pair, is_release = divmod(number, 2)
        name, namespace = f"h{client}-{pair}", f"ns{(client * 7919 + pair) % namespaces}"
        path = f"/api/gpu_quota/{namespace}/allocation"
        if is_release:
            return load.LoadRequest("DELETE", f"{path}/{name}")
        return load.LoadRequest("POST", path, json.dumps({"id": name, "workload": "bench", **BODY}).encode())

    result = load.run_load(
        installation.base_url, installation.login(), clients=clients, seconds=seconds, next_request=request
    ).summary()
    return {**result, "pairs_per_second": round(result["per_second"] / 2, 1)}


def _measure_rebuild() -> dict[str, Any]:
    """The ledger's side of a rebuild: the first adds every pod, the second finds no difference."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from pools.database.transactions import database_time
    from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker
    from pools.domain.values.quantities import parse_quantity
    from pools.models import Backend
    from pools.services.gpu_quota.gpu_rebuild import PodWorker, rebuild_gpu_usage

    backend = Backend.objects.create(name="cluster", namespace="cluster", kind=Backend.Kind.KUBERNETES)
    worker = GpuWorker(GpuAmounts(parse_quantity("10"), parse_quantity("1Gi")), count=2)
    pods = [PodWorker(f"ns{number % NAMESPACES}", f"pod-{number}", "w", worker, backend.pk) for number in range(PODS)]
    report: dict[str, Any] = {"pods": PODS, "namespaces": NAMESPACES}
    for name in ("first", "again"):
        with CaptureQueriesContext(connection) as captured:
            begun = time.perf_counter()
            repairs = rebuild_gpu_usage(pods, {backend.pk: database_time()})
            taken = time.perf_counter() - begun
        report[name] = {
            "seconds": round(taken, 2),
            "pods_per_second": round(PODS / taken),
            "repairs": len(repairs),
            "queries": len(captured.captured_queries),
        }
    report["counters_right"] = rebuild_gpu_usage([], {}) == []
    return report


def _run_process(namespaces: int, seconds: float, prefix: str) -> None:
    """One process of the service load."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    django.setup()
    from dataclasses import replace

    from pools.domain.changes.gpu_allocations import ReleaseWorker
    from pools.domain.people.roles import SYSTEM
    from pools.services.gpu_quota.gpu_allocations import allocate, release

    worker_request, pairs = _parse_worker(), 0
    release_first = replace(worker_request, id=f"{prefix}-warm")
    allocate(release_first, actor=SYSTEM)
    release(ReleaseWorker(namespace="ns0", id=release_first.id), actor=SYSTEM)
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    while (taken := time.perf_counter() - begun) < seconds:
        name, namespace = f"{prefix}-{pairs}", f"ns{(hash(prefix) + pairs * 7919) % namespaces}"
        allocate(replace(worker_request, namespace=namespace, id=name), actor=SYSTEM)
        release(ReleaseWorker(namespace=namespace, id=name), actor=SYSTEM)
        pairs += 1
    print(json.dumps({"pairs": pairs, "seconds": taken}))


if __name__ == "__main__":
    _run_process(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
