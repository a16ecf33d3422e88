"""Scenarios: YAML files that describe nodes, queues, cohorts and work, and the engine's answers to them
(docs/scenarios.md).

No server and no database: the same code answers `osmo simulate`, `/api/simulate`, tests and demos.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pools.domain.errors import Fault, Violation
from scheduling.scenario.answer import ScenarioAnswer, answer_scenario, render_answer
from scheduling.scenario.batch import Batch, add_lines, answer_sources
from scheduling.scenario.parse import Scenario, ScenarioError, parse_scenario
from scheduling.structured_yaml.value_reader import read_documents

SCENARIO_ERROR_CODE = "SCENARIO"


def parse_scenario_text(text: str) -> Scenario:
    """The one scenario of a text. Raises `ScenarioError` with all faults, each with its path and line."""
    (document, *more) = read_documents(text)
    faults = list(document.faults)
    if more and not faults:
        faults = [Violation("", Fault.BAD_VALUE, "The text has several documents; give them to `osmo simulate`.")]
    if faults:
        raise ScenarioError.of_faults(faults)
    try:
        return parse_scenario(document.value)
    except ScenarioError as error:
        raise ScenarioError.of_faults(add_lines(text, 0, error.details)) from None


def answer(text: str) -> ScenarioAnswer:
    """The answer to a scenario as text, YAML or JSON. Raises `ScenarioError`."""
    return answer_scenario(parse_scenario_text(text))


def answer_scenario_value(value: Any) -> ScenarioAnswer:
    """The answer to a scenario that is already a map, as an API receives it. Raises `ScenarioError`."""
    return answer_scenario(parse_scenario(value))


def simulate_sources(sources: Iterable[str], *, stdin: str | None = None) -> Batch:
    """Everything in these files, directories, or `-`: one answer or error object for each document."""
    return answer_sources(sources, answer_scenario_value, error_code=SCENARIO_ERROR_CODE, stdin=stdin)
