"""Logins of clients with a name and a password: that of a directory, or one of our own."""

from __future__ import annotations

from typing import TypedDict

from axes.helpers import get_client_ip_address
from django.conf import settings
from django.contrib.auth import authenticate
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.request_parsing import body_object, reject_unknown_keys
from pools.api.schema import TEXT, ZonedText, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, Fault, Unauthenticated, Violation
from pools.services.people.client_logins import finish_password_login
from pools.services.people.password_logins import require_own_password_allowed
from pools.services.people.users import record_password_login
from pools.sign_on.backend import SignOnBackend, refusal_of
from pools.sign_on.identities import current_identity

FIELDS = ("username", "password", "client_name")
DIRECTORY_BACKEND = f"{SignOnBackend.__module__}.{SignOnBackend.__qualname__}"


class PasswordLoginAnswer(TypedDict):
    """The token of a client that has logged in."""

    token: str | None
    token_name: str | None
    expires_at: ZonedText | None


class ClientPasswordLogin(View):
    """A client that logs in with a password. Failed logins are limited as in the login form."""

    authentication_classes = ()
    permission_classes = ()

    @describe_operation(
        "Log in a client with a name and a password, of a directory or of an account here; the answer has its token.",
        body=object_with(dict.fromkeys(FIELDS, TEXT), required=["username", "password"]),
        answer=PasswordLoginAnswer,
        is_anonymous=True,
        extra_statuses=(401, 403, 409, 429, 503),
    )
    def post(self, request: Request) -> Response:
        body = body_object(request)
        reject_unknown_keys(body, *FIELDS)
        values = {name: body.get(name, "" if name == "client_name" else None) for name in FIELDS}
        if wrong := [name for name, value in values.items() if not isinstance(value, str)]:
            raise BadInput.of([Violation(name, Fault.BAD_TYPE, f"{name} is missing or no text.") for name in wrong])
        plain = request._request
        user = authenticate(plain, username=values["username"], password=values["password"])
        if user is None:
            raise refusal_of(plain) or Unauthenticated("Wrong name or password.")
        identity = None
        if user.backend == DIRECTORY_BACKEND:
            identity = current_identity(user)
        else:
            require_own_password_allowed(user)
            if settings.OSMO.sign_on_providers:
                record_password_login(user)
        outcome = finish_password_login(
            user=user,
            identity=identity,
            client_name=str(values["client_name"]),
            address=get_client_ip_address(plain) or "",
        )
        answer: PasswordLoginAnswer = {
            "token": outcome.secret,
            "token_name": outcome.token_name,
            "expires_at": zoned_text(outcome.expires_at),
        }
        return Response(answer)
