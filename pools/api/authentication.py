"""Authentication of API requests: a Bearer JWT, the browser's session, or in dev mode a plain header."""

from __future__ import annotations

from django.conf import settings
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from pools.domain.people.roles import Actor
from pools.models import AccessToken, User
from pools.security.tokens import find_token, verify_jwt

SESSION_ADVICE = "POST /api/auth/jwt/access_token gives one for an access token."
_DOTS_OF_JWT = 2
DEV_HEADER = "x-osmo-user"


class BearerAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer <JWT>` from `POST /api/auth/jwt/access_token`."""

    def authenticate(self, request: Request) -> tuple[User, AccessToken] | None:
        kind, _, encoded = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        token = verify_jwt(encoded.strip())
        if token is None and encoded.count(".") != _DOTS_OF_JWT:
            raise exceptions.AuthenticationFailed(f"This is not the token of a session: {SESSION_ADVICE}")
        if token is None:
            raise exceptions.AuthenticationFailed("The login has expired or was revoked. Log in again.")
        return token.owner, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AccessTokenAuthentication(BearerAuthentication):
    """`Authorization: Bearer <access token>`, or a JWT: for programs that cannot exchange a token for a JWT, such as a
    scraper of metrics."""

    def authenticate(self, request: Request) -> tuple[User, AccessToken] | None:
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        token = find_token(secret.strip()) if kind.lower() == "bearer" else None
        return (token.owner, token) if token else super().authenticate(request)


class DevHeaderAuthentication(authentication.BaseAuthentication):
    """`x-osmo-user: NAME`, believed only when the server was started in dev mode; ignored otherwise."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        name = request.headers.get(DEV_HEADER)
        if not settings.DEV_LOGIN or not name:
            return None
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise exceptions.AuthenticationFailed("There is no such user.")
        return user, None


class SessionAuthentication(authentication.SessionAuthentication):
    """The browser's login, with its CSRF check."""


def actor_of(request: Request) -> Actor:
    """The authenticated caller as the policy sees it, looked up once per request."""
    known = getattr(request, "_osmo_actor", None)
    if known is None:
        user, token = request.user, request.auth
        assert isinstance(user, User), "views that ask for the actor require a login"
        known = user.as_actor(token=token if isinstance(token, AccessToken) else None)
        request._osmo_actor = known  # type: ignore[attr-defined]
    return known
