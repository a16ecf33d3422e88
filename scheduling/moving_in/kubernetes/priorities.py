"""Priorities of other software as a proposal: which of them is HIGH, NORMAL or LOW here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scheduling.domain.priorities import priority_of_value
from scheduling.moving_in.kubernetes.objects import KubernetesObject, Reason
from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome, SourcePlace

OF_KUBERNETES: Final = ("system-cluster-critical", "system-node-critical")
_REASONS: Final[Mapping[str, Reason]] = {
    "description": (PartOutcome.STATE, "priorities have no descriptions here."),
    "globalDefault": (PartOutcome.NO_COUNTERPART, "work that names no priority is NORMAL."),
    "preemptionPolicy": (PartOutcome.NO_COUNTERPART, "here only HIGH and NORMAL work preempts, and only LOW work."),
}


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority of the source; the higher value goes first."""

    name: str
    value: int
    is_default: bool
    place: SourcePlace


def report_priorities(classes: list[PriorityClass], result: ImportResult, normal: int | None = None) -> None:
    """A line for each class. `normal` is the value of NORMAL; without it that of the default class."""
    if normal is None:
        normal = next((each.value for each in classes if each.is_default), 0)
    for each in classes:
        word = priority_of_value(each.value, normal)
        result.decide(
            each.place,
            f"priority {each.name} ({each.value}): submit its work as {word}. Only LOW work borrows and is preempted; "
            f"HIGH and NORMAL work stays within its quota. In the proof: --priority-of {each.name}={word}. Confirm it.",
        )


def read_priority_classes(objects: list[KubernetesObject], result: ImportResult, *, normal: int | None = None) -> None:
    """The priority classes of Kubernetes or Kueue, with their proposals in the report. Raises BadSource."""
    found = []
    for each in objects:
        value = each.take("value")
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadSource.at(each.place("value"), "a priority has a whole number as its value.")
        is_default = normal is None and each.take("globalDefault") is True
        if each.name.startswith(OF_KUBERNETES):
            result.state(each.place(), "a class for the parts of Kubernetes itself.")
        else:
            found.append(PriorityClass(each.name, value, is_default, each.place()))
        each.used.update(("kind", "metadata.name"))
        each.report_rest(result, _REASONS.get)
    report_priorities(found, result, normal)
