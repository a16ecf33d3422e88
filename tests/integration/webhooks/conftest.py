"""Bodies of AdmissionReviews, and the admin of the queue guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from pools.models import Backend
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.services.webhooks.marks import current_mark
from scheduling.services.webhooks.queue_guard import queue_guard_for
from tests.support.world import apply_change

QUEUE = "osmo-pool-ns-team--a"
Ask = Callable[..., dict[str, Any]]


def question(kind: str, now: dict[str, Any], *, who: str = "mallory", **more: Any) -> dict[str, Any]:
    """An AdmissionReview about a creation in namespace `elsewhere`."""
    request = {
        "uid": "0f1e2d3c",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "namespace": "elsewhere",
        "name": "thing",
        "userInfo": {"username": who, "groups": ["system:authenticated"]},
        "object": now,
        "oldObject": None,
        "dryRun": False,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def pod(queue: str = QUEUE, **annotations: str) -> dict[str, Any]:
    """A pod that names a queue."""
    return {"metadata": {"name": "p", "labels": {"kai.scheduler/queue": queue}, "annotations": annotations}, "spec": {}}


def pod_group(queue: str = QUEUE, **spec: Any) -> dict[str, Any]:
    """A PodGroup that names a queue."""
    return {"metadata": {"name": "g"}, "spec": {"queue": queue, **(spec or {"minMember": 1})}}


def post(path: str, body: Any) -> Any:
    """A request without a login."""
    return Client().post(f"/webhooks/{path}", body, content_type="application/json")


def marked(backend: str) -> str:
    """The end of an address of this backend's webhooks."""
    return f"/{backend}/{current_mark(queue_guard_for(Backend.objects.get(name=backend)))}"


@pytest.fixture
def ask(db: None) -> Ask:
    """Ask about a pod or a PodGroup, by default as the cluster `prod`; the `response` of the answer."""

    def send(now: dict[str, Any], *, at: str | None = None, **more: Any) -> dict[str, Any]:
        kind = "PodGroup" if "queue" in (now.get("spec") or {}) else "Pod"
        answer = post(kind.lower() + (marked("prod") if at is None else at), question(kind, now, **more))
        assert answer.status_code == 200, answer.content
        return dict(answer.json()["response"])

    return send


@pytest.fixture
def cluster(db: None) -> Backend:
    """A cluster whose queues are guarded in mode enforce."""
    row = Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="ns")
    apply_change(PutQueueGuard(backend="prod", mode="enforce"))
    return row
