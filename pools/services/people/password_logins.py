"""The right to log in with a password of our own: one rule for the login form and for clients."""

from __future__ import annotations

from django.conf import settings

from pools.domain.errors import Fault, Forbidden, Violation
from pools.domain.people.roles import PLATFORM_ADMIN
from pools.models import User


def require_own_password_allowed(user: User) -> None:
    """Where people sign on through a provider, the operator may keep our own passwords to admins, for the day on which
    the provider does not answer. Raises Forbidden."""
    if settings.OSMO.password_login == "admins" and PLATFORM_ADMIN not in user.as_actor().roles:  # noqa: S105
        message = "Only an osmo-admin logs in with a password here. Sign on through a provider."
        raise Forbidden.of([Violation("password", Fault.NOT_BY_PASSWORD, message)])
