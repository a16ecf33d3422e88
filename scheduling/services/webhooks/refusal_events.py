"""Kubernetes Events about refused objects, for people who look at the namespace and not at the answer of `kubectl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pools.domain.errors import Violation, joined_messages
from pools.models import Backend
from scheduling.domain.cluster.admission_review import AdmissionRequest
from scheduling.kube.connection import resource_kinds
from scheduling.kube.events import EventReason, EventSubject
from scheduling.services.kubernetes.cluster_events import record_event

_KINDS = {
    "Pod": resource_kinds.POD,
    "PodGroup": resource_kinds.POD_GROUP,
    "Binding": resource_kinds.POD,  # of the pod with that name
}


def record_refusal(backend: Backend, request: AdmissionRequest, violations: Sequence[Violation]) -> None:
    """Write an Event about the object of a refused request soon, in another thread. A refused object does not exist, so
    the Event names it without a uid."""
    metadata = (request.new_object or {}).get("metadata")
    generated = metadata.get("generateName") if isinstance(metadata, Mapping) else ""
    name = request.name or (generated if isinstance(generated, str) else "")
    message = joined_messages(violations)
    subject = EventSubject(_KINDS[request.kind], name, request.namespace)
    record_event(backend, subject, EventReason.REFUSED, message)
