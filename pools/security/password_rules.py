"""The rule on names among Django's password validators."""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError

from pools.domain.people.passwords import follows_from_name


class NotTheNameValidator:
    """Refuse a password that follows from the name of its user. Django's own check of similarity compares lengths, too,
    and lets `doradora` pass for `dora`."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Raises ValidationError."""
        if user is not None and follows_from_name(password, user.get_username()):
            raise ValidationError(
                f"The password follows from the name {user.get_username()} (it contains the name, a part of it, or the "
                "name backwards). Choose one without it.",
                code="password_follows_from_name",
            )

    def get_help_text(self) -> str:
        """The rule as a sentence, for forms."""
        return "The password does not contain the user's name."
