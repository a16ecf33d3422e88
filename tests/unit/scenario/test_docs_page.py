"""docs/scenarios.md is true: its scenarios have the documented answers, its tables are complete, its faults are
found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmo_admin.cli.local.offline_text import simulation_text
from pools.domain.errors import Fault
from scheduling.scenario import ScenarioError, answer
from scheduling.scenario.parse import COHORT_KEYS, NODE_KEYS, POLICY_KEYS, QUEUE_KEYS, ROOT_KEYS
from scheduling.scenario.workloads import GANG_KEYS, GROUP_KEYS, TASK_KEYS, WORKLOAD_KEYS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "scenarios.md").read_text()
SCENARIOS = dict(re.findall(r"<!-- scenario: ([\w-]+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL))
OUTPUTS = dict(re.findall(r"<!-- output: ([\w-]+) -->\n```text\n(.*?)```", PAGE, re.DOTALL))
REFUSED = re.findall(r"<!-- refused: ([\w, ]+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
TABLES = dict(re.findall(r"<!-- keys: (\w+) -->\n.*?\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE))
CODES = {Fault.UNKNOWN_KEY, Fault.UNKNOWN_NAME, Fault.DUPLICATE_NAME, Fault.CYCLE, Fault.BAD_VALUE}


def keys_of(table: str) -> set[str]:
    """The keys in the first column of a table."""
    return {key for row in TABLES[table].splitlines() for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_the_first_file_has_the_documented_answer() -> None:
    got = answer(SCENARIOS["first"])
    assert OUTPUTS["first"].strip() in simulation_text(got)
    assert [(step["action"], step["workload"]) for step in got["steps"]] == [("reclaim", "wf1"), ("start", "wf2")]
    assert got["workloads"]["wf3"]["reason"]["code"] == "never_fits"


def test_the_changes_have_the_documented_answers() -> None:
    got = answer(SCENARIOS["what-if"])
    states = {name: work["state"] for name, work in got["workloads"].items()}
    assert states == {"serve": "running", "old": "finished", "new": "running"}
    assert (got["queues"]["b"]["subtree_quota"], got["settled"]) == ({"default/gpu": 4}, True)


def test_the_reservation_has_the_documented_answer() -> None:
    got = answer(SCENARIOS["reservation"])
    text = simulation_text(got)
    assert OUTPUTS["reservation"].strip() in text
    assert OUTPUTS["reserved"].strip() in text
    large = got["workloads"]["large"]["reservation"]
    assert large == {"since": 7200, "latest_start": 10800, "is_certain": True, "nodes": {"n1": {"default/gpu": 8}}}
    assert all(f"`{key}`" in PAGE for key in large)
    assert got["workloads"]["short"]["reservation"] is None


def test_work_that_is_releasing_has_the_documented_answers() -> None:
    """What a later gang may take, until when the first waits, and that a policy keeps it."""
    text = SCENARIOS["releasing"]

    def states(more: str = "") -> dict[str, str]:
        return {name: work["state"] for name, work in answer(f"{text}{more}")["workloads"].items()}

    assert states() == {"wy": "releasing", "big": "pending", "later": "running"}
    ended = "changes:\n- finish: [{}]\n"
    running = text.replace("submitted: 20,", "submitted: 20, state: running,").replace(
        "tasks: [{gpus: 4}]", "tasks: [{gpus: 4, node: n}]"
    )
    for names, state in (("wy", "pending"), ("later", "pending"), ("wy, later", "running")):
        after = answer(f"{running}{ended.format(names)}")["workloads"]
        assert after["big"]["state"] == state, names
    assert "policy: {now: 100, reserve_after: 0}" in PAGE
    kept = states("policy: {now: 100, reserve_after: 0}\n")
    assert kept == {"wy": "releasing", "big": "pending", "later": "pending"}


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("nodes", set(NODE_KEYS)),
        ("queues", set(QUEUE_KEYS)),
        ("cohorts", set(COHORT_KEYS)),
        ("policy", set(POLICY_KEYS)),
        ("workloads", set(WORKLOAD_KEYS)),
        ("tasks", set(TASK_KEYS)),
        ("gang", set(GANG_KEYS)),
    ],
)
def test_every_key_is_in_its_table_and_no_other(table: str, keys: set[str]) -> None:
    assert keys_of(table) == keys


def test_the_keys_at_the_top_and_of_groups_are_named() -> None:
    top = re.search(r"At the top, all optional: (.*?)\. A key", PAGE, re.DOTALL)
    assert top is not None
    assert tuple(re.findall(r"`(\w+)`", top[1])) == ROOT_KEYS
    assert f"{{{', '.join(GROUP_KEYS)}}}" in TABLES["gang"]


def test_the_faulty_example_has_every_code() -> None:
    ((codes, text),) = REFUSED
    with pytest.raises(ScenarioError) as refused:
        answer(text)
    assert {fault.code for fault in refused.value.details} == set(codes.split(", ")) == CODES
    assert all(fault.line for fault in refused.value.details)
    assert all(f"| `{code}` |" in PAGE for code in CODES)


def test_the_answer_is_documented_completely() -> None:
    got = answer(SCENARIOS["what-if"])
    section = PAGE[PAGE.index("## The answer") : PAGE.index("## What cannot be read")]
    step, queue, work = got["steps"][0], got["queues"]["a"], got["workloads"]["serve"]
    for key in (*got, *step, *queue, *work):
        assert f"`{key}`" in section, key


def test_the_files_it_names_are_there() -> None:
    named = set(re.findall(r"\(scenarios/([\w-]+\.yaml)\)", PAGE))
    assert named == {path.name for path in (DOCS / "scenarios").iterdir()}
    assert len(named) >= 3
