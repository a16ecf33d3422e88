"""The login form, and the answer after too many failed logins.

The settings name both, so this module is loaded before the pages and imports none of them.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from unfold.widgets import BASE_INPUT_CLASSES

from osmo_admin.error_responses import error_body
from osmo_admin.login_limits import is_address_locked
from pools.domain.errors import Throttled


class LoginForm(AuthenticationForm):
    """Name and password. Django's own form for the admin would ask for the staff flag."""

    error_messages = {
        "invalid_login": "Wrong name or password. Both are case-sensitive. An account without a "
        "password signs in by access token, on the command line.",
        "inactive": "This account is disabled. Ask an osmo-admin.",
    }

    refusal: Throttled | None = None
    """Why no password was checked, if none was."""

    def clean(self) -> dict[str, Any]:
        """Check the password; a refusal to check it is an error of the form."""
        try:
            return super().clean()
        except Throttled as refusal:
            self.refusal = refusal
            raise ValidationError(refusal.message, code="throttled") from refusal

    def __init__(self, request: HttpRequest | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        for name in ("username", "password"):
            self.fields[name].widget.attrs["class"] = " ".join(BASE_INPUT_CLASSES)


def lockout_response(
    request: HttpRequest, original: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """The answer after too many failed logins (django-axes): a page for people, the API's error for programs."""
    place = "this address" if is_address_locked(request) else "this name from this address"
    message = f"There were too many failed logins for {place}. Wait 15 minutes, then try again."
    if request.path.startswith("/api/"):
        body = error_body(Throttled(message, retry_after=900))
        return JsonResponse(body, status=429, headers={"Retry-After": "900"})
    context = {"title": "Too many attempts", "message": message}
    response = TemplateResponse(request, "osmo/plain.html", context, status=429)
    response.headers["Retry-After"] = "900"
    return response.render()
