"""The faults of the files of a replay: all are counted, the first ones are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pools.domain.errors import Fault, RuleName, Violation

MAX_LISTED = 100
"""The number of faults that are listed; a file may have millions."""

ERROR_CODE = "TRACE"


@dataclass(slots=True)
class FileFaults:
    """The faults of one file, in the order of its lines."""

    source: str
    count: int = 0
    listed: list[Violation] = field(default_factory=list)

    def add(self, line: int | None, path: str, code: Fault | RuleName, message: str) -> None:
        """Note one fault; `path` names the column or the key."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(Violation(path, code, message, line, numbers=(("source", self.source),)))


class ReplayFault(Exception):
    """A replay that cannot begin. `files` have the faults."""

    def __init__(self, files: Sequence[FileFaults]) -> None:
        self.files = [file for file in files if file.count]
        super().__init__(self.message)

    @property
    def count(self) -> int:
        """The number of faults in all files."""
        return sum(file.count for file in self.files)

    @property
    def details(self) -> list[Violation]:
        """The listed faults, file by file."""
        return [fault for file in self.files for fault in file.listed]

    @property
    def message(self) -> str:
        """One sentence."""
        names = " and ".join(f"'{file.source}'" for file in self.files)
        if self.count == 1:
            return f"{names} cannot be read: {self.details[0].message}"
        listed = len(self.details)
        more = f"; the first {listed} are listed" if listed < self.count else ""
        return f"{names} cannot be read: {self.count} faults{more}."

    def as_dict(self) -> Mapping[str, Any]:
        """The error object of the API."""
        return {
            "message": self.message,
            "error_code": ERROR_CODE,
            "workflow_id": None,
            "details": [fault.as_dict() for fault in self.details],
            "faults": self.count,
        }
