"""Answers to the API server's admission webhooks about pods and PodGroups, before these are stored.

There are two rules: a PodGroup's minimums must make sense (seed 001), and our queues are used only by work that we
dispatched or that an admin allowed. The mode of a backend's queue guard says whether a broken rule refuses, is only
recorded, or is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings

from pools.domain.errors import BadInput, NotFound, Violation
from pools.models import Backend
from scheduling.domain.cluster import admission_review, queue_access
from scheduling.domain.cluster.admission_review import AdmissionRequest
from scheduling.domain.cluster.queue_access import QueueAccessPolicy, WorkloadKind
from scheduling.domain.podgroup_rules import WARNING, validate_pod_group
from scheduling.models import Group, QueueGuard
from scheduling.selectors.workflows import queue_names_of
from scheduling.services.webhooks.queue_guard import queue_guard_for, record_bypass

REVIEWED_OPERATIONS = frozenset({"CREATE", "UPDATE"})


def review_object(kind: WorkloadKind, body: Any, *, backend: str | None = None) -> dict[str, Any]:
    """The answer to an AdmissionReview about a pod or a PodGroup.

    `backend` is the backend of the calling cluster; without a name the answer covers all backends. Raises BadInput for
    a review of another kind, NotFound for an unknown backend.
    """
    request = admission_review.read_review(body)
    if request.kind != kind:
        message = f"This address reviews a {kind}, not a {request.kind[:40]}."
        raise BadInput(message, [Violation("request.kind.kind", "bad_value", message)])
    guards = _read_guards(backend)
    if request.operation not in REVIEWED_OPERATIONS or request.new_object is None:
        return admission_review.review_response(request)
    found, warnings = _check_minimums(request) if kind is WorkloadKind.POD_GROUP else ([], [])
    refused: list[Violation] = []
    for guard in guards:
        if guard.mode == QueueGuard.Mode.OFF:
            continue
        broken = [*found, *_check_queue_access(kind, request, guard)]
        if not broken:
            continue
        is_refused = guard.mode == QueueGuard.Mode.ENFORCE
        if not request.is_dry_run:
            _record(guard, request, broken, refused=is_refused)
        if is_refused:
            refused += [violation for violation in broken if violation not in refused]
        else:
            warnings += [f"OSMO Admin would refuse this: {violation.message}" for violation in broken]
    if found and not guards:
        refused = found
    return admission_review.review_response(request, refused, warnings)


def _read_guards(backend: str | None) -> list[QueueGuard]:
    rows = Backend.objects.select_related("guard").order_by("pk")
    if backend is not None:
        rows = rows.filter(name=backend)
        if not rows:
            raise NotFound(f"Backend {backend} does not exist.")
    elif clusters := rows.filter(kind=Backend.Kind.KUBERNETES):
        rows = clusters
    return [row.guard if hasattr(row, "guard") else queue_guard_for(row) for row in rows]


def _check_minimums(request: AdmissionRequest) -> tuple[list[Violation], list[str]]:
    """Errors and warnings about the minimums. A change elsewhere in the object never fails for the old minimums."""
    old = request.old_object or {}
    new = request.new_object or {}
    if request.old_object is not None and old.get("spec") == new.get("spec"):
        return [], []
    found = validate_pod_group(new)
    return (
        [violation for violation in found if violation.severity != WARNING],
        [violation.message for violation in found if violation.severity == WARNING],
    )


def _check_queue_access(kind: WorkloadKind, request: AdmissionRequest, guard: QueueGuard) -> list[Violation]:
    policy = QueueAccessPolicy(
        namespace=guard.backend.namespace,
        accounts=frozenset(account for account in (guard.identity, *guard.accounts) if account),
        gangs=_queues_of_joined_gangs(kind, request, guard.backend),
        url=settings.OSMO.public_url,
    )
    return queue_access.access_violations(kind, request.new_object or {}, request.old_object, request.caller, policy)


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
    groups = Group.objects.filter(pk__in=names, workflow__root_pool__backend=backend).select_related(
        "workflow__pool", "workflow__root_pool__backend"
    )
    return {names[group.pk]: queue_names_of(group.workflow)[1] for group in groups}


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
