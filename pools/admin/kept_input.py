"""What a page keeps for a person: input that an address cannot have, a secret or a long text, and a secret just made.

It is kept encrypted outside of the database for a limited time, under a key that only its user can read it with. A lost
cache costs the input only: the form then asks for it again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

from django.core.cache import cache

from pools.domain.people.roles import Actor
from pools.security.sealing import UnreadableSecret, seal, unseal

KEPT_INPUT = "kept_input"
"""The key in the address of a preview that names its kept input."""
KEPT_MINUTES = 60


def keep_input(actor: Actor, fields: Mapping[str, str], *, minutes: int = KEPT_MINUTES) -> str:
    """Keep the texts of these fields, and return the key for :func:`read_kept_input`."""
    key = secrets.token_urlsafe(16)
    cache.set(_address(actor, key), seal(json.dumps(dict(fields))), minutes * 60)
    return key


def read_kept_input(actor: Actor, key: str) -> dict[str, str] | None:
    """The texts by field; None if they are not kept any more, or another user kept them."""
    sealed = cache.get(_address(actor, key[:100]))
    try:
        found: dict[str, str] | None = None if sealed is None else json.loads(unseal(sealed))
    except UnreadableSecret:
        return None
    return found


def _address(actor: Actor, key: str) -> str:
    return f"kept-input:{actor.user_id}:{key}"
