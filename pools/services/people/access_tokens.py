"""Access tokens: create, list, delete."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from pools.database.transactions import change
from pools.domain.changes.tokens import CreateToken, DeleteToken
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Throttled, Unauthenticated, Violation
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.values.counting import counted
from pools.locking import lock_user
from pools.models import AccessToken, User
from pools.permissions import require_platform
from pools.security.tokens import new_secret, secret_digest

DEFAULT_LIFETIME = timedelta(days=31)
MAX_LIFETIME = timedelta(days=365)
USE_PRECISION = timedelta(minutes=1)
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?\Z")


def create_token(
    command: CreateToken, *, actor: Actor, description: str = "", identity_id: int | None = None
) -> tuple[AccessToken, str]:
    """Create a token and return (token, secret); only this call returns the secret. With `roles` None the token has all
    roles that its owner has at the time of use. `identity_id` is the account at a provider on which it depends.

    A token that an actor makes through a token has that one as its parent: it has at most the roles of its parent,
    never lives longer, and is deleted with it. Raises BadInput (name, expiry, roles that the owner or the parent does
    not have), Conflict (name taken), Throttled (too many tokens), NotFound, Forbidden.
    """
    owner, name, roles = command.owner, command.name, command.roles
    user = get_token_owner(actor, owner)
    secret = new_secret()
    with change(actor=actor, description=description or command.description):
        lock_user(owner)
        parent = _acting_token(actor)
        held = user.as_actor().roles
        if parent is not None and parent.roles is not None:
            held &= actor.roles if parent.owner_id == user.pk else held
            roles = held if roles is None else roles
        expires = command.expires_at or _default_expiry(parent)
        found = _violations(name, expires, roles, user.username, held, parent)
        if found:
            raise BadInput.of(found)
        if AccessToken.objects.filter(owner=user, name=name).exists():
            raise Conflict(f"{owner} has a token {name} already; delete it or choose another name.")
        _require_room(user)
        token = AccessToken.objects.create(
            owner=user,
            name=name,
            digest=secret_digest(secret),
            description=command.description,
            expires_at=expires,
            roles=sorted(roles) if roles is not None else None,
            parent=parent,
            identity_id=identity_id if parent is None else parent.identity_id,
        )
    return token, secret


def note_token_use(token: AccessToken) -> None:
    """Note that a token is exchanged for a session. The time is kept to the minute, so that a program that logs in
    often does not write often. It is not configuration, so it has no entry in the audit trail."""
    is_stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - USE_PRECISION)
    AccessToken.objects.filter(is_stale, pk=token.pk).update(last_used_at=Now())


def delete_token(command: DeleteToken, *, actor: Actor, description: str = "") -> None:
    """Revoke a token and all tokens that were made with it; requests with them are refused from now on."""
    owner, name = command.owner, command.name
    user = get_token_owner(actor, owner, with_disabled=True)
    with change(actor=actor, description=description):
        tokens = _tokens_within_reach(actor, user, Permission.PLATFORM_WRITE)
        gone, _ = tokens.filter(name=name).delete()
        if not gone:
            raise _unknown_token(actor, owner, name)


def get_token_owner(
    actor: Actor, owner: str, permission: Permission = Permission.PLATFORM_WRITE, *, with_disabled: bool = False
) -> User:
    """The owner of tokens: the actor, or any other user if the actor has this platform permission."""
    if actor.username != owner:
        require_platform(actor, permission)
    user = User.objects.filter(username=owner, is_removed=False).first()
    if user is None or not (user.is_active or with_disabled):
        raise NotFound(f"User {owner} does not exist{'' if with_disabled else ', or the account is disabled'}.")
    return user


def list_tokens(*, actor: Actor, owner: User) -> list[AccessToken]:
    """The tokens by name, expired ones too, of an owner that :func:`get_token_owner` found for a reader. A token with
    fewer roles than its owner lists only itself and the tokens made with it."""
    return list(_tokens_within_reach(actor, owner, Permission.PLATFORM_READ).order_by("name"))


def get_token(*, actor: Actor, owner: str, name: str) -> AccessToken:
    """One token. Raises NotFound, Forbidden."""
    user = get_token_owner(actor, owner, Permission.PLATFORM_READ, with_disabled=True)
    token = _tokens_within_reach(actor, user, Permission.PLATFORM_READ).filter(name=name).first()
    if token is None:
        raise _unknown_token(actor, owner, name)
    return token


def _acting_token(actor: Actor) -> AccessToken | None:
    """The token through which the actor acts. Raises Unauthenticated if it ended meanwhile."""
    if actor.token_id is None:
        return None
    token = AccessToken.objects.valid(timezone.now()).filter(pk=actor.token_id).first()
    if token is None:
        raise Unauthenticated("The login has expired or was revoked. Log in again.")
    return token


def _tokens_within_reach(actor: Actor, owner: User, permission: Permission) -> QuerySet[AccessToken]:
    """The tokens of `owner` that the actor may see or delete. A token with fewer roles than its owner reaches itself
    and its descendants only. The platform permission reaches the tokens of other users, and only that to write reaches
    those of the own owner, which a token that only looks does not need."""
    rows = AccessToken.objects.filter(owner=owner)
    acting = _acting_token(actor)
    needed = Permission.PLATFORM_WRITE if acting is not None and acting.owner_id == owner.pk else permission
    if acting is None or acting.roles is None or is_allowed(actor, needed):
        return rows
    parents = dict(AccessToken.objects.filter(owner=owner).values_list("pk", "parent_id"))
    return rows.filter(pk__in=[pk for pk in parents if acting.pk in _lineage(pk, parents)])


def _lineage(pk: int, parents: Mapping[int, int | None]) -> list[int]:
    """A token and those above it. A child is made after its parent, so there is no cycle."""
    found, above = [pk], parents.get(pk)
    while above is not None:
        found.append(above)
        above = parents.get(above)
    return found


def _unknown_token(actor: Actor, owner: str, name: str) -> NotFound:
    through = f" that the token {actor.token} has made" if actor.token is not None else ""
    return NotFound(f"{owner} has no token {name}{through}.")


def _default_expiry(parent: AccessToken | None) -> datetime:
    expires = timezone.now() + DEFAULT_LIFETIME
    return expires if parent is None else min(expires, parent.expires_at)


def _require_room(user: User) -> None:
    """Refuse one token too many. The caller holds the lock of the account. Raises Throttled, without a time to try
    again: tokens count until somebody deletes them."""
    limit = settings.OSMO.max_tokens
    count = AccessToken.objects.filter(owner=user).count()
    if count < limit:
        return
    expired = AccessToken.objects.filter(owner=user, expires_at__lte=timezone.now()).count()
    message = (
        f"{user.username} has {counted(count, 'access token')} ({expired} of them expired); at most {limit} are "
        "allowed. Delete some first."
    )
    numbers = (("tokens", count), ("limit", limit))
    raise Throttled(message, [Violation("name", Fault.TOO_MANY_TOKENS, message, numbers=numbers)])


def _violations(
    name: str,
    expires: datetime,
    roles: Collection[str] | None,
    owner: str,
    held: Collection[str],
    parent: AccessToken | None,
) -> list[Violation]:
    found = []
    if not _NAME.match(name) or len(name) > 100:
        found.append(
            Violation(
                "name",
                Fault.BAD_TOKEN_NAME,
                "This is not a valid token name: a letter first, then letters, digits, '-' and '_', a letter or "
                "digit last, at most 100.",
            )
        )
    now = timezone.now()
    if expires <= now:
        found.append(Violation("expires_at", Fault.EXPIRED, "The expiry must lie in the future."))
    elif expires > now + MAX_LIFETIME:
        found.append(Violation("expires_at", Fault.TOO_LONG, f"A token lives at most {MAX_LIFETIME.days} days."))
    elif parent is not None and expires > parent.expires_at:
        found.append(
            Violation(
                "expires_at",
                Fault.OUTLIVES_PARENT,
                f"The token {parent.name} makes this one and ends at {parent.expires_at:%Y-%m-%d %H:%M} UTC; the new "
                f"one would live until {expires:%Y-%m-%d %H:%M}. Name an earlier day, or make it in the browser.",
            )
        )
    limited = parent is not None and parent.roles is not None
    who = f"The token {parent.name} of {owner}" if parent is not None and limited else owner
    found += [
        Violation("roles", Fault.ROLE_NOT_HELD, f"{who} does not have each of these roles to give to a token.")
        for role in roles or ()
        if role not in held
    ]
    return found
