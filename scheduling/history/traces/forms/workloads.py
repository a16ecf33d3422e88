"""A log of Kueue's Workloads, or of KAI's PodGroups and their pods: the last state of each object says how it ended.

A Workload says when it was admitted and when it finished; earlier snapshots, and its own counts, say how often it was
evicted. A PodGroup says when it was submitted, and its pods when they ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduling.history.traces.forms.found_job import FormNotes, FormOptions, FoundJob, LeftOut, Tell
from scheduling.history.traces.forms.snapshots import (
    Json,
    entries,
    gpus_of,
    gpus_of_pod,
    moment,
    part,
    read_objects,
    since,
    word,
)

TEAMS: Final = ("queue", "namespace")
MAX_OBJECTS: Final = 500_000
SECOND: Final = 1_000_000
_GROUP_OF_POD: Final = "pod-group-name"
_QUEUE_LABELS: Final = ("kai.scheduler/queue", "runai/queue")
_USER_LABELS: Final = ("user", "runai/user", "username")
_PARTS: Final = "{objects} {have} parts of GPUs. What one has is counted as whole GPUs, at least one."
_UNSEEN: Final = "{jobs} {were} evicted before the log saw any run. The wait ends with a later start."
_OTHERS: Final = "{objects} of other kinds than Workload, PodGroup and Pod {are} not read."
_DOUBLE: Final = "{pods} {are} not read, because the log has Workloads."


@dataclass(slots=True)
class _SeenWork:
    """What the snapshots of one Workload, or of one PodGroup, say together."""

    row: int
    line: int = 0
    name: str = ""
    namespace: str = ""
    user: str = ""
    kind: str = ""
    queue: str = ""
    created: int | None = None
    gpus: int = 0
    gpu_kind: str = ""
    limit: int | None = None
    starts: set[int] = field(default_factory=set)
    evicted: set[int] = field(default_factory=set)
    evictions: int = 0
    ended: int | None = None


@dataclass(slots=True)
class _Pod:
    """The last state of a pod. `ended` None: it runs, waits, or was gone before a snapshot saw its end."""

    group: str
    line: int
    gpus: int
    node: str
    start: int | None
    ended: int | None
    is_stopped: bool


class WorkloadReader:
    """Reads one log. Memory grows with the objects, not with the snapshots."""

    def __init__(self, options: FormOptions, tell: Tell, notes: FormNotes, *, has_team: bool) -> None:
        """`has_team`: jobs without a team have one from the command line."""
        self._options, self._tell, self._notes, self._has_team = options, tell, notes, has_team
        self._by_namespace = options.team_from == "namespace"
        self._works: dict[str, _SeenWork] = {}
        self._groups: dict[str, _SeenWork] = {}
        self._pods: dict[str, _Pod] = {}

    def read(self, lines: Iterator[str]) -> Iterator[FoundJob]:
        """The jobs that ended, in the order in which the log saw them first."""
        readers = {"Workload": self._see_workload, "PodGroup": self._see_group, "Pod": self._see_pod}
        for line, each in read_objects(lines, self._tell):
            see = readers.get(word(each, "kind"))
            if see is None:
                self._notes.remark(_OTHERS)
                continue
            if len(self._works) + len(self._groups) + len(self._pods) > MAX_OBJECTS:
                self._tell(line, "", f"The log has more than {MAX_OBJECTS:,} objects; give a shorter time.")
                return
            try:
                see(line, each)
            except ValueError as problem:
                self._unusable(line, f"The object {problem}.")
        if self._works:
            for _pod in self._pods:
                self._notes.remark(_DOUBLE)
        jobs = map(self._job_of_workload, self._works.values()) if self._works else self._jobs_of_groups()
        yield from (job for job in jobs if job is not None)

    def _unusable(self, line: int, message: str) -> None:
        if self._options.skips_unusable:
            self._notes.jobs += 1
            self._notes.leave_out(LeftOut.UNUSABLE, line)
        else:
            self._tell(line, "", message)

    def _begin(self, works: dict[str, _SeenWork], key: str, line: int, each: Json) -> _SeenWork:
        """The work of an object, with what its metadata says."""
        meta, labels = part(each, "metadata"), part(each, "metadata", "labels")
        work = works.setdefault(key, _SeenWork(len(self._works) + len(self._groups) + 1))
        work.line = line
        work.name, work.namespace = word(meta, "name"), word(meta, "namespace")
        work.created = moment(meta.get("creationTimestamp"))
        work.user = next((found for name in _USER_LABELS if (found := word(labels, name))), work.user)
        return work

    # -- Kueue -------------------------------------------------------------------------------------------------------

    def _see_workload(self, line: int, each: Json) -> None:
        work = self._begin(self._works, _identity(each), line, each)
        spec, status = part(each, "spec"), part(each, "status")
        work.kind = word(spec, "priorityClassName") or word(part(spec, "priorityClassRef"), "name")
        admission = part(status, "admission")
        if found := word(admission, "clusterQueue"):
            work.queue = found
            work.gpus = self._gpus_of_workload(spec, admission)
            work.gpu_kind = _flavor_of(admission)
        seconds = spec.get("maximumExecutionTimeSeconds")
        if isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds < 10**11:
            work.limit = seconds * SECOND
        for condition, times in (("Admitted", work.starts), ("Evicted", work.evicted)):
            if (at := since(status, condition)) is not None:
                times.add(at)
        counts = [found.get("count") for found in entries(part(status, "schedulingStats"), "evictions")]
        counted = sum(count for count in counts if isinstance(count, int) and 0 < count < 10**6)
        work.evictions = max(work.evictions, counted)
        work.ended = since(status, "Finished")

    def _gpus_of_workload(self, spec: Json, admission: Json) -> int:
        """The GPUs that were admitted; by the templates of its pods where Kueue does not say it."""
        whole, said = 0, False
        for assignment in entries(admission, "podSetAssignments"):
            if usage := part(assignment, "resourceUsage"):
                said = True
                gpus, are_parts = gpus_of(usage)
                whole += gpus
                self._tell_parts(are_parts)
        if said:
            return whole
        for pods in entries(spec, "podSets"):
            count = pods.get("count", 1)
            if not isinstance(count, int) or not 0 <= count <= 10**6:
                raise ValueError("has a number of pods that is not a whole number")
            template = part(pods, "template")
            gpus, are_parts = gpus_of_pod(part(template, "spec"), part(template, "metadata", "annotations"))
            whole += count * gpus
            self._tell_parts(are_parts)
        return whole

    def _tell_parts(self, are_parts: bool) -> None:
        if are_parts:
            self._notes.remark(_PARTS)

    def _job_of_workload(self, work: _SeenWork) -> FoundJob | None:
        if not work.starts or work.ended is None:
            self._leave_out(work, LeftOut.OPEN if work.ended is None else LeftOut.NEVER_RAN)
            return None
        first, last = min(work.starts), max(work.starts)
        stops = max(len(work.starts) - 1, work.evictions)
        if len(work.starts) <= work.evictions:
            self._notes.remark(_UNSEEN)
        ends = {start: min((at for at in work.evicted if at > start), default=start) for start in work.starts - {last}}
        return self._job(work, first, last, stops, "", sorted(ends.items()))

    # -- KAI ---------------------------------------------------------------------------------------------------------

    def _see_group(self, line: int, each: Json) -> None:
        meta, spec = part(each, "metadata"), part(each, "spec")
        work = self._begin(self._groups, _group_key(word(meta, "namespace"), word(meta, "name")), line, each)
        work.queue = word(spec, "queue") or work.queue
        work.kind = word(spec, "priorityClassName")

    def _see_pod(self, line: int, each: Json) -> None:
        meta, spec, status = part(each, "metadata"), part(each, "spec"), part(each, "status")
        annotations, labels = part(meta, "annotations"), part(meta, "labels")
        gpus, are_parts = gpus_of_pod(spec, annotations)
        if not gpus:
            return
        identity = _identity(each)
        if identity not in self._pods:
            self._tell_parts(are_parts)
        group = word(annotations, _GROUP_OF_POD) or word(labels, _GROUP_OF_POD)
        key = _group_key(word(meta, "namespace"), group) if group else identity
        if key not in self._groups:
            self._begin(self._groups, key, line, each)
        work = self._groups[key]
        work.queue = work.queue or next((found for name in _QUEUE_LABELS if (found := word(labels, name))), "")
        work.user = next((found for name in _USER_LABELS if (found := word(labels, name))), work.user)
        stopped = since(status, "DisruptionTarget")
        ended = stopped
        if word(status, "phase") in {"Succeeded", "Failed"} and stopped is None:
            ends = [
                moment(part(found, "state", "terminated").get("finishedAt"))
                for found in entries(status, "containerStatuses")
            ]
            ended = max((at for at in ends if at is not None), default=None)
        start = since(status, "PodScheduled")
        self._pods[identity] = _Pod(
            key, line, gpus, word(spec, "nodeName"), moment(status.get("startTime")) if start is None else start, ended,
            stopped is not None,
        )  # fmt: skip

    def _jobs_of_groups(self) -> Iterator[FoundJob | None]:
        pods: dict[str, list[_Pod]] = {}
        for pod in self._pods.values():
            pods.setdefault(pod.group, []).append(pod)
        for key, work in self._groups.items():
            yield self._job_of_group(work, pods.get(key, []))

    def _job_of_group(self, work: _SeenWork, pods: list[_Pod]) -> FoundJob | None:
        """The pods that ended by themselves are its last run; those that were stopped, or are gone, were before it."""
        last = [pod for pod in pods if pod.ended is not None and pod.start is not None and not pod.is_stopped]
        begun = max((pod.start for pod in last if pod.start is not None), default=None)
        if begun is None:
            self._leave_out(work, LeftOut.OPEN if pods else LeftOut.NO_GPUS)
            return None
        if any(pod.ended is None and (pod.start is None or pod.start >= begun) for pod in pods):
            self._leave_out(work, LeftOut.OPEN)
            return None
        before = [pod for pod in pods if pod.start is not None and (pod.is_stopped or pod.ended is None)]
        work.gpus = sum(pod.gpus for pod in last)
        work.ended = max(pod.ended for pod in last if pod.ended is not None)
        work.line = max(pod.line for pod in last)
        first = min([begun, *(pod.start for pod in before if pod.start is not None)])
        stops = -(-len(before) // len(last))
        nodes = ",".join(sorted({pod.node for pod in last if pod.node})) if self._options.keeps_nodes else ""
        runs = sorted((pod.start, pod.ended) for pod in before if pod.ended is not None and pod.start is not None)
        whole = [_one_run(runs[at : at + len(last)], len(last)) for at in range(0, len(runs), len(last))]
        return self._job(work, first, begun, stops, nodes, whole)

    # -- both --------------------------------------------------------------------------------------------------------

    def _leave_out(self, work: _SeenWork, why: LeftOut) -> None:
        self._notes.jobs += 1
        self._notes.leave_out(why, work.line)

    def _job(
        self, work: _SeenWork, first: int, last: int, stops: int, nodes: str, earlier: Sequence[tuple[int, int]]
    ) -> FoundJob | None:
        """The job, whose first and last run began at these times; `earlier`: the runs before the last."""
        assert work.ended is not None
        earlier = [(begin, end) for begin, end in earlier if begin < end]
        team = work.namespace if self._by_namespace else work.queue
        duration = work.ended - last
        fault = ""
        if work.created is None:
            fault = "has no time of creation"
        elif first < work.created or duration < 0:
            fault = "has a negative time: it starts before it was created, or ends before it starts"
        elif not team and not self._has_team:
            fault = "has no queue: choose --team-from namespace, or give --team NAME"
        if fault:
            self._unusable(work.line, f"The object {fault}.")
            return None
        self._notes.jobs += 1
        if not work.gpus or not duration:
            self._notes.leave_out(LeftOut.ZERO_TIME if work.gpus else LeftOut.NO_GPUS, work.line)
            return None
        limit = None if work.limit is None else max(work.limit, duration)
        return FoundJob(
            work.row, work.line, work.created or 0, duration, work.gpus, team, first, work.ended, work.name, work.user,
            work.kind, limit, stops, duration + sum(end - begin for begin, end in earlier), nodes, work.gpu_kind,
            tuple(earlier),
        )  # fmt: skip


def _one_run(pods: Sequence[tuple[int, int]], most: int) -> tuple[int, int]:
    """Pods that were stopped together as one run of a job of so many pods, with the same time in all."""
    begin = pods[0][0]
    return begin, begin + sum(max(0, ended - started) for started, ended in pods) // most


def _flavor_of(admission: Json) -> str:
    """The flavor of all GPUs that were admitted; empty if there are several."""
    found = {
        flavor
        for assignment in entries(admission, "podSetAssignments")
        for resource, flavor in part(assignment, "flavors").items()
        if isinstance(flavor, str) and gpus_of({resource: 1})[0]
    }
    return found.pop() if len(found) == 1 else ""


def _identity(each: Json) -> str:
    meta = part(each, "metadata")
    found = word(meta, "uid") or _group_key(word(meta, "namespace"), word(meta, "name"))
    if found == "/":
        raise ValueError("has no name")
    return found


def _group_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"
