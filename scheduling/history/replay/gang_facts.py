"""The facts of a recorded job, with the times that a policy reads: as a live backend writes them, in whole seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskFacts, TaskState
from scheduling.domain.engine.kept_state import KeptState
from scheduling.history.replay.history import Configuration, RecordedJob
from scheduling.history.replay.jobs import SECOND


def gang_of(configuration: Configuration, job: RecordedJob, running: Mapping[str, str]) -> GangFacts:
    """A job as the engine reads it; `running` are the nodes of its tasks."""
    names = frozenset(node.name for node in configuration.nodes)
    tasks: list[TaskFacts] = []
    for task in job.tasks:
        allowed = configuration.platforms.get(task.platform, frozenset()) - task.excluded
        node = running.get(task.facts.name)
        tasks.append(
            replace(
                task.facts,
                state=TaskState.PENDING if node is None else TaskState.RUNNING,
                node=node if node in names else None,
                allowed_nodes=None if allowed == names else frozenset(allowed),
            )
        )
    return GangFacts(
        job.name, job.queue, tuple(tasks), job.priority.priority_class_value, job.priority.is_preemptible, job.rank,
        job.tree, waiting_since=whole_seconds(job.ready),
        started=None if job.began is None else whole_seconds(job.began),
        moved=moved_at(job.started, job.began),
        time_limit=None if job.exec_timeout is None else whole_seconds(job.exec_timeout),
        expected_time=expected_time(job, job.started, job.began),
        checkpoint_every=None if job.checkpoint_every is None else max(1, whole_seconds(job.checkpoint_every)),
    )  # fmt: skip


def expected_time(job: RecordedJob, start: int | None, began: int | None) -> int | None:
    """How long it probably runs from `began`, in seconds; `start` is later where its tasks have moved since. What
    waits has only the time that its file says."""
    if start is None or began is None or job.simulated is None:
        return None if job.declared is None else whole_seconds(job.declared)
    return whole_seconds(job.simulated + start - began)


def moved_at(start: int | None, began: int | None) -> int | None:
    """When the tasks of a gang that has had its place since `began` moved, if they did; `start` is that of its work."""
    return None if start is None or start == began else whole_seconds(start)


def time_limit(job: RecordedJob, first_start: int | None, began: int | None, now: int) -> int | None:
    """How long it may still run, in seconds from `began`, or from now on while it waits. The limit is that of its
    workflow, which started first at `first_start`."""
    if job.exec_timeout is None or first_start is None:
        return None if job.exec_timeout is None else whole_seconds(job.exec_timeout)
    return max(0, whole_seconds(first_start + job.exec_timeout) - whole_seconds(now if began is None else began))


def starts_alone(configuration: Configuration, job: RecordedJob) -> bool:
    """Whether a job starts on the cluster without any other work."""
    now, gang = configuration, gang_of(configuration, job, {})
    state = KeptState(ClusterFacts(now.queues, now.cohorts, (gang,), now.nodes, units=now.units))
    state.run()
    return state.is_running(job.name)


def whole_seconds(microseconds: int) -> int:
    """The policy of a live backend reads whole seconds."""
    return (microseconds + SECOND // 2) // SECOND
