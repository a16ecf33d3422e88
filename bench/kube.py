"""A real Kubernetes API server with KAI's CRDs for a benchmark, where this machine has one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def measure_on_api_server(measure: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """The result of `measure` on a fresh server (tests.support.kube_server.KubeServer), or why it was not run."""
    from tests.support.kube_server import PINNED, KubeServer
    from tests.support.optional_tools import ENVTEST

    if not ENVTEST.exists():
        return {"not run": "no Kubernetes API server; set OSMO_ENVTEST=/path/to/start.sh"}
    with tempfile.TemporaryDirectory(prefix="osmo-bench-kube-") as folder:
        server = KubeServer(Path(folder) / "kube")
        try:
            server.start()
            server.install(*PINNED)
            return measure(server)
        finally:
            server.stop(delete=True)
