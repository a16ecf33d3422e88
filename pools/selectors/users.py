"""Accounts, for the list of users."""

from __future__ import annotations

from django.db.models import Count, QuerySet

from pools.models import AccessToken, User


def list_accounts() -> QuerySet[User]:
    """All accounts by name, disabled ones too, with roles and accounts at providers prefetched, and `token_count`."""
    rows = User.objects.order_by("username").prefetch_related("groups", "identities")
    return rows.annotate(token_count=Count("tokens"))


def list_all_tokens(owner: str | None = None) -> QuerySet[AccessToken]:
    """The access tokens of all users, or of one, the first to end first."""
    rows = AccessToken.objects.select_related("owner").order_by("expires_at", "owner__username", "name")
    return rows if owner is None else rows.filter(owner__username=owner)
