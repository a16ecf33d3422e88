"""A search for an order of calls on one object in which every answer is right (Wing and Gong, with Lowe's memory of
visited configurations).

The other rules take the order of the audit trail as a witness and check it in one pass. This search needs no witness:
it uses only the intervals of the calls and their answers. It is run per object, because orders of different objects are
independent of one another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_CONFIGURATIONS = 200_000
"""The search gives up after this many, and then decides nothing."""

State = Hashable
Step = Callable[[State, Any], Iterable[State]]
"""All states after an operation in a state; none if its answer would be wrong there."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on the object. `end` is infinite if no answer arrived; such an operation may also never happen."""

    begin: float
    end: float
    value: Any
    name: str = ""
    must_happen: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """`is_right` is None if the search gave up. `longest` is the longest order that was right, `stuck` are the
    operations one of which had to come next."""

    is_right: bool | None
    longest: tuple[Operation, ...] = ()
    stuck: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Path:
    """An order, as its last operation and the order before it."""

    place: int
    length: int
    before: _Path | None


def _operations(ordered: Sequence[Operation], path: _Path | None) -> tuple[Operation, ...]:
    found = []
    while path is not None:
        found.append(ordered[path.place])
        path = path.before
    return tuple(reversed(found))


def find_order(operations: Sequence[Operation], initial: Iterable[State], step: Step) -> Verdict:
    """Whether an order exists: each operation at one moment of its interval, each answer right in its state."""
    ordered = sorted(operations, key=lambda each: each.begin)
    required = sum(1 << place for place, each in enumerate(ordered) if each.must_happen)
    visited: set[tuple[int, State]] = set()
    longest: _Path | None = None
    stack: list[tuple[int, State, _Path | None]] = [(0, state, None) for state in initial]
    while stack:
        done, state, order = stack.pop()
        if done & required == required:
            return Verdict(True, _operations(ordered, order))
        if (done, state) in visited:
            continue
        visited.add((done, state))
        if len(visited) > MAX_CONFIGURATIONS:
            return Verdict(None)
        if order is not None and (longest is None or order.length > longest.length):
            longest = order
        for place in reversed(_candidates(ordered, done)):
            for following in step(state, ordered[place].value):
                length = 1 if order is None else order.length + 1
                stack.append((done | 1 << place, following, _Path(place, length, order)))
    used, path = 0, longest
    while path is not None:
        used, path = used | 1 << path.place, path.before
    return Verdict(
        False,
        _operations(ordered, longest),
        tuple(ordered[place] for place in _candidates(ordered, used) if ordered[place].must_happen),
    )


def _candidates(ordered: Sequence[Operation], done: int) -> list[int]:
    """The operations that may come next: those that began before every open operation ended."""
    found = []
    first_end = float("inf")
    lowest_open = (~done & (done + 1)).bit_length() - 1
    for place in range(lowest_open, len(ordered)):
        if done >> place & 1:
            continue
        each = ordered[place]
        if each.begin > first_end:
            break
        first_end = min(first_end, each.end)
        found.append(place)
    return [place for place in found if ordered[place].begin <= first_end]
