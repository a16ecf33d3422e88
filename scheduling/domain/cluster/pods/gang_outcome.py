"""The outcome of a gang on a cluster from the ends of its tasks (design, O7.3, O7.4).

By its exit actions, a task that ends counts as completed, counts as failed, or gets another attempt. Then for the gang:

* with `ignores_nonlead` only the lead decides: the end of the lead is the end of the gang;
* without it every failure of a task is a failure of the gang, and the gang has completed when all its tasks have;
* a gang with a tree has completed when no task runs and the completed tasks reach its minimum: replicas that
  never started were not needed;
* a pod that the cluster lost (3001, 3004) from a gang with a tree is not a failure of the gang while the other pods
  hold the minimum: its task gets another attempt, or stays away (docs/elastic-gangs.md, "When a pod ends").

A preemption is not an end in this sense; observation handles it elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.domain.gang import tree_from_json
from scheduling.domain.statuses import TaskStatus

COMPLETE, FAIL, RESCHEDULE = "COMPLETE", "FAIL", "RESCHEDULE"
LOST = frozenset({TaskStatus.FAILED_BACKEND_ERROR, TaskStatus.FAILED_EVICTED})
"""The ends of a pod that its cluster lost: with its node, by deletion, by an eviction, for memory."""

MAX_REPLACEMENTS = 10
"""The number of lost pods of a task that are replaced while the gang goes on without them; then the task stays away.
So a pod that its node kills again and again ends."""


_HOLDS = {TaskStatus.INITIALIZING, TaskStatus.RUNNING, TaskStatus.COMPLETED}


@dataclass(frozen=True, slots=True)
class GangMember:
    """A task of the gang with the observed status of its latest attempt. `exit_action` is the action for its exit code,
    `may_retry` whether OSMO Admin allows another attempt, `may_replace` whether a lost pod may get one."""

    name: str
    status: TaskStatus
    lead: bool = False
    sub_group: str = ""
    exit_action: str | None = None
    may_retry: bool = False
    message: str = ""
    may_replace: bool = True


@dataclass(frozen=True, slots=True)
class GangOutcome:
    """The consequences for the gang. `final_statuses` are those of attempts that ended just now. `tasks_to_retry` get
    another attempt; so do `tasks_to_restart`, which still run, because a gang starts together. `verdict` ends the gang,
    and `message` names the task that caused it."""

    final_statuses: Mapping[str, TaskStatus] = field(default_factory=dict)
    tasks_to_retry: frozenset[str] = frozenset()
    tasks_to_restart: frozenset[str] = frozenset()
    verdict: TaskStatus | None = None
    message: str = ""


def decide_outcome(
    members: Sequence[GangMember],
    *,
    tree: Mapping[str, Any] | None,
    ignores_nonlead: bool,
    already_ended: frozenset[str],
) -> GangOutcome:
    """The outcome of a gang from the statuses of its tasks. `already_ended` are the tasks whose end was known
    already."""
    news = [member for member in members if member.status.is_finished and member.name not in already_ended]
    ends = {member.name: _counted_status(member) for member in news}
    spared = _spared(members, ends, tree)
    for member in news:
        if member.name in spared and ends[member.name] is TaskStatus.RESCHEDULED:
            ends[member.name] = member.status  # alone: the gang does not begin again for it
    again = frozenset(name for name, status in ends.items() if status is TaskStatus.RESCHEDULED)
    replaced = frozenset(
        member.name
        for member in news
        if member.name in spared and member.may_replace and member.exit_action not in {COMPLETE, FAIL}
    )
    final = {member.name: ends.get(member.name, member.status) for member in members}
    has_lead = any(member.lead for member in members)
    for member in members:
        decides = member.lead or not (ignores_nonlead and has_lead)
        if decides and final[member.name].is_failed and member.name not in spared:
            return GangOutcome(ends, verdict=final[member.name], message=f"{member.name}: {member.message}")
    restart: frozenset[str] = frozenset()
    if again and not (ignores_nonlead and has_lead):
        restart = frozenset(member.name for member in members if not member.status.is_finished)
    verdict = None if again else _completion(members, final, tree, ignores_nonlead and has_lead)
    return GangOutcome(ends, again | replaced, restart, verdict)


def _spared(
    members: Sequence[GangMember], ends: Mapping[str, TaskStatus], tree: Mapping[str, Any] | None
) -> frozenset[str]:
    """The tasks, without the lead, whose pods the cluster lost while the others hold the minimum of the gang."""
    lost = frozenset(member.name for member in members if member.status in LOST and not member.lead)
    if tree is None or not lost:
        return frozenset()
    shape = tree_from_json(tree, len(members))
    pods = [0] * len(shape.names)
    for member in members:
        if ends.get(member.name, member.status) in _HOLDS:
            pods[shape.leaf_of(member.sub_group)] += 1
    return lost if shape.is_satisfied(pods) else frozenset()


def _counted_status(member: GangMember) -> TaskStatus:
    """The final status of an attempt with its exit action applied."""
    if member.exit_action == RESCHEDULE and member.may_retry:
        return TaskStatus.RESCHEDULED
    if member.exit_action == COMPLETE:
        return TaskStatus.COMPLETED
    if member.exit_action == FAIL and not member.status.is_failed:
        return TaskStatus.FAILED
    return member.status


def _completion(
    members: Sequence[GangMember], final: Mapping[str, TaskStatus], tree: Mapping[str, Any] | None, lead_decides: bool
) -> TaskStatus | None:
    done = [member for member in members if final[member.name] is TaskStatus.COMPLETED]
    if lead_decides:
        return TaskStatus.COMPLETED if any(member.lead for member in done) else None
    if len(done) == len(members):
        return TaskStatus.COMPLETED
    if tree is None or any(final[member.name] in {TaskStatus.INITIALIZING, TaskStatus.RUNNING} for member in members):
        return None
    shape = tree_from_json(tree, len(members))
    pods = [0] * len(shape.names)
    for member in done:
        pods[shape.leaf_of(member.sub_group)] += 1
    return TaskStatus.COMPLETED if done and shape.is_satisfied(pods) else None


def gang_status(tasks: Sequence[TaskStatus]) -> TaskStatus:
    """The status of an unfinished gang: RUNNING while a task runs, INITIALIZING while a task has a node, else
    SCHEDULING."""
    for status in (TaskStatus.RUNNING, TaskStatus.INITIALIZING):
        if status in tasks:
            return status
    return TaskStatus.SCHEDULING
