"""The facts of a recorded job, with the times that a policy reads: as a live backend writes them, in whole seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from pools.domain.values.amounts import DEFAULT_FLAVOR, GPU, Number, flavor_of, gpu_key, gpus_in, is_gpu
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskFacts, TaskState
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.flavor_choices import PoolFlavors, TaskGpus, choices_beside
from scheduling.history.replay.history import Configuration, RecordedJob
from scheduling.history.replay.jobs import SECOND


def gang_of(
    configuration: Configuration, job: RecordedJob, running: Mapping[str, str], held: Mapping[str, str] | None = None
) -> GangFacts:
    """A job as the engine reads it, in each choice of the flavors of its pool; `running` are the nodes of its tasks,
    `held` the flavors that some of them have."""
    names = frozenset(node.name for node in configuration.nodes)
    has = [(held or {}).get(task.facts.name, "") for task in job.tasks]
    choices, choice = _choices(configuration, job, has)
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
    first, *others = (
        tuple(_in_flavor(task, flavor) for task, flavor in zip(tasks, flavors, strict=True))
        for flavors in (choices[choice], *choices[:choice], *choices[choice + 1 :])
    )
    return GangFacts(
        job.name, job.queue, first, job.priority.priority_class_value, job.priority.is_preemptible, job.rank,
        job.tree, alternatives=tuple(others), choice=choice, waiting_since=whole_seconds(job.ready),
        started=None if job.began is None else whole_seconds(job.began),
        moved=moved_at(job.started, job.began),
        time_limit=None if job.exec_timeout is None else whole_seconds(job.exec_timeout),
        expected_time=expected_time(job, job.started, job.began),
        checkpoint_every=None if job.checkpoint_every is None else max(1, whole_seconds(job.checkpoint_every)),
    )  # fmt: skip


def _choices(
    configuration: Configuration, job: RecordedJob, held: Sequence[str]
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """As :meth:`scheduling.selectors.queue.live_facts.SharedObjects.variants`."""
    names = configuration.flavors.get(job.queue, ())
    if not names:
        return (tuple(flavor or DEFAULT_FLAVOR for flavor in held),), 0
    requested = [TaskGpus(int(gpus_in(task.facts.request)), task.named, task.platform) for task in job.tasks]
    return choices_beside(PoolFlavors(names, configuration.flavors_there).choices_or_named(requested), held)


def _in_flavor(task: TaskFacts, flavor: str) -> TaskFacts:
    return task if flavor == DEFAULT_FLAVOR else replace(task, request=_request_in(flavor, *task.request.items()))


@lru_cache(maxsize=10_000)
def _request_in(flavor: str, *request: tuple[str, Number]) -> Mapping[str, Number]:
    """Equal requests are one object, which makes the engine fast."""
    return {gpu_key(flavor) if is_gpu(key) else key: amount for key, amount in request}


def gpus_by_key(tasks: Sequence[TaskFacts], gpus: int) -> Mapping[str, int]:
    """The GPUs of the tasks of a gang by key; `gpus`: those that it needs at once, where all are of one flavor."""
    keys = {key for task in tasks for key in task.request if is_gpu(key)}
    if len(keys) < 2:
        return {keys.pop() if keys else GPU: gpus}
    return {key: sum(int(task.request.get(key, 0)) for task in tasks) for key in keys}


def gpus_of_choices(gang: GangFacts, gpus: int) -> Mapping[str, int]:
    """The most that the gang uses in each flavor that it may use, by key."""
    found: dict[str, int] = {}
    for tasks in gang.choices:
        for key, amount in gpus_by_key(tasks, gpus).items():
            found[key] = max(found.get(key, 0), amount)
    return found


def flavors_held(gang: GangFacts) -> dict[str, str]:
    """The flavors of the tasks that run."""
    return {
        task.name: flavor_of(key)
        for task in gang.tasks
        for key in task.request
        if task.state is TaskState.RUNNING and is_gpu(key)
    }


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
