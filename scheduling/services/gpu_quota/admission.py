"""Asking a namespace's quota before a worker's pod is made, and again before it is bound: checked and reserved in one
step, so that pods that come together never take more than there is.

The reservation ends when the pod is seen on its node, or by itself after half an hour; a pod bound later than that is
checked anew. A rehearsal (`dryRun`) reserves nothing.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from pools.domain.errors import BadInput, Violation
from pools.domain.gpu_quota.checks import broken_caps
from pools.domain.gpu_quota.workers import GpuWorker
from pools.domain.roles import SYSTEM
from pools.locking import lock_namespace
from pools.models import Backend, GpuAllocation
from pools.selectors.gpu_namespace import allocation_columns, read_namespaces, worker_from_row
from pools.services.backends import get_backend
from pools.services.gpu_allocations import ASSUMPTION_LIFETIME
from pools.transactions import change
from scheduling.domain.cluster import admission_review
from scheduling.domain.cluster.admission_review import AdmissionRequest
from scheduling.domain.cluster.gpu_pod import TENSOR_FUSION_PREFIX, GpuPod, is_worker, read_gpu_pod
from scheduling.models import QueueGuard
from scheduling.services.webhooks.queue_guard import queue_guard_for

POD, BINDING = "Pod", "Binding"
State, Source = GpuAllocation.State, GpuAllocation.Source


def webhook_token(backend: str) -> str:
    """What a cluster's webhook configuration has in its address, so that nobody else reserves a namespace full."""
    return salted_hmac("osmo.gpu_quota.webhook", backend, algorithm="sha256").hexdigest()[:32]


def review_gpu_request(body: Any, *, backend: str | None = None, token: str = "") -> dict[str, Any]:
    """The answer to an AdmissionReview about a worker's pod or a binding.

    A backend's guard says whether a broken cap refuses, is only told, or is not asked. Only a cluster that knows its
    backend's `token` reserves by asking. Raises BadInput for what is no such review, NotFound for an unknown backend.
    """
    question = admission_review.read_review(body)
    if question.kind not in {POD, BINDING}:
        sentence = f"This address judges a {POD} or a {BINDING}, not a {question.kind[:40]}."
        raise BadInput(sentence, [Violation("request.kind.kind", "bad_value", sentence)])
    row = None if backend is None else get_backend(backend)
    mode = QueueGuard.Mode.ENFORCE if row is None else queue_guard_for(row).mode
    if mode == QueueGuard.Mode.OFF:
        return admission_review.review_response(question)
    is_known = row is not None and constant_time_compare(token, webhook_token(row.name))
    broken = gpu_violations(question, row if is_known else None)
    if mode == QueueGuard.Mode.AUDIT:
        warnings = [f"OSMO Admin would refuse this: {each.message}" for each in broken]
        return admission_review.review_response(question, warnings=warnings)
    return admission_review.review_response(question, broken)


def gpu_violations(question: AdmissionRequest, backend: Backend | None) -> list[Violation]:
    """Why this pod may not be made, or bound; every broken cap in the order of the checks. `backend` is whose cluster
    asks; without one nothing is reserved, only judged."""
    if question.operation != "CREATE" or question.new_object is None:
        return []
    if question.kind == BINDING:
        return _of_binding(question, backend)
    if not is_worker(question.new_object):
        return []
    pod = read_gpu_pod(question.new_object)
    if pod is None:
        path = f"metadata.annotations[{TENSOR_FUSION_PREFIX}gpu-count]"
        return [Violation(path, "bad_value", f"{TENSOR_FUSION_PREFIX}gpu-count must be a whole number from 1 to 128.")]
    return _reserved(question, pod, backend)


def _reserved(question: AdmissionRequest, pod: GpuPod, backend: Backend | None) -> list[Violation]:
    namespace = question.namespace or pod.namespace
    if question.is_dry_run or backend is None or not pod.uid:
        facts = read_namespaces([namespace])[namespace]
        broken = broken_caps(facts.spec, facts.committed_and_assumed, facts.spec.with_defaults(pod.worker))
        return [each.as_violation(namespace) for each in broken]
    with change(actor=SYSTEM, description="a pod is made"):
        facts = lock_namespace(namespace)
        live = GpuAllocation.objects.filter(namespace=namespace, name=pod.uid).exclude(state=State.RELEASED)
        if live.exists():
            return []
        worker = facts.spec.with_defaults(pod.worker)
        broken = broken_caps(facts.spec, facts.committed_and_assumed, worker)
        if not broken:
            _assume(namespace, pod.uid, pod.workload, worker, backend)
    return [each.as_violation(namespace) for each in broken]


def _of_binding(question: AdmissionRequest, backend: Backend | None) -> list[Violation]:
    """A pod that was reserved for and waited too long has to ask again; others are not known here, or count already."""
    uid = str(((question.new_object or {}).get("metadata") or {}).get("uid") or "")
    if not uid or backend is None or question.is_dry_run:
        return []
    namespace = question.namespace
    if not GpuAllocation.objects.filter(namespace=namespace, name=uid, source=Source.POD).exists():
        return []
    with change(actor=SYSTEM, description="a pod is bound"):
        facts = lock_namespace(namespace)
        row = GpuAllocation.objects.filter(namespace=namespace, name=uid).order_by("-id").first()
        if row is None or row.state != State.RELEASED or row.reason == "gone":
            return []
        worker = worker_from_row(row)
        broken = broken_caps(facts.spec, facts.committed_and_assumed, worker)
        if not broken:
            _assume(namespace, uid, row.workload, worker, backend)
    return [each.as_violation(namespace) for each in broken]


def _assume(namespace: str, uid: str, workload: str, worker: GpuWorker, backend: Backend) -> None:
    GpuAllocation.objects.create(
        namespace=namespace,
        name=uid,
        workload=workload,
        source=Source.POD,
        backend=backend,
        state=State.ASSUMED,
        expires_at=timezone.now() + ASSUMPTION_LIFETIME,
        **allocation_columns(worker),
    )
