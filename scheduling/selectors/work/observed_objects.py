"""The objects of observed clusters behind workflows."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from scheduling.domain.observed.observed_object import OWNER_PREFIX, ObservedObject
from scheduling.models import ObservedWork, Workflow


def read_observed_objects(workflows: Iterable[Workflow]) -> dict[UUID, ObservedObject]:
    """The objects of those of these workflows that were observed: one query, none where only people own them."""
    seen = [each.pk for each in workflows if each.submitted_by.username.startswith(OWNER_PREFIX)]
    if not seen:
        return {}
    marks = ObservedWork.objects.filter(pk__in=seen).select_related("backend").defer("pods", "pod_names")
    return {
        mark.pk: ObservedObject(mark.backend.name, mark.kind, mark.namespace, mark.name, mark.queue, mark.is_open)
        for mark in marks
    }


def find_observed_object(workflow: Workflow) -> ObservedObject | None:
    """The object of this workflow, None for work of ours."""
    return read_observed_objects([workflow]).get(workflow.pk)
