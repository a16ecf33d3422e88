"""Accounts that sign on through an identity provider or a directory: making and linking them, their roles, and the end
of a sign-on.

No request goes to the network under a lock: callers bring the verified facts (:mod:`pools.sign_on.openid`,
:mod:`pools.sign_on.directories`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Least, Now

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change
from pools.domain.changes.users import CreateUser, GrantRole, RevokeRole, UnlinkUser
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import BadInput, Busy, Conflict, DomainError, Fault, Forbidden, NotFound, Throttled, Violation
from pools.domain.people.roles import Actor
from pools.locking import lock_user
from pools.models import AccessToken, SignOnIdentity, User
from pools.permissions import require_platform
from pools.security.sealing import UnreadableSecret, seal, unseal
from pools.services.changes.ownership import owned_names
from pools.services.people.users import create_user, grant_role, revoke_role, role_violations
from pools.sign_on import directories, openid
from pools.sign_on.identities import sign_on_epoch, sign_on_providers
from pools.sign_on.providers import (
    SIGN_ON_ACTOR,
    LdapDirectory,
    OpenIdProvider,
    ProviderFacts,
    SignOnProvider,
    SyncMode,
    require_admitted,
    roles_after_sync,
    roles_of_groups,
)

logger = logging.getLogger(__name__)

SHORTEST_SESSION = timedelta(minutes=1)
CLAIM_LIFE = timedelta(seconds=30)  # longer than a provider may take to answer
MAX_CHECKS = 1000  # of one run


def configured_providers() -> Mapping[str, SignOnProvider]:
    """The providers of the operator's settings by name."""
    return {provider.name: provider for provider in sign_on_providers()}


def get_provider(name: str) -> OpenIdProvider:
    """One provider to which browsers are sent. Raises NotFound."""
    found = configured_providers().get(name)
    if not isinstance(found, OpenIdProvider):
        raise NotFound(f"There is no identity provider {name[:100]}.")
    return found


def configured_directories() -> list[LdapDirectory]:
    """The directories that check passwords, in the order of the settings."""
    return [each for each in configured_providers().values() if isinstance(each, LdapDirectory)]


def sign_on_by_password(*, username: str, password: str) -> User | None:
    """Let a person in whose name and password are right in one of the directories, which are searched one after
    another; None if they are in none. Raises as :func:`sign_on`; Ambiguous; Busy and Throttled if one did not
    answer."""
    unanswered: Busy | Throttled | None = None
    for directory in configured_directories():
        try:
            facts = directories.check_password(directory, username, password)
        except (Busy, Throttled) as refusal:
            unanswered = unanswered or refusal
            continue
        if facts is not None:
            return sign_on(provider=directory, facts=facts)
    if unanswered is not None:
        raise unanswered
    return None


def sign_on_actor(provider: SignOnProvider) -> Actor:
    """The actor of changes that follow from a provider. No user can have such a name."""
    return Actor(username=f"{SIGN_ON_ACTOR}{provider.name}", is_system=True)


def sign_on(*, provider: SignOnProvider, facts: ProviderFacts, link_to: str | None = None) -> User:
    """Let a person in whom the provider has stated; make an account on the first time. `link_to` is the account
    whose owner wants to link it with the person's account at the provider.

    Raises Forbidden (account disabled, no admitted group), Conflict (an account of that name is not linked, or the
    person is linked with another account), BadInput (a name that no account can have).
    """
    require_admitted(provider, facts.groups)
    actor = sign_on_actor(provider)
    with change(actor=actor):
        identity = SignOnIdentity.objects.filter(issuer=facts.issuer, subject=facts.subject).first()
        if link_to is not None:
            identity = _link(provider, facts, identity, link_to)
        elif identity is None:
            identity = _link(provider, facts, None, _make_account(actor, facts).username)
        user = lock_user(identity.user.username)
        if user is None or not user.is_active:
            raise Forbidden.of([Violation("", Fault.ACCOUNT_DISABLED, "This account is disabled. Ask an osmo-admin.")])
        _confirm(provider, facts, identity.pk, is_new=True)
        if facts.email and user.email != facts.email:
            user.email = facts.email
            user.save(update_fields=["email"])
        _sync_roles(user, actor)
        user.sign_on_epoch = sign_on_epoch(user)
    if not facts.is_renewable:
        logger.warning(
            "%s gave no refresh token for %s, so it cannot confirm this person again; docs/sign-on.md names the "
            "ways to get one.",
            provider.name,
            user.username,
        )
    return user


def link_by_password(*, directory: LdapDirectory, username: str, password: str, link_to: str) -> bool:
    """Link the account `link_to` with the person whose name and password are right in the directory. False if they are
    wrong. Raises as :func:`sign_on_by_password`."""
    facts = directories.check_password(directory, username, password)
    if facts is None:
        return False
    sign_on(provider=directory, facts=facts, link_to=link_to)
    return True


def check_due_identities() -> None:
    """Ask the providers again about everybody whose last confirmation is older than the interval: the roles follow the
    groups, and a person who may no longer sign on there has no groups, and no session here. This includes people
    without a session, because their access tokens have their roles. A provider that does not answer leaves a sign-on
    as it is, until it is no longer valid."""
    if not (providers := configured_providers()):
        return
    by_token = ~Q(refresh_token="")
    by_name = Q(provider__in=[directory.name for directory in configured_directories()])
    due = (
        SignOnIdentity.objects.filter(by_token | by_name, provider__in=providers, user__is_active=True)
        # A check that is ahead was made before the clock was set back.
        .exclude(checked_at__range=(Now() - _check_pause(), Now()))
        .exclude(_is_claimed())
        .order_by("checked_at")
    )
    _end_unrenewable(providers)
    unreachable: set[str] = set()
    with ExitStack() as connections:
        opened = _OpenDirectories(connections)
        for pk, name, username in due.values_list("pk", "provider", "user__username")[:MAX_CHECKS]:
            with left_out_on_error("the check of a sign-on", f"{username} at {name}"):
                if name not in unreachable and not _check_identity(pk, providers[name], opened):
                    unreachable.add(name)


def _check_pause() -> timedelta:
    return timedelta(seconds=settings.OSMO.sign_on_check_interval / 2)


def _is_claimed() -> Q:
    """Another process asks, or this one makes a pause. A later end is from before the clock was set back."""
    return Q(claimed_until__gt=Now(), claimed_until__lte=Now() + max(CLAIM_LIFE, _check_pause()))


def _end_unrenewable(providers: Mapping[str, SignOnProvider]) -> None:
    """No provider confirms people without a refresh token again, so their groups count as long as their sign-on."""
    exact = [each.name for each in providers.values() if isinstance(each, OpenIdProvider) and _is_exact(each)]
    over = SignOnIdentity.objects.filter(provider__in=exact, refresh_token="", valid_until__lte=Now())
    rows = over.exclude(groups=[]).filter(user__is_active=True)
    for pk, name, username in rows.values_list("pk", "provider", "user__username")[:MAX_CHECKS]:
        with left_out_on_error("the end of a sign-on", f"{username} at {name}"):
            title = providers[name].title
            _take_away(pk, providers[name], reason=f"The sign-on is over, and {title} cannot confirm it again.")


def _is_exact(provider: SignOnProvider) -> bool:
    return provider.sync is SyncMode.FORCE


class _OpenDirectories:
    """The directories that one run asks, each with one connection."""

    def __init__(self, connections: ExitStack) -> None:
        self._connections = connections
        self._known: dict[str, Callable[[str], ProviderFacts]] = {}

    def read_person(self, directory: LdapDirectory, subject: str) -> ProviderFacts:
        """As the function of `people_of`."""
        if directory.name not in self._known:
            self._known[directory.name] = self._connections.enter_context(directories.people_of(directory))
        return self._known[directory.name](subject)


def _check_identity(pk: int, provider: SignOnProvider, opened: _OpenDirectories) -> bool:
    """Ask the provider about one sign-on. False if it does not answer."""
    claimed = SignOnIdentity.objects.filter(pk=pk).exclude(_is_claimed())
    if not claimed.update(claimed_until=Now() + CLAIM_LIFE):
        return True  # another process asks
    identity = SignOnIdentity.objects.select_related("user").get(pk=pk)
    try:
        facts = _ask_again(provider, identity, opened)
        require_admitted(provider, facts.groups)
    except (Busy, Throttled):
        SignOnIdentity.objects.filter(pk=pk).update(claimed_until=None)
        return False
    except UnreadableSecret as problem:
        logger.warning("%s cannot be queried about %s: %s", provider.name, identity.user, problem)
        _pause(identity)  # another process may have the key
    except Forbidden as refusal:
        if _is_about_person(refusal):
            _take_away(pk, provider, reason=str(refusal))
        else:
            logger.warning("Nothing usable is known of %s at %s: %s", identity.user, provider.name, refusal)
            next_token = refusal.refresh_token if isinstance(refusal, openid.UnusableAnswer) else ""
            _postpone(provider, identity, next_token)
    except Exception:
        _postpone(provider, identity)
        raise
    else:
        _record_answer(provider, facts, identity)
    return True


def _is_about_person(refusal: Forbidden) -> bool:
    """Whether the provider has refused this person. Anything else, as an answer that cannot be read or a signature that
    is not valid, counts as no answer."""
    codes = {each.code for each in refusal.violations}
    return isinstance(refusal, openid.Refused | directories.Gone) or bool(
        codes & {Fault.NOT_ADMITTED, Fault.WRONG_SUBJECT}
    )


def _pause(identity: SignOnIdentity) -> None:
    """Ask about the others first."""
    SignOnIdentity.objects.filter(pk=identity.pk).update(claimed_until=Now() + _check_pause())


def _postpone(provider: SignOnProvider, identity: SignOnIdentity, next_token: str = "") -> None:
    """The answer about one person was of no use. With the grace ends what began with the sign-on, and what the groups
    gave, until a later answer confirms it. `next_token` replaces a refresh token that is used up."""
    rows = SignOnIdentity.objects.filter(pk=identity.pk)
    if next_token:
        rows.update(refresh_token=seal(next_token))
    grace = timedelta(seconds=settings.OSMO.sign_on_grace)
    if _is_exact(provider) and rows.filter(checked_at__lte=Now() - grace).exclude(groups=[]).exists():
        reason = f"{provider.title} has not confirmed this person for {grace.total_seconds():.0f} seconds."
        _take_away(identity.pk, provider, reason=reason, is_final=False)
    _pause(identity)


def _record_answer(provider: SignOnProvider, facts: ProviderFacts, identity: SignOnIdentity) -> None:
    try:
        _record_confirmation(provider, facts, identity.pk)
    except Exception as error:
        if isinstance(error, Busy):  # the next run writes it
            SignOnIdentity.objects.filter(pk=identity.pk).update(claimed_until=None)
        else:
            _postpone(provider, identity, facts.refresh_token)
        raise


def end_sign_on(pk: int, provider: SignOnProvider, *, reason: str) -> None:
    """End what began with this sign-on: browser sessions and the tokens of client logins. The roles follow the groups
    as before: the provider confirms the person by the refresh token, which is kept for that."""
    with change(actor=sign_on_actor(provider), description=reason[:500]):
        identity = SignOnIdentity.objects.select_related("user").filter(pk=pk).first()
        if identity is None:
            return
        lock_user(identity.user.username)
        SignOnIdentity.objects.filter(pk=pk).update(
            epoch=F("epoch") + 1,
            valid_until=Now(),
            session_until=Now(),
            id_token="",
            session_id="",
            claimed_until=None,
        )
        AccessToken.objects.filter(identity_id=pk).delete()


def _ask_again(provider: SignOnProvider, identity: SignOnIdentity, opened: _OpenDirectories) -> ProviderFacts:
    if isinstance(provider, LdapDirectory):
        return opened.read_person(provider, identity.subject)
    assert isinstance(provider, OpenIdProvider)
    return openid.refresh(provider, unseal(identity.refresh_token), identity.subject)


def _take_away(pk: int, provider: SignOnProvider, *, reason: str, is_final: bool = True) -> None:
    """The provider no longer lets this person in: they have no groups, and what began with a sign-on ends, once. Unless
    it is final, the provider gets another request, and the person has not been confirmed."""
    actor = sign_on_actor(provider)
    with change(actor=actor, description=reason[:500]):
        identity = SignOnIdentity.objects.select_related("user").filter(pk=pk).first()
        user = lock_user(identity.user.username) if identity else None
        if identity is None or user is None:
            return
        values: dict[str, Any] = {"groups": []}
        if is_final:
            values |= {"checked_at": Now(), "claimed_until": None, "refresh_token": ""}
        SignOnIdentity.objects.filter(pk=pk).update(**values)
        _sync_roles(user, actor, description=reason[:500])
        if SignOnIdentity.objects.filter(pk=pk, session_until__gt=Now()).exists():
            end_sign_on(pk, provider, reason=reason)


def end_by_provider(provider: SignOnProvider, subject: str, session_id: str) -> int:
    """End the sign-ons that the provider names (back-channel logout); returns their number. Raises Busy if one of them
    did not end."""
    rows = SignOnIdentity.objects.filter(issuer=provider.issuer)
    rows = rows.filter(subject=subject) if subject else rows.filter(session_id=session_id)
    found = list(rows.values_list("pk", flat=True))
    ended = 0
    for pk in found:
        with left_out_on_error("the end of a sign-on", pk):
            end_sign_on(pk, provider, reason=f"{provider.title} ended the session.")
            ended += 1
    if ended < len(found):
        raise Busy(f"{len(found) - ended} of {len(found)} sign-ons did not end. Send it again.", retry_after=5)
    return ended


def unlink(command: UnlinkUser, *, actor: Actor, description: str = "") -> None:
    """Part an account from its account at a provider, for an osmo-admin. What began with it ends. Raises NotFound."""
    require_platform(actor)
    username, provider = command.username, command.provider
    with change(actor=actor, description=description):
        user = lock_user(username)
        found = SignOnIdentity.objects.filter(user=user, provider=provider) if user else SignOnIdentity.objects.none()
        if not found.exists():
            raise NotFound(f"User {username} is not linked with {provider}.")
        found.delete()


def _link(
    provider: SignOnProvider, facts: ProviderFacts, known: SignOnIdentity | None, username: str
) -> SignOnIdentity:
    user = lock_user(username)
    if user is None or not user.is_active:
        raise NotFound(f"User {username} does not exist, or the account is disabled.")
    if known is not None and known.user_id != user.pk:
        raise _conflict(
            Fault.LINKED_ELSEWHERE,
            f"Your account at {provider.title} belongs to the user {known.user.username} here, not to {username}.",
        )
    if known is not None:
        return known
    if SignOnIdentity.objects.filter(user=user, provider=provider.name).exists():
        raise _conflict(
            Fault.LINKED_ALREADY,
            f"{username} is linked with another account at {provider.title}; an osmo-admin can part them.",
        )
    return SignOnIdentity.objects.create(
        user=user,
        provider=provider.name,
        issuer=facts.issuer,
        subject=facts.subject,
        groups=list(facts.groups),
        epoch=int(time.time()),  # unlike that of a former link, so that no session of the former one is valid again
    )


def _make_account(actor: Actor, facts: ProviderFacts) -> User:
    """A new account, unless one of a similar name exists: a name does not prove who a person is."""
    existing = User.objects.filter(username__iexact=facts.username).order_by("-is_active", "is_removed").first()
    if existing is not None and not existing.is_removed:
        raise _conflict(
            Fault.ACCOUNT_NOT_LINKED,
            f"An account {existing.username} exists already and is not linked with your account at the provider. Log "
            "in with its password and link the two on its page, or ask an osmo-admin to rename or remove it.",
        )
    try:
        return create_user(CreateUser(id=facts.username), actor=actor)
    except BadInput as refusal:
        message = (
            f"The name that the provider gives you cannot be the name of an account here. {refusal.message} An "
            "operator can take the name from elsewhere (setting USERNAME_CLAIM or USERNAME_ATTRIBUTE)."
        )
        raise BadInput.of([Violation("username", Fault.BAD_USERNAME, message)]) from refusal


def _confirm(provider: SignOnProvider, facts: ProviderFacts, pk: int, *, is_new: bool) -> None:
    """Write what the provider has stated now. A sign-on that cannot be renewed is valid as long as the statement."""
    grace = timedelta(seconds=settings.OSMO.sign_on_grace)
    until: Any = F("session_until")
    values: dict[str, Any] = {}
    if is_new:
        until = Now() + timedelta(seconds=provider.session_seconds)
        if not facts.is_renewable:
            until = Least(until, Now() + max(timedelta(seconds=facts.lifetime), SHORTEST_SESSION))
        values |= {"session_until": until, "signed_on_at": Now()}
    if facts.id_token:
        values["id_token"] = seal(facts.id_token)
    if facts.session_id:
        values["session_id"] = facts.session_id
    SignOnIdentity.objects.filter(pk=pk).update(
        provider=provider.name,
        username=facts.username,
        email=facts.email,
        groups=list(facts.groups),
        checked_at=Now(),
        valid_until=Least(until, Now() + grace) if facts.is_renewable else until,
        refresh_token=seal(facts.refresh_token) if facts.refresh_token else "",
        claimed_until=None,
        **values,
    )


def _record_confirmation(provider: SignOnProvider, facts: ProviderFacts, pk: int) -> None:
    actor = sign_on_actor(provider)
    with change(actor=actor, description="groups read again"):
        identity = SignOnIdentity.objects.select_related("user").filter(pk=pk).first()
        if identity is None or (isinstance(provider, OpenIdProvider) and not identity.refresh_token):
            return  # ended or parted meanwhile
        user = lock_user(identity.user.username)
        if user is None:
            return
        _confirm(provider, facts, pk, is_new=False)
        _sync_roles(user, actor)


def _sync_roles(user: User, actor: Actor, *, description: str = "") -> None:
    """Bring the roles of a locked account in step with the groups of its identities. A role that does not exist yet is
    skipped, the last osmo-admin keeps the role, and a role that Git owns stays as its file has it: each is logged."""
    providers = configured_providers()
    given = [
        (provider.sync, roles_of_groups(provider, identity.groups))
        for identity in SignOnIdentity.objects.filter(user=user)
        if (provider := providers.get(identity.provider)) is not None
    ]
    held = user.as_actor().roles
    wanted = roles_after_sync(held, given)
    owned = owned_names(OwnedKind.ROLE, wanted ^ held)
    for role in sorted(owned):
        logger.warning("Git owns the role %s, so the groups of %s do not change it.", role, user.username)
    for role in sorted(wanted - held - owned):
        if role_violations([role]):
            logger.warning("A group gives %s the role %s, which does not exist.", user.username, role)
            continue
        grant_role(GrantRole(username=user.username, role_name=role), actor=actor, description=description)
    for role in sorted(held - wanted - owned):
        try:
            revoke_role(RevokeRole(username=user.username, role_name=role), actor=actor, description=description)
        except Conflict as refusal:
            logger.warning("%s", refusal.message)


def _conflict(code: Fault, message: str) -> DomainError:
    return Conflict.of([Violation("username", code, message)])
