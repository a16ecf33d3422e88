"""Sign-ons through identity providers that are valid now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import BooleanField, Count, Exists, ExpressionWrapper, Max, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Now

from pools.domain.configuration.ownership import OwnedKind
from pools.models import ConfigurationOwner, RoleAssignment, SignOnIdentity, User
from pools.sign_on.providers import SIGN_ON_ACTOR, OpenIdProvider, SignOnProvider, SyncMode, roles_of_groups


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """An account at a provider for a page or an answer. `sync` is None when the provider is no longer configured.
    `is_renewable`: the provider can confirm the sign-on again without the person."""

    provider: str
    title: str
    username: str
    groups: Sequence[str]
    sync: SyncMode | None
    signed_on_at: datetime
    checked_at: datetime
    is_valid: bool
    is_renewable: bool


def sign_on_providers() -> tuple[SignOnProvider, ...]:
    """The providers and directories of the operator's settings."""
    found: tuple[SignOnProvider, ...] = settings.OSMO.sign_on_providers
    return found


def identity_rows(user: User) -> list[IdentityRow]:
    """The accounts of a user at providers."""
    known = {provider.name: provider for provider in sign_on_providers()}
    rows = (
        SignOnIdentity.objects.filter(user=user)
        .order_by("provider")
        .annotate(is_valid=ExpressionWrapper(Q(valid_until__gt=Now()), output_field=BooleanField()))
    )
    return [
        IdentityRow(
            provider=row.provider,
            title=known[row.provider].title if row.provider in known else row.provider,
            username=row.username or row.subject,
            groups=row.groups,
            sync=known[row.provider].sync if row.provider in known else None,
            signed_on_at=row.signed_on_at,
            checked_at=row.checked_at,
            is_valid=row.is_valid,
            is_renewable=bool(row.refresh_token) or not isinstance(known.get(row.provider), OpenIdProvider),
        )
        for row in rows
    ]


def signed_on_counts() -> dict[tuple[str, bool], int]:
    """The number of valid sign-ons of each configured provider by (name, whether the provider can confirm it again)."""
    providers = sign_on_providers()
    counts = {
        (provider.name, is_renewable): 0
        for provider in providers
        for is_renewable in ([True, False] if isinstance(provider, OpenIdProvider) else [True])
    }
    if not providers:
        return counts
    has_no_token = {provider.name for provider in providers if isinstance(provider, OpenIdProvider)}
    rows = (
        SignOnIdentity.objects.filter(valid_until__gt=Now(), user__is_active=True)
        .order_by()
        .values_list("provider", ExpressionWrapper(Q(refresh_token=""), output_field=BooleanField()))
        .annotate(count=Count("pk"))
    )
    for name, is_empty, count in rows:
        key = (name, not is_empty or name not in has_no_token)
        if key in counts:
            counts[key] += count
    return counts


def roles_given_by_groups() -> frozenset[str]:
    """The roles that groups of a provider give: those of the settings, and those that somebody has from one."""
    mapped = {
        role
        for provider in sign_on_providers()
        if provider.sync is not SyncMode.IGNORE
        for roles in provider.roles_by_group.values()
        for role in roles
    }
    held = RoleAssignment.objects.filter(assigned_by__startswith=SIGN_ON_ACTOR, user__is_active=True)
    return frozenset(mapped | set(held.values_list("group__name", flat=True)))


def roles_kept_from_groups(user: User) -> list[str]:
    """The roles of Git that groups of this user would give, or that the user holds, so that no group changes them."""
    known = {provider.name: provider for provider in sign_on_providers() if provider.sync is not SyncMode.IGNORE}
    wanted = set[str]()
    identities = SignOnIdentity.objects.filter(user=user, provider__in=known)
    for name, groups in identities.values_list("provider", "groups"):
        wanted |= roles_of_groups(known[name], groups) | user.as_actor().roles
    owned = ConfigurationOwner.objects.filter(kind=OwnedKind.ROLE, name__in=wanted)
    return sorted(owned.values_list("name", flat=True))


def linkable_providers(user: User) -> list[SignOnProvider]:
    """The providers with which a user is not linked."""
    if not (providers := sign_on_providers()):
        return []
    linked = set(SignOnIdentity.objects.filter(user=user).values_list("provider", flat=True))
    return [provider for provider in providers if provider.name not in linked]


def find_signed_on_user(user_id: int) -> User | None:
    """The user of a browser session that began at a provider, in one query; None when no sign-on of the user is valid.
    The session is compared with the epoch, so one that ended early stays ended."""
    rows = SignOnIdentity.objects.filter(user=OuterRef("pk"))
    epochs = rows.order_by().values("user").annotate(total=Sum("epoch")).values("total")
    found = (
        User.objects.filter(pk=user_id, is_active=True)
        .filter(Exists(rows.filter(valid_until__gt=Now())))
        .annotate(epochs=Subquery(epochs))
        .first()
    )
    if found is not None:
        found.sign_on_epoch = found.epochs
    return found


def sign_on_epoch(user: User) -> int:
    """The sum of the epochs of the user's identities."""
    return SignOnIdentity.objects.filter(user=user).aggregate(total=Sum("epoch"))["total"] or 0


def sign_on_epochs(user_ids: Collection[int], now: datetime) -> dict[int, int]:
    """The sums of the epochs of those of these users who have a valid sign-on, in one query."""
    rows = SignOnIdentity.objects.filter(user__in=user_ids).order_by().values("user")
    valid = rows.annotate(total=Sum("epoch"), latest=Max("valid_until")).filter(latest__gt=now)
    return dict(valid.values_list("user", "total"))


def current_identity(user: User) -> SignOnIdentity | None:
    """The identity with which the user has signed on last, if that is still valid."""
    return SignOnIdentity.objects.filter(user=user, valid_until__gt=Now()).order_by("-signed_on_at").first()
