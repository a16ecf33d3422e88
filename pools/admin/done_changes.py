"""What a person has just done: Back to a preview says so and does not judge the change once more, and a form that is
sent twice makes its change once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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


def _making_key(actor: Actor, address: str) -> str:
    return f"making:{actor.user_id}:{hashlib.sha256(address.encode()).hexdigest()}"


def keep_done(actor: Actor, address: str, typed: Mapping[str, object], done: DoneChange) -> None:
    """Remember for an hour that the actor made the change of this form with this input."""
    cache.set(_key(actor, address, typed), done, KEPT_MINUTES * 60)


@contextmanager
def making(actor: Actor, address: str) -> Iterator[bool]:
    """A change of this form is being made; whether no other one of the actor is."""
    mark = _making_key(actor, address)
    is_only_one = cache.add(mark, True, _LONGEST_WAIT)
    try:
        yield is_only_one
    finally:
        if is_only_one:
            cache.delete(mark)


def read_done(actor: Actor, address: str, typed: Mapping[str, object], *, waits: bool = False) -> DoneChange | None:
    """What was said when the actor made this change; None if they did not, or begin it anew. `waits` is for the second
    of two requests that arrive at once: the first is said to be done a moment after its commit."""
    key, latest = _key(actor, address, typed), time.monotonic() + _LONGEST_WAIT
    while True:
        is_being_made = waits and cache.get(_making_key(actor, address))
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
    except Throttled:  # so many answers are kept for this person's programs
        return operation(), False
    message, address = slot.stored if slot.is_repeat else slot.answer
    return (message, address), slot.is_repeat
