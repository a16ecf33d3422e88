"""The life of a subpool: one table of transitions. Code, database trigger and documentation are made from it.

Source: design, D3, D8.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SubpoolState(StrEnum):
    """The states of a subpool."""

    ACTIVE = "ACTIVE"
    DELETING = "DELETING"
    ARCHIVED = "ARCHIVED"


@dataclass(frozen=True, slots=True)
class SubpoolTransition:
    """One allowed transition and its operation."""

    source: SubpoolState
    target: SubpoolState
    cause: str


TRANSITIONS = (
    SubpoolTransition(SubpoolState.ACTIVE, SubpoolState.DELETING, "delete, live workflows remain"),
    SubpoolTransition(SubpoolState.ACTIVE, SubpoolState.ARCHIVED, "delete, nothing live"),
    SubpoolTransition(SubpoolState.DELETING, SubpoolState.ARCHIVED, "drained"),
    SubpoolTransition(SubpoolState.ARCHIVED, SubpoolState.ACTIVE, "recreate"),
)


def state_after_delete(*, live_workflows: int) -> SubpoolState:
    """The state of an ACTIVE subpool after a delete: it drains while active workflows belong to it (design, D3)."""
    return SubpoolState.DELETING if live_workflows else SubpoolState.ARCHIVED
