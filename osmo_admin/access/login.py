"""The login form, and the answer after too many failed logins.

The settings name both, so this module is loaded before the pages and imports none of them.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse

from osmo_admin.env import PasswordLogin
from pools.domain.errors import DomainError


class LoginForm(AuthenticationForm):
    """Name and password. Django's own form for the admin would ask for the staff flag."""

    error_messages = {
        "invalid_login": "Wrong name or password. Both are case-sensitive. An account without a "
        "password signs in by access token, on the command line.",
        "inactive": "This account is disabled. Ask an osmo-admin.",
    }

    refusal: DomainError | None = None
    """Why no password was checked, or the person of a right one is refused."""

    def clean(self) -> dict[str, Any]:
        """Check the password; a refusal is an error of the form."""
        try:
            return super().clean()
        except DomainError as refusal:
            raise self._refused(refusal) from refusal

    def get_invalid_login_error(self) -> ValidationError:
        """As Django's, unless a directory has said more."""
        from pools.sign_on.backend import refusal_of  # noqa: PLC0415  # models, which are loaded later

        refusal = refusal_of(self.request)
        return super().get_invalid_login_error() if refusal is None else self._refused(refusal)

    def confirm_login_allowed(self, user: Any) -> None:
        """As Django's, and our rule on our own passwords."""
        from osmo_admin.access.provider_pages import BACKEND  # noqa: PLC0415  # as above
        from pools.services.people.password_logins import require_own_password_allowed  # noqa: PLC0415  # as above

        super().confirm_login_allowed(user)
        if user.backend == BACKEND:
            return
        try:
            require_own_password_allowed(user)
        except DomainError as refusal:
            raise ValidationError(refusal.message, code="not_by_password") from refusal

    def _refused(self, refusal: DomainError) -> ValidationError:
        self.refusal = refusal
        return ValidationError(refusal.message, code="refused")


def login_choices(request: HttpRequest) -> dict[str, Any]:
    """The ways to log in that the page offers in addition to the password."""
    from osmo_admin.access.provider_pages import directory_titles, provider_buttons  # noqa: PLC0415  # pages, which are loaded later

    target = request.GET.get(REDIRECT_FIELD_NAME) or request.POST.get(REDIRECT_FIELD_NAME) or ""
    here = request.get_full_path() if request.path != reverse("admin:login") else ""
    return {
        "providers": provider_buttons(target or here),
        "directories": directory_titles(),
        "is_password_for_admins": settings.OSMO.password_login is PasswordLogin.ADMINS,
    }
