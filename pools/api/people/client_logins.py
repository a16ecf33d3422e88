"""Logins of clients with consent in the browser."""

from __future__ import annotations

from typing import TypedDict

from axes.helpers import get_client_ip_address
from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.request_parsing import body_object, reject_unknown_keys
from pools.api.schema import TEXT, ZonedText, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, Fault, Violation
from pools.services.people.client_logins import INTERVAL, LIFETIME, finish_client_login, start_client_login

PAGE = "/client-login/"


class ClientLoginAnswer(TypedDict):
    """A login that a person consents to at `verification_uri`; the times are seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class ClientTokenAnswer(TypedDict):
    """What has become of a login; only one answer has the token."""

    status: str
    token: str | None
    token_name: str | None
    expires_at: ZonedText | None


class ClientLoginList(View):
    """A client that begins to log in."""

    authentication_classes = ()
    permission_classes = ()

    @describe_operation(
        "Begin the login of a client: the person consents at `verification_uri`.",
        body=object_with({"client_name": TEXT}),
        answer=ClientLoginAnswer,
        is_anonymous=True,
        extra_statuses=(429,),
    )
    def post(self, request: Request) -> Response:
        body = body_object(request)
        reject_unknown_keys(body, "client_name")
        name = body.get("client_name", "")
        if not isinstance(name, str):
            raise BadInput.of([Violation("client_name", Fault.BAD_TYPE, "client_name is a text.")])
        login, secret = start_client_login(client_name=name, address=get_client_ip_address(request._request) or "")
        page = f"{settings.OSMO.public_url or request.build_absolute_uri('/').rstrip('/')}{PAGE}"
        answer: ClientLoginAnswer = {
            "device_code": secret,
            "user_code": login.user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?code={login.user_code}",
            "expires_in": round(LIFETIME.total_seconds()),
            "interval": INTERVAL,
        }
        return Response(answer)


class ClientLoginToken(View):
    """The client asks what has become of its login."""

    authentication_classes = ()
    permission_classes = ()

    @describe_operation(
        "The state of the login of a client: pending, approved, denied or expired. Only one answer has the token.",
        body=object_with({"device_code": TEXT}),
        answer=ClientTokenAnswer,
        is_anonymous=True,
        extra_statuses=(409,),
    )
    def post(self, request: Request) -> Response:
        body = body_object(request)
        reject_unknown_keys(body, "device_code")
        secret = body.get("device_code")
        if not isinstance(secret, str) or not secret:
            raise BadInput.of(
                [Violation("device_code", Fault.MISSING, "device_code is missing: send the client's own.")]
            )
        outcome = finish_client_login(secret=secret)
        answer: ClientTokenAnswer = {
            "status": outcome.state.value,
            "token": outcome.secret,
            "token_name": outcome.token_name,
            "expires_at": zoned_text(outcome.expires_at),
        }
        return Response(answer)
