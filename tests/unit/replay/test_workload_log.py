"""Logs of Kueue's Workloads, and of KAI's PodGroups and pods: snapshots, lists, watch events, and hostile lines."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from scheduling.domain.priorities import Priority
from scheduling.history.replay.jobs import SECOND
from scheduling.history.traces.forms.snapshots import gpus_of, gpus_of_pod
from scheduling.history.traces.trace import Trace, TraceOptions, TraceReader


def read(tmp_path: Path, text: str | bytes, **options: object) -> tuple[Trace | None, list[tuple[int | None, str]]]:
    file = tmp_path / "workloads.jsonl"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    given = {"keeps_records": True, **options}
    reader = TraceReader(str(file), teams=None, priority=Priority.LOW, options=TraceOptions(**given))  # type: ignore[arg-type]
    return reader.read(), [(fault.line, fault.message) for fault in reader.faults.listed]


def lines(*objects: dict[str, Any]) -> str:
    """Each object on its line."""
    return "".join(json.dumps(each) + "\n" for each in objects)


def at(minute: int) -> str:
    return f"2026-10-01T{10 + minute // 60}:{minute % 60:02}:00Z"


def condition(kind: str, minute: int, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": at(minute)}


def workload(
    name: str, *conditions: dict[str, str], gpus: object = "8", queue: str = "bio", **status: Any
) -> dict[str, Any]:
    """A Workload of Kueue that was created at minute 0."""
    admission = {
        "clusterQueue": queue,
        "podSetAssignments": [{"name": "main", "resourceUsage": {"nvidia.com/gpu": gpus, "cpu": "4"}}],
    }  # fmt: skip
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {
            "name": name, "namespace": "lab", "uid": name, "creationTimestamp": at(0), "labels": {"user": "ann"},
        },
        "spec": {"queueName": "local", "priorityClassName": "high", "maximumExecutionTimeSeconds": 3600},
        "status": {"admission": admission, "conditions": list(conditions), **status},
    }  # fmt: skip


def pod(name: str, group: str = "", *, start: int = 5, end: int | None = 65, **more: Any) -> dict[str, Any]:
    """A pod with 4 GPUs."""
    ended = [{"state": {"terminated": {"finishedAt": at(end)}}}] if end is not None else []
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "lab", "uid": name, "creationTimestamp": at(0),
            "annotations": {"pod-group-name": group} if group else {}, "labels": {"kai.scheduler/queue": "chem"},
            **more.pop("metadata", {}),
        },
        "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}]},
        "status": {
            "phase": "Running" if end is None else "Succeeded", "conditions": [condition("PodScheduled", start)],
            "containerStatuses": ended, **more,
        },
    }  # fmt: skip


GROUP = {
    "kind": "PodGroup", "metadata": {"name": "g", "namespace": "lab", "uid": "u", "creationTimestamp": at(0)},
    "spec": {"queue": "bio", "priorityClassName": "train"},
}  # fmt: skip


def test_the_snapshots_of_one_workload_are_one_job(tmp_path: Path) -> None:
    text = lines(
        workload("w"),
        workload("w", condition("Admitted", 10)),
        {
            "kind": "WorkloadList",
            "items": [workload("w", condition("Admitted", 10, "False"), condition("Evicted", 20))],
        },
        {"type": "MODIFIED", "object": workload("w", condition("Admitted", 30))},
        workload("w", condition("Admitted", 30), condition("Finished", 90)),
        workload("open", condition("Admitted", 30)),
        workload("cancelled", condition("Finished", 5)),
        workload("cpu", condition("Admitted", 30), condition("Finished", 90), gpus="0"),
        {"kind": "Node", "metadata": {"name": "n"}},
    )
    trace, faults = read(tmp_path, text, priorities={"high": Priority.HIGH})
    assert faults == []
    assert trace is not None
    (job,) = trace.jobs
    assert (job.gpus, job.team, job.user, job.name, job.priority) == (8, "bio", "ann", "w", Priority.HIGH)
    assert (job.duration, job.limit) == (3600 * SECOND, 3600 * SECOND)
    record = trace.records.of(job.id)
    assert ((record.started - trace.jobs.start) // SECOND, record.stops) == (600, 1)
    assert record.held == (3600 + 600) * SECOND
    assert trace.notes == (
        "1 of 4 jobs is left out: it had not ended (line 6).",
        "1 of 4 jobs is left out: it ended before it ran (line 7).",
        "1 of 4 jobs is left out: it had no GPUs (line 8).",
        "1 object of other kinds than Workload, PodGroup and Pod is not read.",
    )


def test_one_last_snapshot_knows_its_evictions(tmp_path: Path) -> None:
    stats = {"evictions": [{"reason": "Preempted", "count": 2}, {"reason": "PodsReadyTimeout", "count": 1}]}
    done = workload("w", condition("Admitted", 30), condition("Finished", 90), schedulingStats=stats)
    trace, _faults = read(tmp_path, json.dumps({"kind": "List", "items": [done]}, indent=4) + "\n")
    assert trace is not None
    (job,) = trace.jobs
    assert trace.records.of(job.id).stops == 3
    assert trace.notes == ("1 job was evicted before the log saw any run. The wait ends with a later start.",)


def test_gpus_by_the_templates_of_pods(tmp_path: Path) -> None:
    done = workload("w", condition("Admitted", 30), condition("Finished", 90))
    done["status"]["admission"]["podSetAssignments"] = []
    container = {"resources": {"requests": {"nvidia.com/gpu": "2"}}}
    done["spec"]["podSets"] = [{"count": 3, "template": {"spec": {"containers": [container, container]}}}]
    trace, _faults = read(tmp_path, lines(done), team_from="namespace")
    assert trace is not None
    assert [(job.gpus, job.team) for job in trace.jobs] == [(12, "lab")]


def test_pods_of_a_group_are_one_job(tmp_path: Path) -> None:
    stopped = pod(
        "a0", "g", start=1, end=None, conditions=[condition("PodScheduled", 1), condition("DisruptionTarget", 4)]
    )
    plain = pod("alone", metadata={"labels": {"runai/queue": "ops"}})
    cpu = pod("cpu")
    cpu["spec"]["containers"] = [{"resources": {"limits": {"cpu": 4}}}]
    text = lines(GROUP, stopped, pod("a", "g", end=None), pod("a", "g"), pod("b", "g", start=6, end=66), plain, cpu)
    trace, faults = read(tmp_path, text)
    assert faults == []
    assert trace is not None
    jobs = [(job.gpus, job.team, job.name, job.duration // SECOND) for job in trace.jobs]
    assert jobs == [(8, "bio", "g", 3600), (4, "ops", "alone", 3600)]
    record = trace.records.of(next(iter(trace.jobs)).id)
    assert (record.stops, record.nodes, record.kind) == (1, "n1", "train")
    assert (record.started - trace.jobs.start) // SECOND == 60


def test_a_group_with_a_pod_that_still_runs_had_not_ended(tmp_path: Path) -> None:
    _trace, faults = read(tmp_path, lines(GROUP, pod("a", "g"), pod("b", "g", end=None)))
    assert [message for _line, message in faults] == [
        "The trace has no usable jobs. 1 of 1 job is left out: it had not ended (line 1)."
    ]


def test_pods_beside_workloads_are_not_counted_twice(tmp_path: Path) -> None:
    done = workload("w", condition("Admitted", 30), condition("Finished", 90))
    trace, _faults = read(tmp_path, lines(done, pod("a")))
    assert trace is not None
    assert len(trace.jobs) == 1
    assert trace.notes == ("1 pod is not read, because the log has Workloads.",)


@pytest.mark.parametrize(
    ("amounts", "gpus"),
    [
        ({"nvidia.com/gpu": "8"}, (8, False)), ({"nvidia.com/gpu": 2, "amd.com/gpu": "1"}, (3, False)),
        ({}, (0, False)), ({"cpu": "x"}, (0, False)), ({"nvidia.com/mig-1g.5gb": 2}, (2, True)),
        ({"nvidia.com/gpu": "500m"}, (1, True)), ({"nvidia.com/gpu": "many"}, None), ({"nvidia.com/gpu": -1}, None),
        ({"nvidia.com/gpu": "1E"}, None), ({"nvidia.com/gpu": True}, None),
    ],
)  # fmt: skip
def test_gpus_of_resources(amounts: dict[str, object], gpus: tuple[int, bool] | None) -> None:
    if gpus is None:
        with pytest.raises(ValueError, match="number of GPUs"):
            gpus_of(amounts)
    else:
        assert gpus_of(amounts) == gpus


def test_a_part_of_a_gpu_is_one() -> None:
    assert gpus_of_pod({"containers": [{}]}, {"gpu-fraction": "0.5"}) == (1, True)


def test_init_containers_that_stay_count_with_those_after_them() -> None:
    def container(gpus: int, **more: str) -> dict[str, object]:
        return {"resources": {"limits": {"nvidia.com/gpu": gpus}}, **more}

    sidecar, first, main = container(1, restartPolicy="Always"), container(4), container(2)
    assert gpus_of_pod({"initContainers": [sidecar, first], "containers": [main]}, {}) == (5, False)
    assert gpus_of_pod({"initContainers": [first, sidecar], "containers": [main]}, {}) == (4, False)
    assert gpus_of_pod({"initContainers": [sidecar], "containers": [main]}, {}) == (3, False)


DONE = (condition("Admitted", 30), condition("Finished", 90))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{nonsense}", "This is not valid JSON"),
        ('{"kind": "Workload", "a": NaN}', "This is not valid JSON"),
        ('{"kind": ' + "[" * 100_000 + "}", "This is not valid JSON, or is nested too deep"),
        ('{"kind": "Workload", "n": ' + "9" * 5000 + "}", "This is not valid JSON"),
        ('{"kind": "Workload", "metadata": [], "status": 3}', "The object has no name."),
        (lines(workload("x", *DONE, gpus="many")), "The object has a number of GPUs that is not a quantity."),
        (lines(workload("x", *DONE, gpus=10**18)), "The object has a number of GPUs that is not a quantity."),
        (lines(workload("x", *DONE[:1], condition("Finished", 9))), "The object has a negative time"),
        (lines(workload("x", *DONE) | {"metadata": {"name": "x"}}), "The object has no time of creation."),
        (lines(pod("x", metadata={"labels": {}})), "The object has no queue: choose --team-from namespace"),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_used(tmp_path: Path, line: str, message: str) -> None:
    before = lines(GROUP) if "Pod" in line else lines(workload("w", *DONE))
    trace, faults = read(tmp_path, before + line + "\n")
    assert trace is None
    assert [(number, text.startswith(message)) for number, text in faults if "usable jobs" not in text] == [(2, True)]


def test_a_line_that_breaks_off_hides_no_other(tmp_path: Path) -> None:
    text = lines(workload("w", *DONE))
    trace, faults = read(tmp_path, text[:200] + "\n" + text)
    assert trace is None
    assert [number for number, _message in faults] == [1]
    trace, faults = read(tmp_path, text + "[1, 2]\n" + text[:100])
    assert [number for number, _message in faults] == [2, 3]


def test_options_of_other_forms(tmp_path: Path) -> None:
    _trace, ((_line, message),) = read(tmp_path, lines(workload("w", *DONE)), team_from="account")
    assert message == "The file is in the form of a log of workloads: it has queue, namespace."


def test_many_snapshots_need_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.history.traces.forms.snapshots.MAX_DOCUMENT", 300_000)
    monkeypatch.setattr("scheduling.history.traces.forms.workloads.MAX_OBJECTS", 50)
    text = lines(*[workload(f"w{n % 50}", *DONE) for n in range(1_500)])
    tracemalloc.start()
    try:
        trace, _faults = read(tmp_path, text)
        assert trace is not None
        assert len(trace.jobs) == 50
        assert tracemalloc.get_traced_memory()[1] < 3 * len(text)
    finally:
        tracemalloc.stop()
    many = lines(*[workload(f"w{n}", *DONE) for n in range(60)])
    assert read(tmp_path, many)[1][0] == (52, "The log has more than 50 objects; give a shorter time.")
    indented = json.dumps({"kind": "List", "items": [workload(f"w{n}") for n in range(300)]}, indent=4)
    assert "The document has more than 0 MiB: write one object on each line" in read(tmp_path, indented)[1][0][1]


def test_a_key_that_is_given_twice_is_a_fault_of_its_line(tmp_path: Path) -> None:
    text = lines(workload("w")) + '{"kind": "Pod", "spec": {"a": 1, "a": 2}}\n'
    trace, faults = read(tmp_path, text)
    assert trace is None
    assert [(line, message[:41]) for line, message in faults] == [(2, 'The key "a" is given twice in one object:')]
