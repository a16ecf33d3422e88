"""Bringing 21,000 queues of 1,000 pools into a real cluster, finding nothing to do, and one change among them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import yaml

from bench import fill
from bench.installation import Installation
from bench.kube import measure_on_api_server
from pools.domain.changes.backends import PutBackend

POOLS, SUBPOOLS = 1000, 20
NAME = "bench-queues"


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Seconds and calls of each run and of a bare list of the same queues; the memory of a whole process that syncs.

    The installation's own workers leave the cluster alone meanwhile (its sync is off; the runs are started manually).
    """
    from tests.support.kube_server import RecordingCluster

    return measure_on_api_server(
        lambda server: _measure(installation, RecordingCluster(server.connect()), server.kubeconfig_body())
    )


def _measure(installation: Installation, cluster: Any, kubeconfig: dict[str, Any]) -> dict[str, Any]:
    from pools.domain.people.roles import SYSTEM
    from pools.models import Pool
    from pools.services.configuration.backends import put_backend
    from scheduling.kube.connection.resource_kinds import QUEUE
    from scheduling.services.kubernetes import connections
    from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues

    body = {"type": "kubernetes", "namespace": "b", "sync_mode": "off", "kubeconfig": yaml.safe_dump(kubeconfig)}
    backend = put_backend(PutBackend(name=NAME, body=body), actor=SYSTEM).row
    fill.insert_pools(POOLS, prefix="k", subpools=SUBPOOLS, on=backend.pk)
    connections.connect = lambda _: cluster

    def run_sync() -> dict[str, Any]:
        cluster.clear_calls()
        spent, outcome = _time_call(lambda: sync_backend_queues(backend.pk, manual=True))
        if outcome.synced != "True":
            raise SystemExit(f"not in sync: {outcome.message}")
        return {"seconds": round(spent, 2), "calls": len(cluster.calls), "writes": len(cluster.writes)}

    report: dict[str, Any] = {"queues": 1 + POOLS * (2 + SUBPOOLS), "first": run_sync(), "nothing_to_do": run_sync()}
    Pool.objects.filter(name="k7").update(weight=3)
    report["one_change"] = run_sync()
    if (report["nothing_to_do"]["writes"], report["one_change"]["writes"]) != (0, 1):
        raise SystemExit(f"wrote more than differs: {report}")
    spent, found = _time_call(lambda: cluster.cluster.list(QUEUE, page_size=1000, transform=lambda _: None))
    report["bare_list_seconds"] = round(spent, 2)
    report["objects_listed"] = len(found.items)
    report["nothing_to_do_over_bare_list"] = round(report["nothing_to_do"]["seconds"] / spent, 2)
    report["process_mib"] = _measure_memory(installation)
    return report


def _time_call(operation: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = operation()
    return time.perf_counter() - begin, result


def _measure_memory(installation: Installation) -> float:
    """The peak memory of `osmo-admin sync`, in MiB."""
    main = "from osmo_admin.cli.server import main; main()"
    command = [sys.executable, "-c", main, "sync", "--backend", NAME, "--data-dir", str(installation.data_dir)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("osmo-admin sync failed")
    return round(usage.ru_maxrss / 1024, 1)
