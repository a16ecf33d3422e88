"""The decisions of another scheduler that our engine would not have made from the same facts.

The facts are those just before the decisions of one look: what ran, what waited, the quotas and the nodes. Our engine
plans from them. A start that is not in the plan, a preemption that is not in it, and work that the plan starts and the
other scheduler keeps waiting are differences. The order among equals is no difference: a start counts as ours, too, if
the plan starts it anywhere, on whatever nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

MAX_NAMED = 5
MAX_KEPT = 10_000
"""The differences of a cluster that are kept; older ones go."""


class DifferenceKind(StrEnum):
    """`started`: ours would have kept it waiting. `preempted`: ours would not have taken its GPUs. `left_waiting`: ours
    would have started it."""

    STARTED = "started"
    PREEMPTED = "preempted"
    LEFT_WAITING = "left_waiting"


DIFFERENCE_LABELS = [
    (DifferenceKind.STARTED.value, "started"),
    (DifferenceKind.PREEMPTED.value, "preempted"),
    (DifferenceKind.LEFT_WAITING.value, "left waiting"),
]


@dataclass(frozen=True, slots=True)
class SeenDecision:
    """A start or a preemption by the other scheduler: the gang with its name in the facts, and the GPUs."""

    gang: str
    is_start: bool
    gpus: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Why our engine lets a gang wait: the code of the reason, and its sentence with the numbers."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class OurPlan:
    """What our engine does with the facts: the gangs that it starts and those from which it takes GPUs, each with the
    sentence of the step, and why the others wait."""

    starts: Mapping[str, str] = field(default_factory=dict)
    evictions: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundDifference:
    """One difference. `rule` is the code of the reason for which ours lets the gang wait, or empty; `message` says what
    ours would have done, with the numbers; `instead` names the gangs that ours would have started, or from which it
    would have taken GPUs: the first few."""

    kind: DifferenceKind
    gang: str
    gpus: int
    rule: str
    message: str
    instead: tuple[str, ...] = ()


def find_differences(seen: Sequence[SeenDecision], ours: OurPlan) -> list[FoundDifference]:
    """The decisions of one look that ours would not have made, in their order."""
    started = {each.gang for each in seen if each.is_start}
    found = []
    for each in seen:
        if each.is_start and each.gang not in ours.starts:
            found.append(_started(each, ours, [gang for gang in ours.starts if gang not in started]))
        elif not each.is_start and each.gang not in ours.evictions:
            found.append(_preempted(each, list(ours.evictions)))
    return found


def find_left_waiting(
    waiting: Mapping[str, int], ours: OurPlan, since: Mapping[str, float], now: float, *, patience: float
) -> list[FoundDifference]:
    """The gangs (with their GPUs) that still wait, and that ours would have started in each plan for `patience`
    seconds: a scheduler needs some time for its own decision. `since` says when a plan of ours started each first."""
    return [
        FoundDifference(
            DifferenceKind.LEFT_WAITING,
            gang,
            gpus,
            "",
            f"It waits. Ours would have started it {now - since[gang]:.0f} seconds ago: {ours.starts[gang]}",
        )
        for gang, gpus in waiting.items()
        if gang in ours.starts and gang in since and now - since[gang] >= patience
    ]


def planned_since(before: Mapping[str, float], starts: Collection[str], now: float) -> dict[str, float]:
    """Since when each gang is in the plan without a break."""
    return {gang: before.get(gang, now) for gang in starts}


def _started(seen: SeenDecision, ours: OurPlan, instead: Sequence[str]) -> FoundDifference:
    wait = ours.waits.get(seen.gang, Wait("", "it has no place in the plan."))
    more = f" Ours would have started {_names(instead)} instead." if instead else ""
    message = f"It started with {_gpus(seen.gpus)}. Ours would have kept it waiting: {wait.message}{more}"
    return FoundDifference(DifferenceKind.STARTED, seen.gang, seen.gpus, wait.code, message, tuple(instead[:MAX_NAMED]))


def _preempted(seen: SeenDecision, victims: Sequence[str]) -> FoundDifference:
    who = f"taken the GPUs of {_names(victims)} instead" if victims else "preempted nobody"
    message = f"It lost {_gpus(seen.gpus)}. Ours would have {who}."
    return FoundDifference(DifferenceKind.PREEMPTED, seen.gang, seen.gpus, "", message, tuple(victims[:MAX_NAMED]))


def _names(gangs: Sequence[str]) -> str:
    more = len(gangs) - MAX_NAMED
    return ", ".join(gangs[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"
