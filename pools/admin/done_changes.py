"""What a person has just done with a preview, so that Back to it says so and does not judge the change once more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final, TypedDict

from django.core.cache import cache

from pools.admin.kept_input import KEPT_MINUTES
from pools.domain.people.roles import Actor

GONE: Final = {"gone": True}
"""In place of the input of a change that removed its object, whose form cannot be read any more."""


class DoneChange(TypedDict):
    """What was said after the change, the page that shows it, and the version of the object before it, if any."""

    message: str
    address: str
    version: int | None


def _key(actor: Actor, address: str, typed: Mapping[str, object]) -> str:
    text = json.dumps([address, sorted(typed.items())])
    return f"done:{actor.user_id}:{hashlib.sha256(text.encode()).hexdigest()}"


def keep_done(actor: Actor, address: str, typed: Mapping[str, object], done: DoneChange) -> None:
    """Remember for an hour that the actor made the change of this form with this input."""
    cache.set(_key(actor, address, typed), done, KEPT_MINUTES * 60)


def read_done(actor: Actor, address: str, typed: Mapping[str, object]) -> DoneChange | None:
    """What was said when the actor made this change; None if they did not, or begin it anew."""
    found: DoneChange | None = cache.get(_key(actor, address, typed))
    return found


def forget_done(actor: Actor, address: str, typed: Mapping[str, object]) -> None:
    """The person begins the same change anew."""
    cache.delete(_key(actor, address, typed))
