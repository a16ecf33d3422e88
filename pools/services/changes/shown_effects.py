"""Effects that a person or a program sees before a change: what the preview found is kept apart until the same change
is confirmed, and then given back to those who can compare it with what happens.

The memos of an effect name work that the reader may not see, so no page and no answer has them: they are kept sealed
outside of the database, for the person and the change. A lost cache costs the comparison only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from django.core.cache import cache

from pools.database.transactions import change
from pools.domain.changes.command import ChangeCommand
from pools.domain.people.roles import Actor
from pools.security.sealing import UnreadableSecret, seal, unseal
from pools.selectors.change_tokens import read_tokens
from pools.signals import effect_confirmed

KEPT_MINUTES = 60
Memos = list[Mapping[str, Any]]
_collected: ContextVar[Memos | None] = ContextVar("collected_memos", default=None)
_confirmed: ContextVar[Sequence[Mapping[str, Any]]] = ContextVar("confirmed_memos", default=())


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
def previewing(command: ChangeCommand, actor: Actor) -> Iterator[None]:
    """Inside, a dry run shows the actor the effect of this change; its memos are kept for :func:`confirming`."""
    with collecting_memos() as memos:
        yield
    keep_memos(command, actor, memos)


def keep_memos(command: ChangeCommand, actor: Actor, memos: Sequence[Mapping[str, Any]]) -> None:
    """Keep the memos of what this actor was shown last about this change."""
    if memos:
        cache.set(_address(command, actor), seal(json.dumps(list(memos))), KEPT_MINUTES * 60)
    else:
        cache.delete(_address(command, actor))


@contextmanager
def confirming(command: ChangeCommand, actor: Actor) -> Iterator[None]:
    """Inside, the actor makes this change, after a preview perhaps. It stands around all transactions of the change,
    because what was kept is read over the network."""
    memos = _kept_memos(command, actor) if command.has_preview else []
    mark = _confirmed.set(memos)
    try:
        yield
    finally:
        _confirmed.reset(mark)
    if memos:
        cache.delete(_address(command, actor))


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
        before = read_tokens()
        yield
        effect_confirmed.send(sender=None, actor=actor, title=title, memos=memos, before=before)


def _kept_memos(command: ChangeCommand, actor: Actor) -> Memos:
    sealed = cache.get(_address(command, actor))
    try:
        found: Memos = [] if sealed is None else json.loads(unseal(sealed))
    except UnreadableSecret:
        return []
    return found


def _address(command: ChangeCommand, actor: Actor) -> str:
    content = json.dumps([type(command).__name__, command.as_json()], sort_keys=True)
    return f"shown-effect:{actor.user_id}:{sha256(content.encode()).hexdigest()}"
