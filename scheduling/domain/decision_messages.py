"""A deed of settling in one sentence, for those who may know for whom it was done and for those who may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.domain.engine.steps import StepAction

MAX_NAMED_NODES = 3


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """`gang` and `beneficiary` as people know them (`hello-1`, `hello-1/train`); `leaf` and `beneficiary_leaf` are the names
    of their pools. `nodes`: where the tasks stand now, of a move; `more`: the gang runs already and takes more. A
    preemption for nobody is one that the scheduler of a cluster decided, which does not say for whom."""

    action: StepAction
    gang: str
    leaf: str
    gpus: int
    nodes: Sequence[str] = ()
    is_growth: bool = False
    beneficiary: str = ""
    beneficiary_leaf: str = ""


def decision_message(decided: DecisionFacts) -> str:
    """What was done, and for whom."""
    return _message(decided, decided.beneficiary or "other work", decided.beneficiary_leaf or "Another pool")


def anonymous_decision_message(decided: DecisionFacts) -> str:
    """The same without a word about other people's pools and work."""
    beneficiary = "work of a higher priority" if decided.action is StepAction.PREEMPT else "other work"
    return _message(decided, beneficiary, "Another pool")


def _message(decided: DecisionFacts, beneficiary: str, their_leaf: str) -> str:
    held = "its place" if decided.gpus == 0 else "1 GPU" if decided.gpus == 1 else f"{decided.gpus} GPUs"
    gained = "" if decided.gpus == 0 else f" with {held}"
    if decided.action is StepAction.START:
        return f"{decided.gang} {'grows' if decided.is_growth else 'starts'} in {decided.leaf}{gained}."
    if decided.action is StepAction.MOVE:
        return f"{decided.gang} moves{gained} to {_list_text(decided.nodes)}, so that {beneficiary} can start."
    if decided.action is StepAction.RECLAIM:
        whom = f", for {beneficiary}" if beneficiary != "other work" else ""
        return f"{their_leaf} takes back {held} that {decided.gang} had borrowed in {decided.leaf}{whom}."
    if decided.action is StepAction.PREEMPT and not decided.beneficiary:
        return f"The scheduler of the cluster took {held} in {decided.leaf} from {decided.gang}."
    if decided.action is StepAction.PREEMPT:
        return f"{decided.gang} gives up {held} in {decided.leaf} to {beneficiary}."
    return f"{decided.gang} is below its minimum and gives up {held} in {decided.leaf}."


def _list_text(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    return ", ".join(names[:MAX_NAMED_NODES]) + (", …" if len(names) > MAX_NAMED_NODES else "")
