"""Logging in: the addresses for clients, and the exchange of an access token for a session (design, O2)."""

from __future__ import annotations

from typing import TypedDict

from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_cool_off, get_credentials
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import body_object, reject_unknown_keys
from pools.api.schema import TEXT, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, Fault, Throttled, Unauthenticated, Violation
from pools.security import tokens
from pools.services.people.access_tokens import note_token_use

# Failed exchanges of one address are counted together under this name, which no user can have.
FAILURES_COUNTED_AS = "access token"


class LoginInfoAnswer(TypedDict):
    """The addresses of an identity provider; there is none."""

    device_endpoint: str | None
    device_client_id: str | None
    browser_endpoint: str | None
    browser_client_id: str | None
    token_endpoint: str | None
    logout_endpoint: str | None


class SessionAnswer(TypedDict):
    """The token of a session; `expires_at` in seconds since 1970."""

    token: str
    expires_at: int


class LoginInfo(View):
    """The login addresses. There is no identity provider, so every endpoint is null and clients use tokens."""

    authentication_classes = ()
    permission_classes = ()

    @describe_operation("Where to log in.", answer=LoginInfoAnswer, is_anonymous=True)
    def get(self, request: Request) -> Response:
        return Response(dict.fromkeys(LoginInfoAnswer.__annotations__))


class TokenExchange(View):
    """An access token for a session of five minutes.

    After too many failures an address is refused for a while. A valid token still works: its 256 random bits cannot be
    guessed, and the stale token of one person must not lock out everyone behind the same address.
    """

    authentication_classes = ()
    permission_classes = ()

    @describe_operation(
        "Exchange an access token for a session.",
        body=object_with({"token": TEXT}),
        answer=SessionAnswer,
        is_anonymous=True,
        extra_statuses=(401, 429),
    )
    def post(self, request: Request) -> Response:
        body = body_object(request)
        reject_unknown_keys(body, "token")
        secret = body.get("token")
        if not isinstance(secret, str) or not secret:
            raise BadInput.of([Violation("token", Fault.MISSING, "token is missing: send the access token as a text.")])
        token = tokens.find_token(secret)
        if token is None:
            raise self._failure(request)
        note_token_use(token)
        encoded, expires_at = tokens.issue_jwt(token)
        request.auth = token  # the answer warns of its end
        return Response(SessionAnswer(token=encoded, expires_at=expires_at))

    @staticmethod
    def _failure(request: Request) -> Unauthenticated | Throttled:
        """Count a failure; the answer is an error of the login or, after too many, of the rate."""
        credentials, plain = get_credentials(FAILURES_COUNTED_AS), request._request
        if AxesProxyHandler.is_allowed(plain, credentials):
            AxesProxyHandler.user_login_failed(TokenExchange, credentials, plain)
            plain.axes_locked_out = False  # type: ignore[attr-defined]  # this view answers, not the login page
            return Unauthenticated("This access token is not valid: it is wrong, has expired or was deleted.")
        pause = get_cool_off(plain)
        minutes = round(pause.total_seconds() / 60)
        return Throttled(
            f"Too many wrong access tokens came from this address. Wait {minutes} minutes, or use a valid one.",
            retry_after=round(pause.total_seconds()),
        )
