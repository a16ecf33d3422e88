"""The change of a backend's admission webhooks: their mode, and the accounts that they allow (docs/kubernetes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import BOOLEAN, TEXT, TEXTS, choice, in_address, value
from pools.domain.structured_input.fields import FieldReader

MAX_ACCOUNTS: Final = 200
MAX_ACCOUNT_LENGTH: Final = 253


class GuardMode(StrEnum):
    """What the webhooks do with a request that breaks a rule: nothing, record it, refuse it."""

    OFF = "off"
    AUDIT = "audit"
    ENFORCE = "enforce"


def _read_mode(reader: FieldReader, key: str) -> str | None:
    if reader.body[key] in tuple(GuardMode):
        return str(reader.body[key])
    reader.faults.add(key, Fault.BAD_VALUE, "A webhook's mode is off, audit or enforce.")
    return None


def _read_identity(reader: FieldReader, key: str) -> str:
    given = reader.body[key]
    return "" if given == "" else _read_account(reader, key, given, "identity")


def _read_accounts(reader: FieldReader, key: str) -> list[str]:
    given = reader.body[key]
    if isinstance(given, list) and len(given) <= MAX_ACCOUNTS:
        return [_read_account(reader, f"{key}[{position}]", each, "account") for position, each in enumerate(given)]
    reader.faults.add(key, Fault.BAD_VALUE, f"`{key}` is a list of at most {MAX_ACCOUNTS} users or groups.")
    return []


def _read_account(reader: FieldReader, path: str, given: object, what: str) -> str:
    if isinstance(given, str) and 0 < len(given) <= MAX_ACCOUNT_LENGTH and given.isprintable() and " " not in given:
        return given
    message = (
        f"An {what} is a user or group as the API server names it, such as system:serviceaccount:NAMESPACE:NAME, of at "
        f"most {MAX_ACCOUNT_LENGTH} characters and without spaces."
    )
    reader.faults.add(path, Fault.BAD_VALUE, message)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutQueueGuard(ChangeCommand):
    """Set mode, identity or allowed accounts of a backend's admission webhooks."""

    service: ClassVar = "put_queue_guard"
    audit: ClassVar = (AuditAction.WEBHOOK_CREATED, AuditAction.WEBHOOK_UPDATED)
    permission: ClassVar = Permission.PLATFORM_WRITE

    backend: str = in_address("BACKEND", "Cluster", "Name of the backend.")
    mode: str | None = value(
        replace(choice(list(GuardMode)), read=_read_mode),
        "Mode",
        "What happens to a request that breaks a rule: nothing (off), it is recorded (audit), it is refused (enforce).",
        default=None,
    )
    identity: str | None = value(
        replace(TEXT, read=_read_identity),
        "Our user name in the cluster",
        "Such as system:serviceaccount:osmo:osmo-admin. Requests of this user are never refused.",
        default=None,
    )
    strict_minimums: bool | None = value(
        BOOLEAN,
        "Strict minimums",
        "Refuse PodGroups of other software with minimums that KAI takes and OSMO Admin does not.",
        default=None,
    )
    accounts: Sequence[str] | None = value(
        replace(TEXTS, read=_read_accounts),
        "Other accounts that may use our queues",
        "Users or groups, as the API server names them. The GPUs of their work are not counted.",
        default=None,
    )
