"""Latency of our answers to admission reviews: over TLS on persistent connections, like API servers."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from bench.installation import Installation, find_free_port
from bench.load import LoadRequest
from bench.load import run_load as load

ALLOWED, REFUSED = "default-queue", "osmo-pool-bench-hooks-team--a"


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Rate and percentiles for pods that pass and pods that are refused (and noted), one and eight at once."""
    from osmo_admin.ops.files.certificates import ensure_certificate
    from osmo_admin.ops.programs import process_commands
    from osmo_admin.ops.programs.processes import start_child, stop_children
    from pools.models import Backend
    from scheduling.models import QueueGuard
    from scheduling.services.webhooks.marks import current_mark

    row = Backend.objects.create(name="bench-hooks", kind=Backend.Kind.KUBERNETES, namespace="bench-hooks")
    guard = QueueGuard.objects.create(backend=row, mode=QueueGuard.Mode.ENFORCE)
    folder = installation.data_dir / "bench-webhook"
    certificate = ensure_certificate(folder, ["127.0.0.1"])
    port = find_free_port()
    command = process_commands.webhook_command("127.0.0.1", port, certificate.certificate, certificate.key)
    child = start_child(process_commands.WEBHOOK, command, log=folder / "log", env=dict(os.environ))
    url, trust = f"https://127.0.0.1:{port}", ssl.create_default_context(cadata=certificate.authority)
    try:
        _wait_until_ready(url, trust, folder / "log")
        report: dict[str, Any] = {}
        for name, queue in (("allowed", ALLOWED), ("refused", REFUSED)):
            for clients in (1, 8):
                request = LoadRequest("POST", f"/webhooks/pod/bench-hooks/{current_mark(guard)}", _review_body(queue))
                result = load(
                    url, "", clients=clients, seconds=seconds, next_request=lambda *_, r=request: r, trust=trust
                )
                report[f"{name}_{clients}"] = result.summary()
        return report
    finally:
        stop_children([child], grace=5)


def _review_body(queue: str) -> bytes:
    pod = {
        "metadata": {"name": "p", "labels": {"kai.scheduler/queue": queue}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }
    request = {
        "uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "namespace": "team", "name": "p",
        "userInfo": {"username": "somebody", "groups": []}, "object": pod,
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _wait_until_ready(url: str, trust: ssl.SSLContext, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", context=trust, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SystemExit(f"the webhook server did not answer: {log.read_text()[-2000:]}")
