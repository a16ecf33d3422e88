"""The login backend of browser sessions that began at an identity provider or with a password of a directory."""

from __future__ import annotations

from django.contrib.auth.backends import BaseBackend
from django.http import HttpRequest

from pools.domain.errors import DomainError, ErrorKind
from pools.models import User
from pools.sign_on.identities import find_signed_on_user, sign_on_providers
from pools.sign_on.providers import LdapDirectory

REFUSAL_ATTRIBUTE = "sign_on_refusal"
"""On a request: why a directory let nobody in, where the attempt counts as a failed login nevertheless."""


class SignOnBackend(BaseBackend):
    """Checks passwords of directories, after those of our own accounts, so that these work while no directory answers.
    Reads the user of a session with the request's one query for the user: no user if the sign-on is over."""

    def authenticate(  # type: ignore[override]  # Django leaves out a backend whose parameters do not fit
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None
    ) -> User | None:
        """The user whose name and password are right in a directory. Raises DomainError: the password was right and the
        person is refused, or none was checked. Other refusals are on the request, and count as failed logins."""
        has_directory = any(isinstance(each, LdapDirectory) for each in sign_on_providers())
        if not has_directory or request is None or not username or not password:
            return None
        from pools.sign_on.accounts import sign_on_by_password  # noqa: PLC0415
        from pools.sign_on.directories import Ambiguous  # noqa: PLC0415  # where a directory is configured only

        try:
            return sign_on_by_password(username=username, password=password)
        except DomainError as refusal:
            is_unanswered = refusal.kind in {ErrorKind.BUSY, ErrorKind.THROTTLED}
            if not isinstance(refusal, Ambiguous) and not (is_unanswered and _has_password_here(username)):
                raise
            setattr(request, REFUSAL_ATTRIBUTE, refusal)
            return None

    def get_user(self, user_id: int) -> User | None:
        return find_signed_on_user(user_id)


def refusal_of(request: HttpRequest | None) -> DomainError | None:
    """Why a directory let nobody in, if the login with this request has reached one."""
    return getattr(request, REFUSAL_ATTRIBUTE, None)


def _has_password_here(username: str) -> bool:
    """Whether the password may have been a guess at that of our own account, which must count."""
    user = User.objects.filter(username=username, is_active=True).first()
    return user is not None and user.has_usable_password()
