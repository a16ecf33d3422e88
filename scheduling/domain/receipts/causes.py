"""Why something else ended an attempt, from what a scheduler decided or a cluster reported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from pools.domain.values.amounts import UNLIMITED, Amount
from scheduling.domain.engine.steps import EvictionRule, Step, StepAction
from scheduling.domain.statuses import EXIT_CODES, TaskStatus


class EndCause(StrEnum):
    """The rule by which something else ended an attempt.

    `priority`: work of a higher priority in the same queue. `reclaim`: a queue took back its own quota. `fair_share`: a
    queue got its share of what no quota covers. `reservation`: room for a start reservation. `consolidation`: moved to
    other nodes, so that other work could start. `lowered_quota`: reclaimed, and it was inside the quota of its queue
    until that was lowered. `below_minimum`: its gang fell below its minimum. `node`: its node was lost. `evicted`: it
    was stopped for memory or storage. `person`: another person cancelled it. `not_known`: a cluster decided and did
    not say."""

    PRIORITY = "priority"
    RECLAIM = "reclaim"
    FAIR_SHARE = "fair_share"
    RESERVATION = "reservation"
    CONSOLIDATION = "consolidation"
    LOWERED_QUOTA = "lowered_quota"
    BELOW_MINIMUM = "below_minimum"
    NODE = "node"
    EVICTED = "evicted"
    PERSON = "person"
    NOT_KNOWN = "not_known"


@dataclass(frozen=True, slots=True)
class InterruptionFacts:
    """Why something else ended attempts of a gang, as the receipt keeps it.

    `for_workflow` got the place, `by_user` cancelled it, `note` is what a cluster said. `numbers` are those of the two
    queues (:class:`QueueNumbers`), `spared` is other work that the rule also allowed to end."""

    cause: EndCause
    for_workflow: UUID | None = None
    by_user: str = ""
    note: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    spared: Sequence[Mapping[str, Any]] = ()
    has_more_spared: bool = False


@dataclass(frozen=True, slots=True)
class QueueNumbers:
    """GPUs of a queue at the instant before: its quota, all its work, and its fair share. None: not known."""

    pool: str
    quota: Amount | None
    used: int
    share: Amount | None = None

    def as_json(self) -> dict[str, Any]:
        """As a receipt keeps it; an amount without a limit is "unlimited"."""
        return {"pool": self.pool, "quota": _plain(self.quota), "used": self.used, "share": _plain(self.share)}


def _plain(amount: Amount | None) -> int | float | str | None:
    if amount is None:
        return None
    if amount == UNLIMITED:
        return "unlimited"
    return int(amount) if amount == int(amount) else round(float(amount), 2)


_PREEMPTED = EXIT_CODES[TaskStatus.FAILED_PREEMPTED]
LOST = frozenset({TaskStatus.FAILED_BACKEND_ERROR, TaskStatus.FAILED_EVICTED})
"""The ends of an attempt that its cluster lost: with its node, by deletion, by an eviction."""

_BY_LOSS = {TaskStatus.FAILED_BACKEND_ERROR: EndCause.NODE, TaskStatus.FAILED_EVICTED: EndCause.EVICTED}
_BY_LOST_CODE = {EXIT_CODES[status]: cause for status, cause in _BY_LOSS.items()}


def cause_of_end(status: TaskStatus, exit_code: int | None) -> EndCause | None:
    """The cause where nobody gave one, by the end itself; None for an attempt that ended by itself or by its owner."""
    if status is TaskStatus.FAILED_PREEMPTED or exit_code == _PREEMPTED:
        return EndCause.NOT_KNOWN
    return _BY_LOSS.get(status) or (None if exit_code is None else _BY_LOST_CODE.get(exit_code))


_OF_RULE = {
    EvictionRule.PRIORITY: EndCause.PRIORITY,
    EvictionRule.RECLAIM: EndCause.RECLAIM,
    EvictionRule.FAIR_SHARE: EndCause.FAIR_SHARE,
    EvictionRule.RESERVATION: EndCause.RESERVATION,
}


def cause_of_step(step: Step) -> EndCause:
    """The cause of a step of a plan that ends attempts."""
    if step.action is StepAction.MOVE:
        return EndCause.CONSOLIDATION
    if step.action is StepAction.GIVE_UP:
        return EndCause.BELOW_MINIMUM
    assert step.eviction is not None, "an eviction has a rule"
    return _OF_RULE[step.eviction.rule]


def is_by_lowered_quota(used: int, quota: Amount, quota_at_start: Amount | None) -> bool:
    """Whether a queue that loses borrowed work was inside the quota that it had when this work started."""
    return quota_at_start is not None and quota < quota_at_start and used <= quota_at_start


_UUID = r"(?P<pod_group>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?"
_BY_CLUSTER = (
    (re.compile(rf"was preempted by higher priority workload \S*?/?{_UUID}(?:[\s.]|\Z)"), EndCause.PRIORITY),
    (re.compile(rf"was (?:preempted|reclaimed) by workload \S*?/?{_UUID}(?:[\s.]|\Z)"), EndCause.RECLAIM),
    (re.compile(r"minimum required number of pods"), EndCause.BELOW_MINIMUM),
    (re.compile(r"consolidat|bin.?pack", re.IGNORECASE), EndCause.CONSOLIDATION),
)


def cause_by_cluster(message: str) -> tuple[EndCause, UUID | None]:
    """The cause of a preemption in the words of KAI, and the id of the PodGroup that it served, which is that of our
    gang. `not_known` where KAI says nothing that we know. Whether a reclaim was by quota or by share, our own record
    says."""
    for words, cause in _BY_CLUSTER:
        if found := words.search(message):
            pod_group = found.groupdict().get("pod_group")
            return cause, None if pod_group is None else UUID(pod_group)
    return EndCause.NOT_KNOWN, None
