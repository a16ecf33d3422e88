"""Users and their accounts, and who may read them."""

from __future__ import annotations

from django.db.models import Count, QuerySet

from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor, Permission
from pools.models import AccessToken, User
from pools.permissions import require_platform


def list_users(actor: Actor) -> QuerySet[User]:
    """All users by name, disabled ones too, for platform viewers."""
    require_platform(actor, Permission.PLATFORM_READ)
    return User.objects.filter(is_removed=False).order_by("username")


def list_accounts(actor: Actor) -> QuerySet[User]:
    """As `list_users`, with roles and accounts at providers prefetched, and `token_count`."""
    return list_users(actor).prefetch_related("groups", "identities").annotate(token_count=Count("tokens"))


def read_user(actor: Actor, username: str, *, with_disabled: bool = True) -> User:
    """One user, for that person and for platform viewers. Raises Forbidden, NotFound."""
    rows = User.objects.all() if username == actor.username else list_users(actor)
    user = rows.filter(username=username).first()
    if user is None or not (user.is_active or with_disabled):
        raise NotFound(f"User {username} does not exist.")
    return user


def list_all_tokens(owner: str | None = None) -> QuerySet[AccessToken]:
    """The access tokens of all users, or of one, the first to end first."""
    rows = AccessToken.objects.select_related("owner").order_by("expires_at", "owner__username", "name")
    return rows if owner is None else rows.filter(owner__username=owner)
