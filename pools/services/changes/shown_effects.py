"""Effects that a person or a program sees before a change: what the preview found is kept apart until the same change
is confirmed, and then given back to those who can compare it with what happens.

The memos of an effect name work that the reader may not see, so no page and no answer has them: they are kept sealed
outside of the database, for the person and the change. A lost cache costs the comparison only, and so does the next of
many previews: a person has few places, and the newest preview of a place wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.core.cache import cache

from pools.database.transactions import change
from pools.domain.changes.command import ChangeCommand, title_of
from pools.domain.people.roles import Actor
from pools.security.sealing import UnreadableSecret, seal, unseal
from pools.selectors.change_tokens import read_own_change, read_tokens, watch_own_moves
from pools.signals import effect_confirmed

KEPT_MINUTES = 60
PLACES = 16
"""The most previews of one person that are kept."""
MAX_CHARACTERS = 2**17
"""The most text of one preview: about 3,000 gangs. A larger effect is not compared."""
Memos = list[Mapping[str, Any]]
_collected: ContextVar[Memos | None] = ContextVar("collected_memos", default=None)
_confirmed: ContextVar[Sequence[Mapping[str, Any]]] = ContextVar("confirmed_memos", default=())


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change whose effect is shown: `title` is the same for all of one kind of one object, `content` is its own."""

    title: str
    content: str


def shown_command(command: ChangeCommand) -> ShownChange:
    """A change that is a command."""
    content = json.dumps([type(command).__name__, command.as_json()], sort_keys=True)
    return ShownChange(title_of(command), content)


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
def previewing(shown: ShownChange, actor: Actor) -> Iterator[None]:
    """Inside, a dry run shows the actor the effect of this change; its memos are kept for :func:`confirming`."""
    with collecting_memos() as memos:
        yield
    keep_memos(shown, actor, memos)


def keep_memos(shown: ShownChange, actor: Actor, memos: Sequence[Mapping[str, Any]]) -> None:
    """Keep the memos of what this actor was shown last about this change, in place of an older one."""
    content = json.dumps({"change": _hash(shown.content), "memos": list(memos)})
    if memos and len(content) <= MAX_CHARACTERS:
        cache.set(_place(shown, actor), seal(content), KEPT_MINUTES * 60)
    else:
        cache.delete(_place(shown, actor))


@contextmanager
def confirming(shown: ShownChange, actor: Actor) -> Iterator[None]:
    """Inside, the actor makes this change, after a preview perhaps. It stands around all transactions of the change,
    because what was kept is read over the network."""
    memos = _kept_memos(shown, actor)
    mark = _confirmed.set(memos)
    try:
        yield
    finally:
        _confirmed.reset(mark)
    if memos:
        cache.delete(_place(shown, actor))


def confirmed_effect(
    command: ChangeCommand, *, actor: Actor, title: str, description: str
) -> AbstractContextManager[None]:
    """Inside, the service of this change is called. If a preview of it has shown its effect to the actor
    (:func:`confirming`), the memos are given back in the transaction of the change."""
    if not command.is_one_transaction:
        return nullcontext()
    return effect_in_transaction(actor=actor, title=title, description=description)


@contextmanager
def effect_in_transaction(*, actor: Actor, title: str, description: str) -> Iterator[None]:
    """As :func:`confirmed_effect`, within a service that has several transactions: inside, the change is made."""
    memos = _confirmed.get()
    if not memos:
        yield
        return
    with change(actor=actor, description=description):
        watch_own_moves()
        yield
        effect_confirmed.send(sender=None, actor=actor, title=title, memos=memos, tokens=read_own_change())


def _kept_memos(shown: ShownChange, actor: Actor) -> Memos:
    sealed = cache.get(_place(shown, actor))
    try:
        kept = {} if sealed is None else json.loads(unseal(sealed))
    except UnreadableSecret:
        return []
    found: Memos = kept["memos"] if kept and kept["change"] == _hash(shown.content) else []
    return found


def _place(shown: ShownChange, actor: Actor) -> str:
    """One of few places of the actor, the same for all changes of one kind of one object."""
    return f"shown-effect:{actor.user_id}:{int(_hash(shown.title), 16) % PLACES}"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
