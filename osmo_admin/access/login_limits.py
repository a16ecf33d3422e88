"""Failed logins, counted by name and address, and in a wider limit by address alone.

Without the second limit one address may try one password for each of many names. The first keeps a colleague with a
wrong password from locking out everybody behind the same proxy.
"""

from __future__ import annotations

from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse

from pools.domain.errors import Throttled


class LoginHandler(AxesDatabaseHandler):  # type: ignore[misc]
    """The handler of django-axes with a limit for an address."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """Whether this name at this address, or the address itself, has failed too often within the last minutes."""
        return super().is_locked(request, credentials) or is_address_locked(request)


def is_address_locked(request: HttpRequest) -> bool:
    """Whether the address of the request has failed too often, with any names."""
    failures = AccessAttempt.objects.filter(
        ip_address=request.axes_ip_address,  # type: ignore[attr-defined]  # set by django-axes
        attempt_time__gte=get_cool_off_threshold(request),
    ).aggregate(total=Sum("failures_since_start"))["total"]
    return bool((failures or 0) >= settings.OSMO.max_login_failures)


def lockout_response(
    request: HttpRequest, original: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """The answer after too many failed logins (django-axes): a page for people, the API's error for programs."""
    place = "this address" if is_address_locked(request) else "this name from this address"
    message = f"There were too many failed logins for {place}. Wait 15 minutes, then try again."
    if request.path.startswith("/api/"):
        body = Throttled(message, retry_after=900).as_dict()
        return JsonResponse(body, status=429, headers={"Retry-After": "900"})
    context = {"title": "Too many attempts", "message": message}
    response = TemplateResponse(request, "osmo/plain.html", context, status=429)
    response.headers["Retry-After"] = "900"
    return response.render()
