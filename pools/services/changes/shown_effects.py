"""Effects that a person sees before a change: what the preview found is kept apart until the change is confirmed, and
then given back to those who can compare it with what happens.

The memos of an effect name work that the person may not see, so no page and no answer has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pools.database.transactions import change
from pools.domain.people.roles import Actor
from pools.selectors.change_tokens import read_tokens
from pools.signals import effect_confirmed

Memos = list[Mapping[str, Any]]
_collected: ContextVar[Memos | None] = ContextVar("collected_memos", default=None)


@contextmanager
def collecting_memos() -> Iterator[Memos]:
    """The memos of the dry runs inside."""
    found: Memos = []
    mark = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(mark)


def tokens_before() -> Mapping[str, str] | None:
    """The change tokens before a dry run whose memos are wanted; None for another one."""
    return None if _collected.get() is None else read_tokens()


def note_memos(memos: Iterable[Mapping[str, Any]]) -> None:
    """Add the memos of a dry run."""
    if (found := _collected.get()) is not None:
        found.extend(memos)


@contextmanager
def confirmed_effect(
    memos: Sequence[Mapping[str, Any]], *, actor: Actor, title: str, description: str
) -> Iterator[None]:
    """Inside, the change is made whose preview had these memos; they are given back in its transaction."""
    if not memos:
        yield
        return
    with change(actor=actor, description=description):
        before = read_tokens()
        yield
        effect_confirmed.send(sender=None, actor=actor, title=title, memos=memos, before=before)
