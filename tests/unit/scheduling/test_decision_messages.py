"""The messages of decisions, for readers who may know the names of others and for readers who may not."""

from __future__ import annotations

import pytest

from scheduling.domain.decision_messages import (
    DecisionFacts,
    after_its_name,
    anonymous_decision_message,
    decision_message,
)
from scheduling.domain.engine.steps import StepAction

START, MOVE, RECLAIM, PREEMPT, GIVE_UP = (
    StepAction.START, StepAction.MOVE, StepAction.RECLAIM, StepAction.PREEMPT, StepAction.GIVE_UP
)  # fmt: skip
BIG, WF5 = {"beneficiary": "big-1", "beneficiary_leaf": "other"}, {"beneficiary": "wf5-1", "beneficiary_leaf": "pool"}
PREFERRED = [("h100", "the quota leaves 2"), ("l40s", "the limit leaves 0")]
FOR_ALL = [
    (DecisionFacts(START, "hello-1", "team--a", 4, ["n1"]), "hello-1 starts in team--a with 4 GPUs."),
    (DecisionFacts(START, "hello-1", "team", 0), "hello-1 starts in team."),
    (DecisionFacts(START, "hello-1", "team", 1, is_growth=True), "hello-1 grows in team with 1 GPU."),
    (
        DecisionFacts(START, "hello-1", "team", 8, by_flavor={"a100": 8}, preferred=PREFERRED),
        (
            "hello-1 starts in team with 8 a100 GPUs; h100 comes before, but the quota leaves 2; l40s comes before, "
            "but the limit leaves 0."
        ),
    ),
    (
        DecisionFacts(GIVE_UP, "hello-1", "team", 3, by_flavor={"h100": 2, "t4": 1}, parts={"t4"}),
        "hello-1 is below its minimum and gives up 2 h100 GPUs and 1 t4 part of GPUs in team.",
    ),
    (DecisionFacts(GIVE_UP, "wf1-1", "pool", 2), "wf1-1 is below its minimum and gives up 2 GPUs in pool."),
    (DecisionFacts(PREEMPT, "wf1-1", "pool", 2), "The scheduler of the cluster took 2 GPUs in pool from wf1-1."),
]
WITH_NAMES = [
    (
        DecisionFacts(MOVE, "hello-1", "team", 2, ["n2", "n2"], **BIG),
        "hello-1 moves with 2 GPUs to n2, so that big-1 can start.",
        "hello-1 moves with 2 GPUs to n2, so that other work can start.",
    ),
    (
        DecisionFacts(MOVE, "hello-1", "team", 4, ["n1", "n2", "n3", "n4"], **BIG),
        "hello-1 moves with 4 GPUs to n1, n2, n3, …, so that big-1 can start.",
        "hello-1 moves with 4 GPUs to n1, n2, n3, …, so that other work can start.",
    ),
    (
        DecisionFacts(RECLAIM, "wf3-1", "pool1", 1, beneficiary="wf5-1", beneficiary_leaf="pool2"),
        "pool2 reclaims 1 GPU that wf3-1 had borrowed in pool1, for wf5-1.",
        "Another pool reclaims 1 GPU that wf3-1 had borrowed in pool1.",
    ),
    (
        DecisionFacts(PREEMPT, "wf1-1", "pool", 1, **WF5),
        "wf1-1 gives up 1 GPU in pool to wf5-1.",
        "wf1-1 gives up 1 GPU in pool to work of a higher priority.",
    ),
    (
        DecisionFacts(PREEMPT, "wf1-1", "pool", 0, **WF5),
        "wf1-1 gives up its place in pool to wf5-1.",
        "wf1-1 gives up its place in pool to work of a higher priority.",
    ),
]


@pytest.mark.parametrize(
    ("decision", "message", "anonymous"), [*((decision, said, said) for decision, said in FOR_ALL), *WITH_NAMES]
)
def test_messages(decision: DecisionFacts, message: str, anonymous: str) -> None:
    assert decision_message(decision) == message
    assert anonymous_decision_message(decision) == anonymous


@pytest.mark.parametrize("action", StepAction)
def test_others_never_read_the_name_of_the_beneficiary_or_its_pool(action: StepAction) -> None:
    decision = DecisionFacts(action, "mine", "here", 1, ["n1"], beneficiary="secret-1", beneficiary_leaf="hidden")
    assert "secret" not in anonymous_decision_message(decision)
    assert "hidden" not in anonymous_decision_message(decision)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (DecisionFacts(RECLAIM, "hello-1", "hello-1--a", 8, beneficiary="big-1"),
         "another pool reclaims 8 GPUs that it had borrowed in hello-1--a."),
        (DecisionFacts(PREEMPT, "hello-1", "team", 8, beneficiary="big-1"),
         "it gives up 8 GPUs in team to work of a higher priority."),
        (DecisionFacts(PREEMPT, "hello-1", "team", 8), "the scheduler of the cluster took 8 GPUs in team from it."),
        (DecisionFacts(GIVE_UP, "hello-1", "team", 2), "it is below its minimum and gives up 2 GPUs in team."),
    ],
)  # fmt: skip
def test_a_message_after_the_name_of_its_work(facts: DecisionFacts, message: str) -> None:
    assert after_its_name(anonymous_decision_message(facts), "hello-1") == message
