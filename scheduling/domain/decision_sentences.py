"""A deed of settling in one sentence, for those who may know for whom it was done and for those who may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.domain.engine.steps import Action

MOST_NODES = 3


@dataclass(frozen=True, slots=True)
class Deed:
    """`gang` and `beneficiary` as people know them (`hello-1`, `hello-1/train`); `leaf` and `their_leaf` are the names
    of their pools. `nodes`: where the tasks stand now, of a move; `more`: the gang runs already and takes more."""

    action: Action
    gang: str
    leaf: str
    gpus: int
    nodes: Sequence[str] = ()
    more: bool = False
    beneficiary: str = ""
    their_leaf: str = ""


def sentence(deed: Deed) -> str:
    """What was done, and for whom."""
    return _sentence(deed, deed.beneficiary or "other work", deed.their_leaf or "Another pool")


def sentence_without_name(deed: Deed) -> str:
    """The same without a word about other people's pools and work."""
    beneficiary = "work of a higher priority" if deed.action is Action.PREEMPT else "other work"
    return _sentence(deed, beneficiary, "Another pool")


def _sentence(deed: Deed, beneficiary: str, their_leaf: str) -> str:
    held = "its place" if deed.gpus == 0 else "1 GPU" if deed.gpus == 1 else f"{deed.gpus} GPUs"
    gained = "" if deed.gpus == 0 else f" with {held}"
    if deed.action is Action.START:
        return f"{deed.gang} {'grows' if deed.more else 'starts'} in {deed.leaf}{gained}."
    if deed.action is Action.MOVE:
        return f"{deed.gang} moves{gained} to {_listed(deed.nodes)}, so that {beneficiary} can start."
    if deed.action is Action.RECLAIM:
        whom = f", for {beneficiary}" if beneficiary != "other work" else ""
        return f"{their_leaf} takes back {held} that {deed.gang} had borrowed in {deed.leaf}{whom}."
    if deed.action is Action.PREEMPT:
        return f"{deed.gang} gives up {held} in {deed.leaf} to {beneficiary}."
    return f"{deed.gang} is below its minimum and gives up {held} in {deed.leaf}."


def _listed(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    return ", ".join(names[:MOST_NODES]) + (", …" if len(names) > MOST_NODES else "")
