"""The resources that count for a request: each kind of GPU counts alone (design, K8)."""

from __future__ import annotations

from functools import lru_cache

from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import QueueState


def counted_resources(queue: QueueState, request: Request) -> tuple[int, ...] | None:
    """The resources of which a queue compares its quota, share and use for a request: all but GPUs of other kinds, so
    that what it borrows of one kind takes no right to another kind. None: all, because the request has no GPUs, or the
    facts have one kind."""
    kinds = queue.kinds
    if kinds < 2:
        return None
    mine = tuple([r for r, _amount in request if r < kinds])
    return _counted(kinds, len(queue.quota), mine) if mine else None


def shares_gpus(queue: QueueState, one: Request, other: Request) -> bool:
    """Whether two requests may take something from each other: False if they ask for GPUs of different kinds."""
    mine, theirs = ({r for r, _amount in request if r < queue.kinds} for request in (one, other))
    return not (mine and theirs) or not mine.isdisjoint(theirs)


@lru_cache(1024)
def _counted(kinds: int, width: int, mine: tuple[int, ...]) -> tuple[int, ...]:
    return (*mine, *range(kinds, width))
