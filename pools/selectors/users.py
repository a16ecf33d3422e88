"""Accounts, for the list of users."""

from __future__ import annotations

from django.db.models import Count, QuerySet

from pools.models import User


def list_accounts() -> QuerySet[User]:
    """All accounts by name, closed ones too, with their roles prefetched and `token_count`."""
    return User.objects.order_by("username").prefetch_related("groups").annotate(token_count=Count("tokens"))
