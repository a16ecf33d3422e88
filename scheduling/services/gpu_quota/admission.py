"""GPU quota admission: checks a namespace's quota before a worker's pod is created, when a pod becomes a worker or
changes its amounts, and again before it is bound. Check and reservation are one step, so simultaneous pods never use
more than the quota.

The reservation ends when the pod is observed on its node, or after half an hour; a pod that is bound later is checked
again. A dry run (`dryRun`) reserves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pools.database.transactions import change, database_time
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.gpu_quota.checks import BrokenCap, broken_caps
from pools.domain.gpu_quota.workers import GpuWorker
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_namespace_and_worker
from pools.models import Backend, GpuAllocation
from pools.selectors.gpu_namespace import GpuNamespace, allocation_columns, read_namespaces, worker_from_row
from pools.services.gpu_quota.gpu_allocations import ASSUMPTION_LIFETIME, change_pod_amounts, insert_allocation
from scheduling.domain.cluster import admission_review
from scheduling.domain.cluster.admission_review import AdmissionRequest, ReviewAnswer
from scheduling.domain.cluster.pods.gpu_pod import (
    GpuPod,
    claimed_task,
    given_up,
    has_same_amounts,
    is_worker,
    read_gpu_pod,
)
from scheduling.models import QueueGuard
from scheduling.selectors.cluster.own_pods import own_tasks
from scheduling.services.webhooks.marks import marked_guard
from scheduling.services.webhooks.refusal_events import record_refusal
from scheduling.services.webhooks.strangers import count_stranger

POD, BINDING = "Pod", "Binding"
State, Source = GpuAllocation.State, GpuAllocation.Source


def review_gpu_request(body: Any, *, backend: str | None = None, mark: str = "") -> ReviewAnswer:
    """The answer to an AdmissionReview about a worker's pod or a binding.

    The mode of the backend's queue guard says whether a broken cap refuses, only warns, or is not checked. A caller
    without the `mark` of the backend gets the answer of a namespace without a quota: quotas and their use are not for
    others for the network. Raises BadInput for another kind of body.
    """
    request = admission_review.read_review(body)
    if request.kind not in {POD, BINDING}:
        message = f"This address reviews a {POD} or a {BINDING}, and nothing else."
        raise BadInput(message, [Violation("request.kind.kind", Fault.BAD_VALUE, message)])
    guard = None if backend is None else marked_guard(backend, mark)
    if guard is None:
        if backend is not None:
            count_stranger(backend)
        return admission_review.review_response(request)
    if guard.mode == QueueGuard.Mode.OFF:
        return admission_review.review_response(request)
    verdict = _judge(request, guard)
    if guard.mode == QueueGuard.Mode.AUDIT:
        warnings = [f"OSMO Admin would refuse this: {each.message}" for each in verdict.broken]
        return admission_review.review_response(request, warnings=[*warnings, *verdict.warnings])
    if verdict.broken and not request.is_dry_run:
        record_refusal(guard.backend, request, verdict.broken)
    return admission_review.review_response(request, verdict.broken, verdict.warnings)


@dataclass(frozen=True, slots=True)
class _GpuVerdict:
    """The reasons against a request, and what its author should know."""

    broken: list[Violation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _judge(request: AdmissionRequest, guard: QueueGuard) -> _GpuVerdict:
    """The reasons against creating, changing or binding this pod: every annotation that cannot be read, or else every
    broken cap in the order of the checks. `guard` is that of the calling cluster's backend."""
    if request.operation not in {"CREATE", "UPDATE"} or request.new_object is None:
        return _GpuVerdict()
    if request.kind == BINDING:
        return _GpuVerdict(_binding_violations(request, guard.backend) if request.operation == "CREATE" else [])
    if lost := _given_up(request, guard):
        return _GpuVerdict(lost)
    if not _claims_anew(request) or _is_ours(request, guard):
        return _GpuVerdict()
    pod = read_gpu_pod(request.new_object)
    assert pod is not None  # a worker
    if pod.faults:
        return _GpuVerdict(pod.unread_violations())
    return _check_and_reserve(request, pod, guard.backend)


def _claims_anew(request: AdmissionRequest) -> bool:
    """Whether the pod is a worker that was not one before, or one with other amounts. All other changes pass, so that
    controllers can do their work in a namespace that is above its caps."""
    new, old = request.new_object or {}, request.old_object
    if not is_worker(new):
        return False
    if old is None or not is_worker(old) or claimed_task(old) != claimed_task(new):
        return True
    return not has_same_amounts(old, new)


def _given_up(request: AdmissionRequest, guard: QueueGuard) -> list[Violation]:
    """What a worker may not give up in a namespace with a quota, except by an account that the guard allows."""
    old, caller = request.old_object, request.caller
    if old is None or {guard.identity, *guard.accounts} & {caller.username, *caller.groups}:
        return []
    paths = given_up(old, request.new_object or {})
    if not paths or read_namespaces([request.namespace])[request.namespace].quota is None:
        return []
    return [Violation(path, Fault.FOREIGN_CHANGE, _GIVEN_UP.format(path=path)) for path in paths]


_GIVEN_UP = (
    "{path} says that this pod is a worker with GPUs: by it the GPU quota of its namespace counts the pod as long "
    "as it has them. Delete the pod to give its GPUs back. An account that must change it can be allowed on the "
    "backend's webhook page."
)


def _is_ours(request: AdmissionRequest, guard: QueueGuard) -> bool:
    """Whether this is the pod of an open task of ours, which is counted with its workflow. At its creation we must be
    the caller; a later change keeps the claim that was reviewed then."""
    new, old = request.new_object or {}, request.old_object
    task = claimed_task(new)
    if task is None:
        return False
    is_by_us = bool(guard.identity) and request.caller.username == guard.identity
    was_reviewed = old is not None and claimed_task(old) == task
    return (is_by_us or was_reviewed) and task in own_tasks(guard.backend, request.namespace, [new])


def _check_and_reserve(request: AdmissionRequest, pod: GpuPod, backend: Backend) -> _GpuVerdict:
    namespace = request.namespace or pod.namespace
    if request.is_dry_run or not pod.uid:
        facts = read_namespaces([namespace])[namespace]
        if forbidden := pod.percent_violations(facts.spec):
            return _GpuVerdict(forbidden)
        broken = broken_caps(facts.spec, facts.committed_and_assumed, facts.spec.with_defaults(pod.worker))
        return _verdict_of(broken, facts, pod)
    with change(actor=SYSTEM, description="a pod is created or changed"):
        facts, newest = lock_namespace_and_worker(namespace, pod.uid)
        if forbidden := pod.percent_violations(facts.spec):
            return _GpuVerdict(forbidden)
        if newest is not None and newest.state != State.RELEASED:
            broken = change_pod_amounts(facts, newest, pod.worker.or_else(worker_from_row(newest)))
        else:
            worker = facts.spec.with_defaults(pod.worker)
            broken = broken_caps(facts.spec, facts.committed_and_assumed, worker)
            if not broken:
                _assume(namespace, pod.uid, pod.workload, worker, backend, " ".join(pod.uncounted))
    return _verdict_of(broken, facts, pod)


def _verdict_of(broken: list[BrokenCap], facts: GpuNamespace, pod: GpuPod) -> _GpuVerdict:
    warnings = pod.percent_warnings() if facts.quota is not None and not broken else []
    return _GpuVerdict([each.as_violation(facts.name) for each in broken], warnings)


def _binding_violations(request: AdmissionRequest, backend: Backend) -> list[Violation]:
    """A pod whose reservation ran out is checked again; other pods are unknown here, or are counted already."""
    uid = str(((request.new_object or {}).get("metadata") or {}).get("uid") or "")
    if not uid or request.is_dry_run:
        return []
    namespace = request.namespace
    if not GpuAllocation.objects.filter(namespace=namespace, name=uid, source=Source.POD).exists():
        return []
    with change(actor=SYSTEM, description="a pod is bound"):
        facts, row = lock_namespace_and_worker(namespace, uid)
        if row is None or row.state != State.RELEASED or row.reason == "gone":
            return []
        worker = worker_from_row(row)
        broken = broken_caps(facts.spec, facts.committed_and_assumed, worker)
        if not broken:
            _assume(namespace, uid, row.workload, worker, backend, row.uncounted)
    return [each.as_violation(namespace) for each in broken]


def _assume(namespace: str, uid: str, workload: str, worker: GpuWorker, backend: Backend, uncounted: str) -> None:
    insert_allocation(
        GpuAllocation(
            namespace=namespace,
            name=uid,
            workload=workload,
            source=Source.POD,
            backend=backend,
            state=State.ASSUMED,
            expires_at=database_time() + ASSUMPTION_LIFETIME,
            uncounted=uncounted,
            **allocation_columns(worker),
        )
    )
