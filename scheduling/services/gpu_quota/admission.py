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
from pools.domain.gpu_quota.checks import broken_by
from pools.domain.gpu_quota.workers import Worker
from pools.domain.roles import SYSTEM
from pools.locking import lock_namespace
from pools.models import Backend, GpuAllocation
from pools.selectors.gpu_namespace import columns_of, look_at, worker_of
from pools.services.backends import get_backend
from pools.services.gpu_allocations import ASSUMED_FOR
from pools.transactions import change
from scheduling.domain.cluster import admission_review
from scheduling.domain.cluster.admission_review import Question
from scheduling.domain.cluster.gpu_pod import PREFIX, GpuPod, is_worker, read_pod
from scheduling.models import QueueGuard
from scheduling.services.webhooks.queue_guard import guard_of

POD, BINDING = "Pod", "Binding"
State, Source = GpuAllocation.State, GpuAllocation.Source


def mark_of(backend: str) -> str:
    """What a cluster's webhook configuration has in its address, so that nobody else reserves a namespace full."""
    return salted_hmac("osmo.gpu_quota.webhook", backend, algorithm="sha256").hexdigest()[:32]


def review_gpu(body: Any, *, backend: str | None = None, mark: str = "") -> dict[str, Any]:
    """The answer to an AdmissionReview about a worker's pod or a binding.

    A backend's guard says whether a broken cap refuses, is only told, or is not asked. Only a cluster that knows its
    backend's `mark` reserves by asking. Raises BadInput for what is no such review, NotFound for an unknown backend.
    """
    question = admission_review.read(body)
    if question.kind not in {POD, BINDING}:
        sentence = f"This address judges a {POD} or a {BINDING}, not a {question.kind[:40]}."
        raise BadInput(sentence, [Violation("request.kind.kind", "bad_value", sentence)])
    row = None if backend is None else get_backend(backend)
    mode = QueueGuard.Mode.ENFORCE if row is None else guard_of(row).mode
    if mode == QueueGuard.Mode.OFF:
        return admission_review.answer(question)
    is_known = row is not None and constant_time_compare(mark, mark_of(row.name))
    broken = gpu_violations(question, row if is_known else None)
    if mode == QueueGuard.Mode.AUDIT:
        warnings = [f"OSMO Admin would refuse this: {each.message}" for each in broken]
        return admission_review.answer(question, warnings=warnings)
    return admission_review.answer(question, broken)


def gpu_violations(question: Question, backend: Backend | None) -> list[Violation]:
    """Why this pod may not be made, or bound; every broken cap in the order of the checks. `backend` is whose cluster
    asks; without one nothing is reserved, only judged."""
    if question.operation != "CREATE" or question.now is None:
        return []
    if question.kind == BINDING:
        return _of_binding(question, backend)
    if not is_worker(question.now):
        return []
    pod = read_pod(question.now)
    if pod is None:
        path = f"metadata.annotations[{PREFIX}gpu-count]"
        return [Violation(path, "bad_value", f"{PREFIX}gpu-count must be a whole number from 1 to 128.")]
    return _reserved(question, pod, backend)


def _reserved(question: Question, pod: GpuPod, backend: Backend | None) -> list[Violation]:
    namespace = question.namespace or pod.namespace
    if question.rehearsed or backend is None or not pod.uid:
        facts = look_at([namespace])[namespace]
        broken = broken_by(facts.spec, facts.reserved, facts.spec.filled(pod.worker))
        return [each.violation(namespace) for each in broken]
    with change(actor=SYSTEM, description="a pod is made"):
        facts = lock_namespace(namespace)
        live = GpuAllocation.objects.filter(namespace=namespace, name=pod.uid).exclude(state=State.RELEASED)
        if live.exists():
            return []
        worker = facts.spec.filled(pod.worker)
        broken = broken_by(facts.spec, facts.reserved, worker)
        if not broken:
            _assume(namespace, pod.uid, pod.workload, worker, backend)
    return [each.violation(namespace) for each in broken]


def _of_binding(question: Question, backend: Backend | None) -> list[Violation]:
    """A pod that was reserved for and waited too long has to ask again; others are not known here, or count already."""
    uid = str(((question.now or {}).get("metadata") or {}).get("uid") or "")
    if not uid or backend is None or question.rehearsed:
        return []
    namespace = question.namespace
    if not GpuAllocation.objects.filter(namespace=namespace, name=uid, source=Source.POD).exists():
        return []
    with change(actor=SYSTEM, description="a pod is bound"):
        facts = lock_namespace(namespace)
        row = GpuAllocation.objects.filter(namespace=namespace, name=uid).order_by("-id").first()
        if row is None or row.state != State.RELEASED or row.reason == "gone":
            return []
        worker = worker_of(row)
        broken = broken_by(facts.spec, facts.reserved, worker)
        if not broken:
            _assume(namespace, uid, row.workload, worker, backend)
    return [each.violation(namespace) for each in broken]


def _assume(namespace: str, uid: str, workload: str, worker: Worker, backend: Backend) -> None:
    GpuAllocation.objects.create(
        namespace=namespace,
        name=uid,
        workload=workload,
        source=Source.POD,
        backend=backend,
        state=State.ASSUMED,
        expires_at=timezone.now() + ASSUMED_FOR,
        **columns_of(worker),
    )
