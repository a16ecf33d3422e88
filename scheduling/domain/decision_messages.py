"""The message of a scheduling decision, for readers who may know the beneficiary and for readers who may not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pools.domain.values.amounts import gpus_text
from scheduling.domain.engine.steps import LEAST_LOST_TEXT, StepAction

MAX_NAMED_NODES = 3


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """The facts of one decision.

    `gang` and `beneficiary` are the names that users know (`hello-1`, `hello-1/train`), `leaf` and `beneficiary_leaf`
    the names of their pools. `nodes`: the new nodes of the tasks of a move. `is_growth`: the gang already runs and
    starts more tasks. `is_least_lost`: it loses work as a part of the set that loses least. A preemption without a
    beneficiary was decided by the scheduler of a cluster, which names none.

    In a pool with GPU flavors, `by_flavor` has the `gpus` of each, and `preferred` the flavors that come before that of
    a start, each with why it is not that one; `parts` are those that count parts of shared GPUs.
    """

    action: StepAction
    gang: str
    leaf: str
    gpus: int
    nodes: Sequence[str] = ()
    is_growth: bool = False
    beneficiary: str = ""
    beneficiary_leaf: str = ""
    is_least_lost: bool = False
    by_flavor: Mapping[str, int] = field(default_factory=dict)
    preferred: Sequence[tuple[str, str]] = ()
    parts: Collection[str] = ()

    @property
    def gpus_text(self) -> str:
        """`8 GPUs`, and with flavors `8 h100 GPUs`."""
        return gpus_text(self.gpus, self.by_flavor, self.parts)


def decision_message(decision: DecisionFacts) -> str:
    """The message with the beneficiary."""
    return _message(decision, decision.beneficiary or "other work", decision.beneficiary_leaf or "Another pool")


def anonymous_decision_message(decision: DecisionFacts) -> str:
    """The message without the pools and work of other users."""
    beneficiary = "work of a higher priority" if decision.action is StepAction.PREEMPT else "other work"
    return _message(decision, beneficiary, "Another pool")


def after_its_name(message: str, gang: str) -> str:
    """The message after the name of its work and a colon: `another pool reclaims 8 GPUs that it had borrowed`."""
    for own, short in (
        (f" that {gang} had ", " that it had "), (f" from {gang}.", " from it."), (f"{gang} gives up ", "it gives up "),
        (f"{gang} is below its", "it is below its"), ("Another pool ", "another pool "),
        ("The scheduler ", "the scheduler "),
    ):  # fmt: skip
        message = message.replace(own, short, 1)
    return message


def _message(decision: DecisionFacts, beneficiary: str, beneficiary_leaf: str) -> str:
    message = _fact_message(decision, beneficiary, beneficiary_leaf)
    return f"{message} {LEAST_LOST_TEXT}" if decision.is_least_lost else message


def _fact_message(decision: DecisionFacts, beneficiary: str, beneficiary_leaf: str) -> str:
    held = "its place" if decision.gpus == 0 else decision.gpus_text
    gained = "" if decision.gpus == 0 else f" with {held}"
    if decision.action is StepAction.START:
        before = "".join(f"; {flavor} comes before, but {why}" for flavor, why in decision.preferred)
        return f"{decision.gang} {'grows' if decision.is_growth else 'starts'} in {decision.leaf}{gained}{before}."
    if decision.action is StepAction.MOVE:
        return f"{decision.gang} moves{gained} to {_list_text(decision.nodes)}, so that {beneficiary} can start."
    if decision.action is StepAction.RECLAIM:
        purpose = f", for {beneficiary}" if beneficiary != "other work" else ""
        return f"{beneficiary_leaf} reclaims {held} that {decision.gang} had borrowed in {decision.leaf}{purpose}."
    if decision.action is StepAction.PREEMPT and not decision.beneficiary:
        return f"The scheduler of the cluster took {held} in {decision.leaf} from {decision.gang}."
    if decision.action is StepAction.PREEMPT:
        return f"{decision.gang} gives up {held} in {decision.leaf} to {beneficiary}."
    return f"{decision.gang} is below its minimum and gives up {held} in {decision.leaf}."


def _list_text(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    return ", ".join(names[:MAX_NAMED_NODES]) + (", …" if len(names) > MAX_NAMED_NODES else "")
