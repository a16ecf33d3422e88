"""Access tokens: create, list, delete."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta

from django.utils import timezone

from pools.domain.errors import BadInput, Conflict, NotFound, Violation
from pools.domain.roles import Actor, Permission
from pools.models import AccessToken, User
from pools.permissions import require_platform
from pools.security.tokens import new_secret, secret_digest
from pools.transactions import change

DEFAULT_LIFETIME = timedelta(days=31)
MAX_LIFETIME = timedelta(days=365)
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?\Z")


def create_token(
    *,
    actor: Actor,
    owner: str,
    name: str,
    expires_at: datetime | None = None,
    description: str = "",
    roles: Collection[str] | None = None,
    secret: str | None = None,
) -> tuple[AccessToken, str]:
    """Create a token and return (token, secret); only this call returns the secret. With `roles` None the token has all
    roles that its owner has at the time of use.

    An actor with a restricted token cannot give the new token more roles than its own. `secret` is for a caller that
    must be able to return the same secret again. Raises BadInput (name, expiry, roles that the owner does not have),
    Conflict (name taken), NotFound, Forbidden.
    """
    user = get_token_owner(actor, owner)
    expires = expires_at or timezone.now() + DEFAULT_LIFETIME
    held = user.as_actor().roles
    if actor.username == owner and actor.roles != held:
        held &= actor.roles
        roles = held if roles is None else roles
    found = _violations(name, expires, roles, user.username, held)
    if found:
        raise BadInput.of(found)
    secret = secret or new_secret()
    with change(actor=actor, description=description):
        if AccessToken.objects.filter(owner=user, name=name).exists():
            raise Conflict(f"{owner} has a token {name} already; delete it or choose another name.")
        token = AccessToken.objects.create(
            owner=user,
            name=name,
            digest=secret_digest(secret),
            description=description,
            expires_at=expires,
            roles=sorted(roles) if roles is not None else None,
        )
    return token, secret


def delete_token(*, actor: Actor, owner: str, name: str) -> None:
    """Revoke a token; requests with it are refused from now on."""
    user = get_token_owner(actor, owner)
    with change(actor=actor):
        gone, _ = AccessToken.objects.filter(owner=user, name=name).delete()
        if not gone:
            raise NotFound(f"{owner} has no token {name}.")


def get_token_owner(actor: Actor, owner: str, permission: Permission = Permission.PLATFORM_WRITE) -> User:
    """The owner of tokens: the actor, or any other user if the actor has this platform permission."""
    if actor.username != owner:
        require_platform(actor, permission)
    user = User.objects.filter(username=owner, is_active=True).first()
    if user is None:
        raise NotFound(f"User {owner} does not exist, or the account is closed.")
    return user


def list_tokens(*, actor: Actor, owner: str) -> list[AccessToken]:
    """The tokens of a user by name, expired ones too. For the user and for platform readers."""
    return list(
        AccessToken.objects.filter(owner=get_token_owner(actor, owner, Permission.PLATFORM_READ)).order_by("name")
    )


def get_token(*, actor: Actor, owner: str, name: str) -> AccessToken:
    """One token. Raises NotFound, Forbidden."""
    token = AccessToken.objects.filter(owner=get_token_owner(actor, owner, Permission.PLATFORM_READ), name=name).first()
    if token is None:
        raise NotFound(f"{owner} has no token {name}.")
    return token


def _violations(
    name: str, expires: datetime, roles: Collection[str] | None, owner: str, held: Collection[str]
) -> list[Violation]:
    found = []
    if not _NAME.match(name) or len(name) > 100:
        found.append(
            Violation(
                "name",
                "bad_token_name",
                f"{name!r} is not a valid token name: a letter first, then letters, digits, '-' and '_', a letter or "
                "digit last, at most 100.",
            )
        )
    now = timezone.now()
    if expires <= now:
        found.append(Violation("expires_at", "expired", "The expiry must lie in the future."))
    elif expires > now + MAX_LIFETIME:
        found.append(Violation("expires_at", "too_long", f"A token lives at most {MAX_LIFETIME.days} days."))
    found += [
        Violation("roles", "role_not_held", f"{owner} does not have the role {role} to give to a token.")
        for role in roles or ()
        if role not in held
    ]
    return found
