"""Changes of access tokens (design, O3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.structured_input.declared_values import DAY, TEXT, TEXTS, in_address, value


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChange(ChangeCommand):
    """A change of one token of a user."""

    permission: ClassVar = None
    needs_version: ClassVar = False

    name: str = in_address("NAME", "Name", "Name of the token: a letter first, then letters, digits, - and _.")
    owner: str = in_address("USER", "User", "Owner of the token.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(TokenChange):
    """Create an access token. Only this answer contains its secret."""

    service: ClassVar = "create_token"
    audit: ClassVar = (AuditAction.TOKEN_CREATED,)

    expires_at: datetime | None = value(
        DAY,
        "Expires at",
        "The day (UTC) on which the token expires, at most a year away; 31 days from now if not given.",
        default=None,
        metavar="YYYY-MM-DD",
        short="-e",
        in_query=True,
    )
    description: str = value(TEXT, "Description", "The purpose of the token.", default="", short="-d", in_query=True)
    roles: Collection[str] | None = value(
        TEXTS,
        "Only these roles",
        "Only these of the owner's roles; if none is given, all that the owner has at the time of use.",
        default=None,
        metavar="ROLE...",
        short="-r",
        in_query=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteToken(TokenChange):
    """Delete an access token and the tokens made with it; their sessions end at once."""

    service: ClassVar = "delete_token"
    audit: ClassVar = (AuditAction.TOKEN_DELETED,)
