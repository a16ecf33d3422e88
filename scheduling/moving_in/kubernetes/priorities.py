"""Priorities of other software as a proposal: which of them is HIGH, NORMAL or LOW here."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.moving_in.kubernetes.objects import KubernetesObject
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority of the source; the higher value goes first."""

    name: str
    value: int
    is_default: bool
    place: SourcePlace


def report_priorities(classes: list[PriorityClass], result: ImportResult) -> None:
    """A line for each class: the default one (without one the value 0) is NORMAL, those above HIGH, those below LOW."""
    normal = next((each.value for each in classes if each.is_default), 0)
    for each in classes:
        word = "NORMAL" if each.value == normal else "HIGH" if each.value > normal else "LOW"
        result.decide(
            each.place,
            f"priority {each.name} ({each.value}): submit its work as {word}. Only LOW work borrows and is preempted; "
            "HIGH and NORMAL work stays within its quota. Confirm it.",
        )


def read_priority_classes(objects: list[KubernetesObject], result: ImportResult) -> None:
    """The priority classes of Kubernetes or Kueue, with their proposals in the report. Raises BadSource."""
    found = []
    for each in objects:
        value = each.take("value")
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadSource.at(each.place("value"), "a priority has a whole number as its value.")
        found.append(PriorityClass(each.name, value, each.take("globalDefault") is True, each.place()))
        each.used.update(("kind", "metadata.name", "description", "preemptionPolicy"))
        each.report_rest(result, lambda _path: None)
    report_priorities(found, result)
