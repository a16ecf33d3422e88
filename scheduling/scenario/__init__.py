"""Scenarios: a YAML file that describes nodes, queues, cohorts and work, and the answer of the engine to it (design 6).

No server and no database: the same code answers `osmo simulate`, `/api/simulate`, tests and demos.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pools.domain.errors import Violation
from scheduling.scenario.answer import answer_to, render
from scheduling.scenario.batch import Batch, run, with_lines
from scheduling.scenario.parse import Scenario, ScenarioError, parse
from scheduling.scenario.reader import documents

__all__ = ["Scenario", "ScenarioError", "answer", "answer_document", "parse", "render", "simulate", "to_scenario"]

ERROR_CODE = "SCENARIO"


def to_scenario(text: str) -> Scenario:
    """The one scenario of a text. Raises `ScenarioError` with all faults, each with its path and line."""
    (document, *more) = documents(text)
    faults = list(document.faults)
    if more and not faults:
        faults = [Violation("", "bad_value", "Here is room for one document only; give several to `osmo simulate`.")]
    if faults:
        raise ScenarioError.of_faults(faults)
    try:
        return parse(document.value)
    except ScenarioError as error:
        raise ScenarioError.of_faults(with_lines(text, 0, error.details)) from None


def answer(text: str) -> dict[str, Any]:
    """The answer to a scenario as text, YAML or JSON. Raises `ScenarioError`."""
    return answer_to(to_scenario(text))


def answer_document(value: Any) -> dict[str, Any]:
    """The answer to a scenario that is already a map, as an API receives it. Raises `ScenarioError`."""
    return answer_to(parse(value))


def simulate(sources: Iterable[str], *, stdin: str | None = None) -> Batch:
    """Everything in these files, directories, or `-`: one answer or error object for each document."""
    return run(sources, answer_document, error_code=ERROR_CODE, stdin=stdin)
