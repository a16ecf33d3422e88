"""What a person has just done: Back to a preview says so and does not judge the change once more, and a form that is
sent twice makes its change once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypedDict

from django.core.cache import cache
from django.middleware.csrf import CSRF_TOKEN_LENGTH

from pools.admin.forms import ServiceForm
from pools.admin.kept_input import KEPT_MINUTES
from pools.domain.errors import Conflict, Throttled
from pools.domain.people.roles import Actor
from pools.services.changes.idempotency import StillRunning, run_once

GONE: Final = {"gone": True}
"""In place of the input of a change that removed its object, whose form cannot be read any more."""

_LONGEST_WAIT: Final = 3
"""Seconds for which a request waits for an earlier one that is the same."""


class DoneChange(TypedDict):
    """What was said after the change, the page that shows it, and the version of the object before it, if any."""

    message: str
    address: str
    version: int | None


def _key(actor: Actor, address: str, typed: Mapping[str, object]) -> str:
    text = json.dumps([address, sorted(typed.items())])
    return f"done:{actor.user_id}:{hashlib.sha256(text.encode()).hexdigest()}"


def making_marks(actor: Actor, address: str) -> tuple[str, str]:
    """The marks of two requests that make the change of one form at once: of the first, and of a later one."""
    mark = f"making:{actor.user_id}:{hashlib.sha256(address.encode()).hexdigest()}"
    return mark, f"{mark}:again"


def keep_done(actor: Actor, address: str, typed: Mapping[str, object], done: DoneChange) -> None:
    """Remember for an hour that the actor made the change of this form with this input."""
    cache.set(_key(actor, address, typed), done, KEPT_MINUTES * 60)


@dataclass(frozen=True, slots=True)
class Making:
    """A change that is being made: the mark of this request, and that of another one that was sent at once."""

    own: str
    other: str


@contextmanager
def making(actor: Actor, address: str) -> Iterator[Making]:
    """A change of this form is being made. Of two requests at once either one may come first to the lock."""
    first, later = making_marks(actor, address)
    is_first = cache.add(first, True, _LONGEST_WAIT)
    mark = Making(first, later) if is_first else Making(later, first)
    if not is_first:
        cache.set(later, True, _LONGEST_WAIT)
    try:
        yield mark
    finally:
        cache.delete(mark.own)


def read_done_by_other(actor: Actor, address: str, typed: Mapping[str, object], mark: Making) -> DoneChange | None:
    """What was said when the other of two requests made this change; this one did not, so that nobody waits for it."""
    cache.delete(mark.own)
    return read_done(actor, address, typed, waits_for=[mark.other])


def read_done(
    actor: Actor, address: str, typed: Mapping[str, object], *, waits_for: Collection[str] = ()
) -> DoneChange | None:
    """What was said when the actor made this change; None if they did not, or begin it anew. A change is said to be
    done a moment after its commit, so this waits while there is a mark of `waits_for`."""
    key, latest = _key(actor, address, typed), time.monotonic() + _LONGEST_WAIT
    while True:
        is_being_made = any(cache.get(mark) for mark in waits_for)
        found: DoneChange | None = cache.get(key)
        if found is not None or not is_being_made or time.monotonic() > latest:
            return found
        time.sleep(0.05)


def forget_done(actor: Actor, address: str, typed: Mapping[str, object]) -> None:
    """The person begins the same change anew."""
    cache.delete(_key(actor, address, typed))


def sent_once(
    actor: Actor, form: ServiceForm, what: str, operation: Callable[[], tuple[str, str]]
) -> tuple[tuple[str, str], bool]:
    """The answer of `operation`, and whether it is that of an earlier time: it runs once for each form that was shown,
    however often a person or a browser without scripts sends it. `what` distinguishes the operations of one form.

    Each form is shown with another token against forged requests, so the token names the form. An answer is kept in the
    transaction of its change; a refusal is not kept. Raises Conflict while the first sending runs.
    """
    shown = form.data.get("csrfmiddlewaretoken", "")
    if len(shown) != CSRF_TOKEN_LENGTH:  # the cookie's own, which is the same for every form
        return operation(), False
    key = hashlib.sha256(f"{shown} {what}".encode()).hexdigest()
    try:
        with run_once(
            actor=actor, address=f"form {type(form).__name__}", key=key, body=b"", wait=f"{_LONGEST_WAIT}s"
        ) as slot:
            if not slot.is_repeat:
                slot.answer = operation()
    except StillRunning:
        message = "This form was sent before, and that is not finished yet. Look at the lists before you send it again."
        raise Conflict(message) from None
    except Throttled:  # the most answers are already kept for this person's programs
        return operation(), False
    message, address = slot.stored if slot.is_repeat else slot.answer
    return (message, address), slot.is_repeat
