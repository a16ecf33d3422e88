"""Logins of clients (`osmo login`): with consent in the browser, as the device flow of OAuth (RFC 8628), or with a
password that was checked before.

With consent, a client asks for a code, the person types it (or follows the link) in a browser that is logged in, and
consents; the client, which asks meanwhile, gets an access token of its own, once. With a browser session that began at
an identity provider, the token is valid as long as that sign-on is.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models.functions import Now
from django.utils import timezone

from pools.database.transactions import change, database_time
from pools.domain.changes.tokens import CreateToken
from pools.domain.errors import BadInput, DomainError, Fault, NotFound, Throttled, Violation
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import AccessToken, ClientLogin, SignOnIdentity, User
from pools.security.tokens import new_secret, secret_digest
from pools.services.people.access_tokens import DEFAULT_LIFETIME, create_token

LIFETIME = timedelta(minutes=10)
INTERVAL = 2  # seconds between two questions of a client
MAX_OPEN = 1000  # logins that wait, of all clients
MAX_OPEN_OF_ADDRESS = 20
CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: a code is not a word; 20⁸ codes
MAX_NAME = 64


class LoginState(StrEnum):
    """What has become of a login."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class LoginOutcome:
    """The state; when approved, the secret of the new token, its name and its end."""

    state: LoginState
    secret: str | None = None
    token_name: str | None = None
    expires_at: datetime | None = None


def start_client_login(*, client_name: str, address: str) -> tuple[ClientLogin, str]:
    """(login, secret of the client). `client_name` is what the client says of itself, `address` where it is. Raises
    Throttled when too many wait, BadInput."""
    _require_client_name(client_name)
    secret = new_secret()
    with change(actor=SYSTEM):
        ClientLogin.objects.filter(expires_at__lte=Now()).delete()
        waiting = ClientLogin.objects.all()
        if waiting.count() >= MAX_OPEN or waiting.filter(address=address).count() >= MAX_OPEN_OF_ADDRESS:
            raise _too_many()
        login = ClientLogin.objects.create(
            digest=secret_digest(secret),
            user_code=_new_code(),
            client_name=client_name,
            address=address,
            expires_at=database_time() + LIFETIME,
        )
    return login, secret


def find_client_login(user_code: str) -> ClientLogin:
    """The login that waits with this code, written in any way. Raises NotFound."""
    found = ClientLogin.objects.filter(
        user_code=_plain_code(user_code), expires_at__gt=Now(), user=None, is_denied=False
    ).first()
    if found is None:
        raise NotFound(
            "No client waits with this code. A code is valid once, for 10 minutes: start again in the client."
        )
    return found


def answer_client_login(*, actor: Actor, user_code: str, is_approved: bool, identity: SignOnIdentity | None) -> None:
    """Consent to a login, or deny it. `identity` is that of the actor's browser session. Raises NotFound."""
    with change(actor=actor):
        login = find_client_login(user_code)
        values = {"user_id": actor.user_id, "identity": identity} if is_approved else {"is_denied": True}
        if not ClientLogin.objects.filter(pk=login.pk, user=None, is_denied=False).update(**values):
            raise NotFound("This login was answered meanwhile.")


def finish_client_login(*, secret: str) -> LoginOutcome:
    """What has become of the login of this client; the approved one gives its token once. Raises Throttled when its
    user has too many tokens."""
    login = (
        ClientLogin.objects.select_related("user", "identity")
        .filter(digest=secret_digest(secret), expires_at__gt=Now())
        .first()
    )
    if login is None:
        return LoginOutcome(LoginState.EXPIRED)
    if login.is_denied:
        return LoginOutcome(LoginState.DENIED)
    if login.user is None:
        return LoginOutcome(LoginState.PENDING)
    owner: User = login.user
    actor = Actor(username=owner.username, user_id=owner.pk)
    with change(actor=actor):
        gone, _ = ClientLogin.objects.filter(pk=login.pk).delete()
        if not gone or not owner.is_active:
            return LoginOutcome(LoginState.EXPIRED)
        return _approved(owner, login.identity, login.client_name, login.address)


def finish_password_login(
    *, user: User, identity: SignOnIdentity | None, client_name: str, address: str
) -> LoginOutcome:
    """The token of a client whose person has given the right password. `identity` is the one of the directory that has
    checked it; None for a password of our own. Raises BadInput, Throttled when the user has too many tokens."""
    _require_client_name(client_name)
    with change(actor=Actor(username=user.username, user_id=user.pk)):
        return _approved(user, identity, client_name, address)


def _approved(owner: User, identity: SignOnIdentity | None, client_name: str, address: str) -> LoginOutcome:
    AccessToken.objects.filter(owner=owner, name__startswith=AccessToken.LOGIN_PREFIX, expires_at__lte=Now()).delete()
    longest = timezone.now() + DEFAULT_LIFETIME
    token, token_secret = create_token(
        CreateToken(
            owner=owner.username,
            name=f"{AccessToken.LOGIN_PREFIX}{secrets.token_hex(4)}",
            description=f"osmo login on {client_name or 'a client'}, from {address}",
            expires_at=longest if identity is None else min(longest, identity.session_until),
        ),
        actor=Actor(username=owner.username, user_id=owner.pk),
        identity_id=identity.pk if identity else None,
    )
    return LoginOutcome(LoginState.APPROVED, token_secret, token.name, token.expires_at)


def _require_client_name(client_name: str) -> None:
    if len(client_name) > MAX_NAME or not client_name.isprintable():
        raise BadInput.of(
            [Violation("client_name", Fault.BAD_NAME, f"client_name has at most {MAX_NAME} characters, all printable.")]
        )


def _new_code() -> str:
    code = "".join(secrets.choice(CODE_LETTERS) for _ in range(8))
    return f"{code[:4]}-{code[4:]}"


def _plain_code(text: str) -> str:
    letters = "".join(character for character in text.upper() if character in CODE_LETTERS)[:8]
    return f"{letters[:4]}-{letters[4:]}"


def _too_many() -> DomainError:
    message = (
        f"Too many clients wait for consent: at most {MAX_OPEN_OF_ADDRESS} of one address and {MAX_OPEN:,} in all are "
        "allowed. Wait a minute, or log in with an access token."
    )
    numbers = (("limit", MAX_OPEN_OF_ADDRESS),)
    return Throttled(message, [Violation("", Fault.TOO_MANY_CLIENT_LOGINS, message, numbers=numbers)], retry_after=60)
