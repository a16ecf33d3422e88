"""A deed of settling in one sentence, for those who may know for whom it was done and for those who may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.domain.engine.steps import Action

MOST_NODES = 3


@dataclass(frozen=True, slots=True)
class Decided:
    """`gang` and `beneficiary` as people know them (`hello-1`, `hello-1/train`); `leaf` and `their_leaf` are the names
    of their pools. `nodes`: where the tasks stand now, of a move; `more`: the gang runs already and takes more. A
    preemption for nobody is one that the scheduler of a cluster decided, which does not say for whom."""

    action: Action
    gang: str
    leaf: str
    gpus: int
    nodes: Sequence[str] = ()
    more: bool = False
    beneficiary: str = ""
    their_leaf: str = ""


def sentence(decided: Decided) -> str:
    """What was done, and for whom."""
    return _sentence(decided, decided.beneficiary or "other work", decided.their_leaf or "Another pool")


def sentence_without_name(decided: Decided) -> str:
    """The same without a word about other people's pools and work."""
    beneficiary = "work of a higher priority" if decided.action is Action.PREEMPT else "other work"
    return _sentence(decided, beneficiary, "Another pool")


def _sentence(decided: Decided, beneficiary: str, their_leaf: str) -> str:
    held = "its place" if decided.gpus == 0 else "1 GPU" if decided.gpus == 1 else f"{decided.gpus} GPUs"
    gained = "" if decided.gpus == 0 else f" with {held}"
    if decided.action is Action.START:
        return f"{decided.gang} {'grows' if decided.more else 'starts'} in {decided.leaf}{gained}."
    if decided.action is Action.MOVE:
        return f"{decided.gang} moves{gained} to {_listed(decided.nodes)}, so that {beneficiary} can start."
    if decided.action is Action.RECLAIM:
        whom = f", for {beneficiary}" if beneficiary != "other work" else ""
        return f"{their_leaf} takes back {held} that {decided.gang} had borrowed in {decided.leaf}{whom}."
    if decided.action is Action.PREEMPT and not decided.beneficiary:
        return f"The scheduler of the cluster took {held} in {decided.leaf} from {decided.gang}."
    if decided.action is Action.PREEMPT:
        return f"{decided.gang} gives up {held} in {decided.leaf} to {beneficiary}."
    return f"{decided.gang} is below its minimum and gives up {held} in {decided.leaf}."


def _listed(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    return ", ".join(names[:MOST_NODES]) + (", …" if len(names) > MOST_NODES else "")
