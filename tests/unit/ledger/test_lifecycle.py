"""One table is the source of the rule, the trigger and the diagram in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from pools.domain.subpool_lifecycle import (
    TRANSITIONS,
    SubpoolState,
    state_after_delete,
)
from pools.models.pool import STATE_MACHINE

ROOT = Path(__file__).resolve().parents[3]
LEGAL = {("ACTIVE", "DELETING"), ("ACTIVE", "ARCHIVED"), ("DELETING", "ARCHIVED"), ("ARCHIVED", "ACTIVE")}


def test_exactly_the_designed_steps_are_allowed() -> None:
    assert {(str(step.source), str(step.target)) for step in TRANSITIONS} == LEGAL


def test_the_trigger_is_made_from_the_table() -> None:
    assert STATE_MACHINE.func is not None
    for step in TRANSITIONS:
        assert f"'{step.source}>{step.target}'" in str(STATE_MACHINE.func)


def test_the_documentation_shows_the_table() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    diagram = text.split("<!-- lifecycle -->")[1].split("<!-- /lifecycle -->")[0]
    lines = ["stateDiagram-v2", "    [*] --> ACTIVE: create"]
    lines += [f"    {step.source} --> {step.target}: {step.cause}" for step in TRANSITIONS]
    assert diagram.strip() == "```mermaid\n" + "\n".join(lines) + "\n```"


@pytest.mark.parametrize(("live", "state"), [(0, SubpoolState.ARCHIVED), (1, SubpoolState.DELETING)])
def test_a_delete_drains_active_work(live: int, state: SubpoolState) -> None:
    assert state_after_delete(live_workflows=live) is state
