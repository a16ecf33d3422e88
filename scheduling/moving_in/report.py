"""The report of an import as text: what a person has to decide first, what became what last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from pools.domain.configuration.cluster_config import queue_pools_text
from pools.domain.structured_input.faults import shorten
from pools.domain.values.counting import counted
from scheduling.moving_in.result import ImportResult, PartOutcome, ReportLine

LONGEST_KEY: Final = 160
LONGEST_TEXT: Final = 400
TITLES: Final = {
    PartOutcome.TO_DECIDE: "To decide",
    PartOutcome.NO_COUNTERPART: "Without a counterpart",
    PartOutcome.BECAME: "What became what",
    PartOutcome.STATE: "Not configuration",
}


def summary_text(result: ImportResult) -> str:
    """One line with the numbers of all kinds of report lines."""
    counts = [f"{TITLES[outcome].lower()}: {result.count(outcome)}" for outcome in PartOutcome]
    return f"{counted(len(result.objects), 'object')}. {'; '.join(counts)}.".capitalize()


def line_text(line: ReportLine) -> str:
    """A report line on one line, with its place."""
    key = f" {shorten(line.place.key, LONGEST_KEY)}:" if line.place.key else ""
    return f"{shorten(line.place.file)}:{line.place.line}:{key} {shorten(line.text, LONGEST_TEXT)}"


def report_text(kind: str, result: ImportResult) -> str:
    """The whole report, always the same for the same source."""
    return "\n".join(_parts(kind, result)) + "\n"


def _parts(kind: str, result: ImportResult) -> Iterator[str]:
    yield f"# Import from {kind}"
    yield ""
    yield summary_text(result)
    for outcome, title in TITLES.items():
        lines = [line for line in result.lines if line.outcome is outcome]
        yield ""
        yield f"## {title}"
        yield ""
        yield from [f"    {line_text(line)}" for line in lines] or ["Nothing."]
    if result.queue_pools:
        yield from ("", "## Pools of queues", "")
        if renamed := result.renamed_queues():
            yield "To observe the cluster, give it these lines (its field “Pools of queues”, or this key of its API):"
            yield from ("", *(f"    {line}" for line in queue_pools_text(renamed).splitlines()), "")
            yield f"    {json.dumps({'queue_pools': renamed})}"
        else:
            yield "Nothing: an observed cluster finds the pool of each queue by its name."
