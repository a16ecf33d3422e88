"""The output and the Kubernetes Events of the pods of a workflow, read from its cluster while the answer is sent.

Neither is stored here: a pod keeps its output until it is deleted, and a cluster keeps Events for an hour. No
transaction is open during a call of the cluster, and every amount is bounded.
"""

from __future__ import annotations

import codecs
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from django.db import close_old_connections

from pools.domain.values.counting import counted
from pools.models import Backend
from pools.selectors.clusters import is_observed
from scheduling.domain.cluster.naming import host_name, pod_group_name, pod_name
from scheduling.domain.cluster.pods.timestamps import parse_time
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.receipts.words import PREEMPTED_BY_CLUSTER
from scheduling.domain.statuses import TaskStatus
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError, InvalidObject, ObjectNotFound
from scheduling.kube.connection.port import ClusterReader
from scheduling.kube.connection.resource_kinds import EVENT
from scheduling.models import Group, ObservedWork, Task
from scheduling.selectors.work.workflow_log import attempt_label
from scheduling.services.kubernetes import connections

MAX_PODS = 32
MAX_LINES = 1000
MAX_BYTES = 1 << 20  # of one pod
MAX_EVENTS = 200
MAX_SECONDS = 30.0
MAX_READERS = 4
_OF_EVICTIONS = frozenset({"Evict", "Preempted"})
_EVICTS = re.compile(r"\b(?:preempted|preempting|reclaimed|reclaiming|evicting)\b", re.IGNORECASE)
_readers = threading.BoundedSemaphore(MAX_READERS)  # a thread of the web process waits for the cluster


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """What the cluster reports about a pod or a PodGroup; `task` is empty for a PodGroup."""

    time: datetime
    subject: str
    text: str
    task: str = ""
    retry: int = 0


def read_output(backend: Backend, attempts: Sequence[Task], *, last: int = MAX_LINES) -> Iterator[str]:
    """The last lines of each attempt's container, each line after `[task]`; a problem is a line, too."""
    dispatched = [task for task in attempts if task.dispatched_at is not None]
    if is_observed(backend):
        yield "The cluster is observed, and the output of its pods is not read from here:\n"
        yield from (f"{line}\n" for line in observed_output(attempts))
        return
    if not dispatched:
        yield "No pod of these tasks has been created on the cluster yet, so there is no output.\n"
        return
    with _Reading(backend) as reading:
        if reading.cluster is None:
            yield reading.problem
            return
        for task in dispatched[:MAX_PODS]:
            if reading.is_over:
                yield f"The cluster took longer than {MAX_SECONDS:.0f} s: ask for single tasks with task_name.\n"
                return
            yield from _read_pod(reading.cluster, backend.namespace, task, min(last, MAX_LINES))
    if len(dispatched) > MAX_PODS:
        yield f"The first {MAX_PODS} of {counted(len(dispatched), 'pod')}: ask for the others with task_name.\n"


def observed_output(attempts: Sequence[Task]) -> list[str]:
    """How to read the output of pods that are not ours: a line for each attempt. Only pods that were there at the last
    look are named."""
    shown = attempts[:MAX_PODS]
    marks = ObservedWork.objects.filter(workflow__groups__in={task.group_id for task in shown})
    names = {
        task: f"kubectl -n {namespace} logs {name} --all-containers"
        for namespace, pods in marks.values_list("namespace", "pod_names")
        for task, (_, name) in pods.items()
    }
    lines = [names.get(str(task.pk)) or f"[{attempt_label(task)}] {_without_pod(task)}" for task in shown]
    more = len(attempts) - len(shown)
    return lines + (
        [f"The first {MAX_PODS} of {counted(len(attempts), 'pod')}: ask for the others with task_name."] if more else []
    )


def _without_pod(task: Task) -> str:
    return "Its pod is gone." if TaskStatus(task.status).is_finished else "It waits, and has no pod that runs."


def read_cluster_events(
    backend: Backend, groups: Iterable[Group], attempts: Sequence[Task], *, with_names: bool
) -> tuple[list[ClusterEvent], str]:
    """The Events of these pods and of the PodGroups of these groups, and a sentence about what is missing, or ''.
    Without `with_names`, those of an eviction lose their words, which name work and queues of others."""
    dispatched = [task for task in attempts if task.dispatched_at is not None]
    if not dispatched:
        return [], ""
    found: list[ClusterEvent] = []
    with _Reading(backend) as reading:
        if reading.cluster is None:
            return [], reading.problem
        subjects: list[tuple[str, str, Task | None]] = [
            *((pod_group_name(group.pk), group.name, None) for group in groups),
            *((pod_name(task.pk), attempt_label(task), task) for task in dispatched),
        ]
        for name, label, task in subjects[:MAX_PODS]:
            if reading.is_over:
                return found, f"The cluster took longer than {MAX_SECONDS:.0f} s, so some of its Events are missing.\n"
            try:
                items = reading.cluster.list(
                    EVENT, namespace=backend.namespace, fields=f"involvedObject.name={name}"
                ).items
            except ClusterError as error:
                return found, f"Events of the cluster are missing: {error_message(error)}\n"
            told = items[-MAX_EVENTS:] if with_names else map(_without_names, items[-MAX_EVENTS:])
            found += [event for item in told if (event := _cluster_event(item, label, task))]
    is_cut = len(subjects) > MAX_PODS
    return found, f"Only the Events of the first {MAX_PODS} pods are read: ask with task_name.\n" if is_cut else ""


class _Reading:
    """One reader's turn: the connection to the cluster, or the sentence that says why there is none."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._has_turn = False
        self.cluster: ClusterReader | None = None
        self.problem = ""
        self._ends_at = 0.0

    def __enter__(self) -> Self:
        self._has_turn = _readers.acquire(blocking=False)
        self._ends_at = time.monotonic() + MAX_SECONDS
        if not self._has_turn:
            self.problem = "Other people are reading from clusters at this moment: ask again in some seconds.\n"
            return self
        try:
            self.cluster = connections.connect_reader(self._backend)
        except ClusterError as error:
            self.problem = f"The cluster cannot be read: {error_message(error)}\n"
        finally:
            close_old_connections()  # nothing of the database is held during a call of the cluster
        return self

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._ends_at

    def __exit__(self, *_: object) -> None:
        if self._has_turn:
            _readers.release()


def _read_pod(cluster: ClusterReader, namespace: str, task: Task, last: int) -> Iterator[str]:
    label = f"[{attempt_label(task)}] "
    container = host_name(task.name, task.position)
    try:
        pieces = cluster.read_log(
            pod_name(task.pk), namespace=namespace, container=container, tail_lines=last, limit_bytes=MAX_BYTES
        )
        has_printed = False
        for lines in _split_lines(pieces):
            has_printed = True
            yield "".join(f"{label}{text}\n" for text in lines)
        if not has_printed:
            yield f"{label}The container has printed nothing yet.\n"
    except ObjectNotFound:
        yield f"{label}The cluster has deleted the pod, and its output with it.\n"
    except InvalidObject as error:
        yield f"{label}The container has printed nothing yet: {error.message}\n"
    except ClusterError as error:
        yield f"{label}The output could not be read: {error_message(error)}\n"


def _split_lines(pieces: Iterable[bytes]) -> Iterator[list[str]]:
    """The lines of a stream of bytes, those of one piece together."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        if lines:
            yield [line.rstrip("\r") for line in lines]
    rest += decoder.decode(b"", final=True)
    if rest:
        yield [rest]


def _without_names(item: Object) -> Object:
    """An Event, without the words of the scheduler if they are of an eviction."""
    if item.get("reason") in _OF_EVICTIONS or _EVICTS.search(str(item.get("message") or "")):
        return {**item, "message": PREEMPTED_BY_CLUSTER}
    return item


def _cluster_event(item: Object, label: str, task: Task | None) -> ClusterEvent | None:
    at = next(
        (
            time
            for text in (item.get("lastTimestamp"), item.get("eventTime"), item["metadata"].get("creationTimestamp"))
            if (time := parse_time(text))
        ),
        None,
    )
    if at is None:
        return None
    count = (item.get("series") or {}).get("count") or item.get("count") or 1
    times = f" ({count} times)" if count > 1 else ""
    message = " ".join(str(item.get("message") or "").split())
    text = f"{item.get('reason') or 'Event'}: {message}{times}"
    return ClusterEvent(at, label, text, task.name if task else "", task.retry_id if task else 0)
