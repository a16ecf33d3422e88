"""The file of all attempts: one line each, in the order of starts (docs/replay.md)."""

from __future__ import annotations

from collections import deque
from decimal import Decimal
from typing import TextIO

from pools.domain.values.spreadsheet_cells import plain_cell
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayObserver
from scheduling.history.replay.jobs import SECOND

HEADER = "job,attempt,team,priority,gpus,submit,start,end,nodes,end_reason"


class RunsWriter(ReplayObserver):
    """Writes each attempt once it and all attempts that started before it have ended."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lines: deque[list[str]] = deque()
        """Attempts in the order of starts; an empty list stands for one that still runs."""
        self._open: dict[int, list[str]] = {}
        file.write(HEADER + "\n")

    def started(self, live: LiveJob) -> None:
        entry: list[str] = []
        self._open[live.job.id] = entry
        self._lines.append(entry)

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        assert live.start is not None
        job = live.job
        nodes = ";".join(f"{node}:{gpus}" for node, gpus in live.nodes)
        fields = (
            str(job.id), str(live.attempt), _quoted(job.team), job.priority.value, str(job.gpus),
            seconds_text(job.submit), seconds_text(live.start), seconds_text(now), _quoted(nodes), reason.value,
        )  # fmt: skip
        self._open.pop(job.id).append(",".join(fields))
        while self._lines and self._lines[0]:
            self._file.write(self._lines.popleft()[0] + "\n")


def seconds_text(microseconds: int) -> str:
    """Seconds without needless digits: `12`, `0.5`."""
    whole, rest = divmod(microseconds, SECOND)
    return str(whole) if not rest else format(Decimal(microseconds).scaleb(-6).normalize(), "f")


def _quoted(text: str) -> str:
    text = plain_cell(text)
    if any(character in text for character in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
