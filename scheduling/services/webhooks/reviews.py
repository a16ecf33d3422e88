"""Answers to the API server's admission webhooks: what is made or changed around the house, before it is stored.

Two rules: a PodGroup's minimums must make sense (seed 001), and a queue of ours is used only by what the house
dispatched or an admin let in. A backend's guard says whether a broken rule refuses, is only noted, or is not asked.
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

    `backend` is whose cluster asks; a house that is asked without a name answers for all its backends. Raises BadInput
    for what is no review of this kind, NotFound for an unknown backend.
    """
    question = admission_review.read_review(body)
    if question.kind != kind:
        sentence = f"This address judges a {kind}, not a {question.kind[:40]}."
        raise BadInput(sentence, [Violation("request.kind.kind", "bad_value", sentence)])
    guards = _guards(backend)
    if question.operation not in REVIEWED_OPERATIONS or question.new_object is None:
        return admission_review.review_response(question)
    found, warnings = _invalid(question) if kind is WorkloadKind.POD_GROUP else ([], [])
    refused: list[Violation] = []
    for guard in guards:
        if guard.mode == QueueGuard.Mode.OFF:
            continue
        broken = [*found, *_foreign(kind, question, guard)]
        if not broken:
            continue
        is_refused = guard.mode == QueueGuard.Mode.ENFORCE
        if not question.is_dry_run:
            _note(guard, question, broken, refused=is_refused)
        if is_refused:
            refused += [violation for violation in broken if violation not in refused]
        else:
            warnings += [f"OSMO Admin would refuse this: {violation.message}" for violation in broken]
    if found and not guards:
        refused = found
    return admission_review.review_response(question, refused, warnings)


def _guards(backend: str | None) -> list[QueueGuard]:
    rows = Backend.objects.select_related("guard").order_by("pk")
    if backend is not None:
        rows = rows.filter(name=backend)
        if not rows:
            raise NotFound(f"Backend {backend} does not exist.")
    elif clusters := rows.filter(kind=Backend.Kind.KUBERNETES):
        rows = clusters
    return [row.guard if hasattr(row, "guard") else queue_guard_for(row) for row in rows]


def _invalid(question: AdmissionRequest) -> tuple[list[Violation], list[str]]:
    """Errors and warnings about the minimums. A change of something else never fails for what was there before."""
    before = question.old_object or {}
    now = question.new_object or {}
    if question.old_object is not None and before.get("spec") == now.get("spec"):
        return [], []
    found = validate_pod_group(now)
    return (
        [violation for violation in found if violation.severity != WARNING],
        [violation.message for violation in found if violation.severity == WARNING],
    )


def _foreign(kind: WorkloadKind, question: AdmissionRequest, guard: QueueGuard) -> list[Violation]:
    guarded = QueueAccessPolicy(
        namespace=guard.backend.namespace,
        accounts=frozenset(account for account in (guard.identity, *guard.accounts) if account),
        gangs=_gangs(kind, question, guard.backend),
        url=settings.OSMO.public_url,
    )
    return queue_access.access_violations(
        kind, question.new_object or {}, question.old_object, question.caller, guarded
    )


def _gangs(kind: WorkloadKind, question: AdmissionRequest, backend: Backend) -> dict[str, str]:
    """Of the gang that a pod wants to join: its queue, when it is one of ours on this backend."""
    if kind is not WorkloadKind.POD or question.namespace != backend.namespace:
        return {}
    names = {}
    for name in queue_access.joined_pod_groups(question.new_object or {}):
        try:
            names[UUID(name)] = name
        except ValueError:
            continue
    groups = Group.objects.filter(pk__in=names, workflow__root_pool__backend=backend).select_related(
        "workflow__pool", "workflow__root_pool__backend"
    )
    return {names[group.pk]: queue_names_of(group.workflow)[1] for group in groups}


def _note(guard: QueueGuard, question: AdmissionRequest, found: Sequence[Violation], *, refused: bool) -> None:
    record_bypass(
        guard.backend,
        kind=question.kind,
        namespace=question.namespace,
        name=question.name,
        username=question.caller.username,
        violations=found,
        is_refused=refused,
    )
