"""Kubernetes Events on the objects of a backend's cluster, from any process: one writer for each backend."""

from __future__ import annotations

import threading

from django.db import connection

from pools.models import Backend
from scheduling.kube.connection.port import Cluster
from scheduling.kube.events import EventReason, EventSubject, EventWriter
from scheduling.services.kubernetes import connections

_writers: dict[int, EventWriter] = {}
_lock = threading.Lock()


def record_event(backend: Backend, subject: EventSubject, reason: EventReason, message: str) -> None:
    """Write an Event on an object of this backend's cluster soon. Makes no query and no call in this thread, and never
    raises; where the cluster takes no Events the Event is dropped."""
    writer_of(backend).record(subject, reason, message)


def writer_of(backend: Backend) -> EventWriter:
    """The writer of a backend in this process."""
    with _lock:
        writer = _writers.get(backend.pk)
        if writer is None:
            writer = _writers[backend.pk] = EventWriter(lambda: _connect(backend), backend.name)
        return writer


def _connect(backend: Backend) -> Cluster:
    """The connection, read with a database connection of the writer's thread, which is not kept."""
    try:
        return connections.connect(backend)
    finally:
        connection.close()
