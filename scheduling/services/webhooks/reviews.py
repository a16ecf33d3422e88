"""Answers to the API server's admission webhooks about pods and PodGroups, before these are stored.

There are three rules: a PodGroup's minimums must make sense (design, D13), our queues are used only by work that we
dispatched or that an admin allowed, and nobody else changes what we wrote into our own objects. The mode of a backend's
queue guard says whether a broken rule refuses, is only recorded, or is not checked. A caller without the mark of the
backend is anybody: it learns nothing and is only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings

from pools.domain.errors import BadInput, Fault, Violation
from pools.models import Backend
from scheduling.domain.cluster import admission_review, own_changes, queue_access
from scheduling.domain.cluster.admission_review import AdmissionRequest, ReviewAnswer
from scheduling.domain.cluster.queue_access import QueueAccessPolicy, WorkloadKind
from scheduling.domain.judgement.podgroup_rules import WARNING, lenient_violations, validate_pod_group
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.models import ClusterState, Group, QueueGuard
from scheduling.selectors.cluster.own_pods import own_tasks
from scheduling.selectors.work.workflows import queue_names_of
from scheduling.services.webhooks.marks import marked_guard
from scheduling.services.webhooks.queue_guard import record_bypass, shard_key_of
from scheduling.services.webhooks.refusal_events import record_refusal
from scheduling.services.webhooks.strangers import count_stranger

REVIEWED_OPERATIONS = frozenset({"CREATE", "UPDATE"})


def review_object(kind: WorkloadKind, body: Any, *, backend: str | None = None, mark: str = "") -> ReviewAnswer:
    """The answer to an AdmissionReview about a pod or a PodGroup.

    `backend` and `mark` are those in the address that was called. Without a name only the minimums of a PodGroup are
    checked; a name without its mark gets warnings about them and is counted. Raises BadInput for a review of another
    kind.
    """
    request = admission_review.read_review(body)
    if request.kind != kind:
        message = f"This address reviews a {kind}, and nothing else."
        raise BadInput(message, [Violation("request.kind.kind", Fault.BAD_VALUE, message)])
    guard = None if backend is None else marked_guard(backend, mark)
    if guard is None:
        return _answer_stranger(kind, request, backend)
    if request.operation not in REVIEWED_OPERATIONS or request.new_object is None or guard.mode == QueueGuard.Mode.OFF:
        return admission_review.review_response(request)
    is_strict = guard.strict_minimums or queue_access.names_managed_queue(request.new_object, guard.backend.namespace)
    found, warnings = _check_minimums(kind, request, is_strict=is_strict)
    broken = [*found, *_check_access(kind, request, guard)]
    is_refused = bool(broken) and guard.mode == QueueGuard.Mode.ENFORCE
    if broken and not request.is_dry_run:
        _record(guard, request, broken, refused=is_refused)
    if is_refused:
        if not request.is_dry_run:
            record_refusal(guard.backend, request, broken)
        return admission_review.review_response(request, broken, warnings)
    warnings += [f"OSMO Admin would refuse this: {violation.message}" for violation in broken]
    return admission_review.review_response(request, (), warnings)


def _answer_stranger(kind: WorkloadKind, request: AdmissionRequest, backend: str | None) -> ReviewAnswer:
    """The answer to a caller whose cluster is not known: it depends on the request alone."""
    if backend is not None:
        count_stranger(backend)
    if request.operation not in REVIEWED_OPERATIONS or request.new_object is None:
        return admission_review.review_response(request)
    found, warnings = _check_minimums(kind, request, is_strict=True)
    if backend is None:
        return admission_review.review_response(request, found, warnings)
    return admission_review.review_response(request, (), [*(each.message for each in found), *warnings])


def _check_minimums(
    kind: WorkloadKind, request: AdmissionRequest, *, is_strict: bool
) -> tuple[list[Violation], list[str]]:
    """Errors and warnings about the minimums. A change elsewhere in the object never fails for the old minimums."""
    old, new = request.old_object, request.new_object or {}
    if kind is not WorkloadKind.POD_GROUP or (old is not None and old.get("spec") == new.get("spec")):
        return [], []
    found = validate_pod_group(new)
    if not is_strict:
        found = lenient_violations(new, found, is_change=old is not None)
    return (
        [violation for violation in found if violation.severity != WARNING],
        [violation.message for violation in found if violation.severity == WARNING],
    )


def _check_access(kind: WorkloadKind, request: AdmissionRequest, guard: QueueGuard) -> list[Violation]:
    new, old = request.new_object or {}, request.old_object
    is_here = request.namespace == guard.backend.namespace
    policy = QueueAccessPolicy(
        namespace=guard.backend.namespace,
        accounts=frozenset(account for account in (guard.identity, *guard.accounts) if account),
        gangs=_queues_of_joined_gangs(kind, request, guard.backend),
        url=settings.OSMO.public_url,
        installation=_installation_mark(guard.backend, new, old) if is_here else "",
    )
    found = queue_access.access_violations(kind, new, old, request.caller, policy)
    if old is not None and is_here and _is_ours(kind, old, guard.backend, policy):
        policy = replace(policy, shard_key=shard_key_of(guard.backend))
        found += own_changes.change_violations(kind, new, old, request.caller, policy)
    return found


def _is_ours(kind: WorkloadKind, item: ReadOnlyObject, backend: Backend, policy: QueueAccessPolicy) -> bool:
    """Whether an object of our namespace is one that we dispatched: by its mark, or by the task or the gang whose name
    it has."""
    if own_changes.has_mark(item, policy):
        return True
    if kind is WorkloadKind.POD:
        return bool(own_tasks(backend, backend.namespace, [item]))
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    try:
        gang = UUID(name) if isinstance(name, str) else None
    except ValueError:
        return False
    return gang is not None and Group.objects.filter(pk=gang, workflow__root_pool__backend=backend).exists()


def _queues_of_joined_gangs(kind: WorkloadKind, request: AdmissionRequest, backend: Backend) -> dict[str, str]:
    """The queues of the gangs that a pod joins, by the gang's name; only gangs of ours on this backend."""
    if kind is not WorkloadKind.POD or request.namespace != backend.namespace:
        return {}
    names = {}
    for name in queue_access.joined_pod_groups(request.new_object or {}):
        try:
            names[UUID(name)] = name
        except ValueError:
            continue
    if not names:
        return {}
    groups = Group.objects.filter(pk__in=names, workflow__root_pool__backend=backend).select_related(
        "workflow__pool", "workflow__root_pool__backend"
    )
    return {names[group.pk]: queue_names_of(group.workflow)[1] for group in groups}


def _installation_mark(backend: Backend, *items: ReadOnlyObject | None) -> str:
    """The label value of our objects, if one of these objects of our namespace carries such a label."""
    if not any(item is not None and queue_access.carries_mark(item) for item in items):
        return ""
    state = ClusterState.objects.filter(backend=backend).only("identity").first()
    return "" if state is None else str(state.identity)


def _record(guard: QueueGuard, request: AdmissionRequest, found: Sequence[Violation], *, refused: bool) -> None:
    record_bypass(
        guard.backend,
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        username=request.caller.username,
        violations=found,
        is_refused=refused,
    )
