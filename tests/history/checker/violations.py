"""What a rule of the checker reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

EventKind = Literal["call", "entry", "row", "sample", "reading"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing in the record: a call by its id, an audit entry by its id, a row of the final tables by
    `table/key`, a sample by its number, or a reading at rest by its name."""

    kind: EventKind
    key: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that the record shows to be broken.

    `rule` is the name of the promise (a key of `RULES`), `subject` the object that it is about, `sentence` one sentence
    with the numbers, `events` the evidence, in the order in which a reader needs it.
    """

    rule: str
    subject: str
    sentence: str
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.sentence}"


def calls(*ids: object) -> tuple[Event, ...]:
    """Calls as events."""
    return tuple(Event("call", str(each)) for each in ids)


def entries(ids: Iterable[object]) -> tuple[Event, ...]:
    """Audit entries as events."""
    return tuple(Event("entry", str(each)) for each in ids)


def row(table: str, key: object) -> tuple[Event, ...]:
    """One final row as an event."""
    return (Event("row", f"{table}/{key}"),)
