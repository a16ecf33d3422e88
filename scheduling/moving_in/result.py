"""The answer of every reader: objects of the configuration, and a report line for each part of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.values.counting import counted
from scheduling.configuration.bodies import SECTION_BY_KIND
from scheduling.domain.observed.leaf_names import leaf_names, plain_name

MAX_SHOWN_FAULTS = 50


class PartOutcome(StrEnum):
    """What has become of a part of the source. STATE: it says nothing about quotas, so nothing is lost."""

    TO_DECIDE = "to_decide"
    NO_COUNTERPART = "no_counterpart"
    BECAME = "became"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A part of the source: the file, the line from 1, and the key or the words there."""

    file: str
    line: int
    key: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class ReportLine:
    """What has become of one part of the source, in a sentence."""

    outcome: PartOutcome
    place: SourcePlace
    text: str


class BadSource(BadInput):
    """The source cannot be read; nothing was written. `details` has the first faults, each with its place."""

    @classmethod
    def of_faults(cls, faults: list[Violation]) -> BadSource:
        """All of them at once."""
        return cls(f"The source has {counted(len(faults), 'fault')}; nothing was written.", faults[:MAX_SHOWN_FAULTS])

    @classmethod
    def at(cls, place: SourcePlace, message: str) -> BadSource:
        """One fault."""
        return cls.of_faults([fault_at(place, message)])


def fault_at(place: SourcePlace, message: str) -> Violation:
    """A fault at a place of the source."""
    return Violation(str(place), Fault.BAD_VALUE, f"{place.key}: {message}" if place.key else message)


@dataclass(slots=True)
class ImportResult:
    """What a reader has made so far. `finish` checks the objects by the rules of our files."""

    objects: dict[tuple[OwnedKind, str], Mapping[str, Any]] = field(default_factory=dict)
    origins: dict[tuple[OwnedKind, str], SourcePlace] = field(default_factory=dict)
    lines: list[ReportLine] = field(default_factory=list)
    faults: list[Violation] = field(default_factory=list)
    queue_pools: dict[str, str] = field(default_factory=dict)
    """The leaf of each queue or namespace of the source whose work counts in one."""

    def add(self, kind: OwnedKind, name: str, body: Mapping[str, Any], place: SourcePlace) -> None:
        """Add an object that comes from this place."""
        self.objects[kind, name] = body
        self.origins[kind, name] = place

    def add_to_pools(self, more: Mapping[str, Any]) -> None:
        """Give all pools these keys as well."""
        for key, body in self.objects.items():
            if key[0] is OwnedKind.POOL:
                self.objects[key] = {**body, **more}

    def became(self, place: SourcePlace, text: str) -> None:
        """The part is an object or a value here."""
        self.lines.append(ReportLine(PartOutcome.BECAME, place, text))

    def lost(self, place: SourcePlace, why: str) -> None:
        """The part has no counterpart here."""
        self.lines.append(ReportLine(PartOutcome.NO_COUNTERPART, place, why))

    def decide(self, place: SourcePlace, question: str) -> None:
        """A person has to decide about the part."""
        self.lines.append(ReportLine(PartOutcome.TO_DECIDE, place, question))

    def state(self, place: SourcePlace, why: str) -> None:
        """The part says nothing about quotas."""
        self.lines.append(ReportLine(PartOutcome.STATE, place, why))

    def fault(self, place: SourcePlace, message: str) -> None:
        """The part cannot be read."""
        self.faults.append(fault_at(place, message))

    def count(self, outcome: PartOutcome) -> int:
        """The number of report lines of this kind."""
        return sum(line.outcome is outcome for line in self.lines)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is lost and nothing is left to decide."""
        return not self.count(PartOutcome.TO_DECIDE) and not self.count(PartOutcome.NO_COUNTERPART)

    def renamed_queues(self) -> dict[str, str]:
        """The queues whose leaf an observed cluster does not find by the name of the queue."""
        by_name = leaf_names(set(self.queue_pools.values()))
        found = {queue: leaf for queue, leaf in self.queue_pools.items() if by_name.get(plain_name(queue)) != leaf}
        return dict(sorted(found.items()))

    def finish(self) -> None:
        """Bring each object to the one form of our files. Raises BadSource with every fault."""
        for (kind, name), body in self.objects.items():
            form, faults = SECTION_BY_KIND[kind].read(name, body)
            place = self.origins[kind, name]
            self.faults += [fault_at(place, f"{SECTION_BY_KIND[kind].key}.{name}: {each.message}") for each in faults]
            self.objects[kind, name] = form
        if self.faults:
            raise BadSource.of_faults(self.faults)
        rank = list(PartOutcome)
        self.lines.sort(key=lambda line: (rank.index(line.outcome), line.place.file, line.place.line))
