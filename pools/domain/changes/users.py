"""Changes of users and of their roles (design, O3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import BOOLEAN, NAME, SECRET, TEXTS, in_address, value

_ROLE_HELP = "osmo-admin, osmo-viewer, osmo-POOL-admin or osmo-POOL-user."


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange(ChangeCommand):
    """A change of one user."""

    permission: ClassVar[Permission | None] = Permission.PLATFORM_WRITE
    needs_version: ClassVar = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUser(UserChange):
    """Create a user, or restore a removed one."""

    service: ClassVar = "create_user"
    audit: ClassVar = (AuditAction.USER_CREATED, AuditAction.USER_PASSWORD_CHANGED, AuditAction.ROLE_GRANTED)

    id: str = value(NAME, "Name", "Name of the user: letters, digits and @ . + - _.", metavar="USER", positional=True)
    roles: Collection[str] = value(TEXTS, "Roles", _ROLE_HELP, default=(), metavar="ROLE...", short="-r")

    @property
    def username(self) -> str:
        """The name, in the word of the other changes."""
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedUserChange(UserChange):
    """A change of a user that exists."""

    username: str = in_address("USER", "User", "Name of the user.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUser(NamedUserChange):
    """Remove a user with roles and tokens; the work of the user stays."""

    service: ClassVar = "delete_user"
    audit: ClassVar = (
        AuditAction.USER_DELETED,
        AuditAction.USER_PASSWORD_CHANGED,
        AuditAction.ROLE_REVOKED,
        AuditAction.TOKEN_DELETED,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRoles(NamedUserChange):
    """Give a user exactly these roles."""

    service: ClassVar = "set_roles"
    audit: ClassVar = (AuditAction.ROLE_GRANTED, AuditAction.ROLE_REVOKED)

    roles: Collection[str] = value(TEXTS, "Roles", _ROLE_HELP)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRole(NamedUserChange):
    """Give a role to a user; giving it again is allowed."""

    service: ClassVar = "grant_role"
    audit: ClassVar = (AuditAction.ROLE_GRANTED,)

    role_name: str = value(NAME, "Role", _ROLE_HELP, metavar="ROLE", positional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeRole(NamedUserChange):
    """Remove a role from a user, and from every token that carries it."""

    service: ClassVar = "revoke_role"
    audit: ClassVar = (AuditAction.ROLE_REVOKED,)

    role_name: str = in_address("ROLE", "Role", _ROLE_HELP)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetActive(NamedUserChange):
    """Disable an account, or enable it; roles, tokens and work stay."""

    service: ClassVar = "set_active"
    audit: ClassVar = (AuditAction.USER_UPDATED,)

    active: bool = value(BOOLEAN, "Enabled", "Whether the user can sign in.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPassword(NamedUserChange):
    """Give a user another password; open sessions end. Users may change their own."""

    service: ClassVar = "set_password"
    audit: ClassVar = (AuditAction.USER_PASSWORD_CHANGED,)
    permission: ClassVar = None

    password: str = value(
        SECRET, "New password", "At least 8 characters; not a common one, and without the user's name."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlinkUser(NamedUserChange):
    """Part a user from an account at an identity provider; sessions and client logins that began there end."""

    service: ClassVar = "unlink"
    audit: ClassVar = (AuditAction.SIGN_ON_UNLINKED,)

    provider: str = in_address("PROVIDER", "Provider", "Name of the identity provider.")
