"""What a reader of a history finds: jobs that have ended, faults with their lines, and rows that are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pools.domain.values.counting import counted

MAX_SHOWN_LINES: Final = 3
_ONE: Final = {"are": "is", "were": "was", "have": "has", "follow": "follows"}
_SEVERAL: Final = {word: word for word in _ONE}


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job that ended. Times are microseconds, moments those since 1970. `row`: the number of its first data row;
    `line`: that of its last record. `kind`: the QOS or the priority class. `duration`: of the run that counts; `limit`:
    the longest time of one run. `started`, `ended`: of its first and last run; `stops`: how often the cluster took its
    place away; `held`: the time of all runs together; `nodes`: the names of its last run; `gpu_kind`: the type or the
    flavor of its GPUs, empty where it is not known or there are several; `earlier`: the begin and the end of each run
    before the last."""

    row: int
    line: int
    submit: int
    duration: int
    gpus: int
    team: str
    started: int
    ended: int
    name: str = ""
    user: str = ""
    kind: str = ""
    limit: int | None = None
    stops: int = 0
    held: int = 0
    nodes: str = ""
    gpu_kind: str = ""
    earlier: tuple[tuple[int, int], ...] = ()


class LeftOut(StrEnum):
    """Why rows take no part in a replay: what follows "they", or "it"."""

    OPEN = "had not ended"
    NEVER_RAN = "ended before {they} ran"
    NO_GPUS = "had no GPUs"
    ZERO_TIME = "ran for 0 seconds"
    UNUSABLE = "{have} no run time, GPUs or team"


@dataclass(slots=True)
class FormNotes:
    """Jobs that were left out by the reason, with the first lines; and other remarks, each said once."""

    jobs: int = 0
    left_out: dict[LeftOut, int] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    """A sentence with `{jobs}`, `{lines}`, `{objects}` or `{pods}`, and `{are}`, `{were}`, `{have}` or `{follow}` → the
    number of these."""
    _lines: dict[LeftOut, list[int]] = field(default_factory=dict)

    def leave_out(self, why: LeftOut, line: int, count: int = 1) -> None:
        """Count jobs of a line that are left out."""
        self.left_out[why] = self.left_out.get(why, 0) + count
        lines = self._lines.setdefault(why, [])
        if len(lines) <= MAX_SHOWN_LINES:
            lines.append(line)

    def remark(self, sentence: str) -> None:
        """Count a job to which the sentence applies."""
        self.remarks[sentence] = self.remarks.get(sentence, 0) + 1

    def sentences(self) -> Iterator[str]:
        """What a reader of the answer has to know."""
        for why in LeftOut:
            if count := self.left_out.get(why):
                are, they = ("is", "it") if count == 1 else ("are", "they")
                said = why.format(they=they, have="has" if count == 1 else "have")
                yield f"{count:,} of {counted(self.jobs, 'job')} {are} left out: {they} {said} ({self._places(why)})."
        for sentence, count in self.remarks.items():
            words = {f"{word}s": counted(count, word) for word in ("job", "line", "object", "pod")}
            yield sentence.format(**words, **(_ONE if count == 1 else _SEVERAL))

    def _places(self, why: LeftOut) -> str:
        lines = self._lines[why]
        shown = ", ".join(str(line) for line in lines[:MAX_SHOWN_LINES])
        return (
            f"{'line' if len(lines) == 1 else 'lines'} {shown}{' and others' if len(lines) > MAX_SHOWN_LINES else ''}"
        )


Tell = Callable[[int, str, str], None]
"""Note a fault: the line, the column, and what is wrong with its value."""


@dataclass(frozen=True, slots=True)
class FormOptions:
    """How to read what a history leaves open. `team_from`: the column or the field that is the team; None: the first
    choice of the form. `skips_unusable`: rows with a fault of their own are left out and counted.
    `keeps_nodes`: the names of nodes are needed."""

    team_from: str | None = None
    skips_unusable: bool = False
    keeps_nodes: bool = False


def columns_of(names: Mapping[str, int], wanted: Mapping[str, str]) -> dict[str, int]:
    """The places of the wanted columns that a header has, whatever their letters' case."""
    return {key: names[name.lower()] for key, name in wanted.items() if name.lower() in names}
