"""Changes of revisions of the configuration (design, O8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import TEXT, TEXTS, in_address, value, whole_number
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.query_values import MAX_INTEGER

POOL: Final = "POOL"
_NUMBER = whole_number(1, MAX_INTEGER, "must be the number of a revision.")


def _read_tags(reader: FieldReader, key: str) -> list[str]:
    tags = reader.read_texts(key)
    if not all(tags):
        reader.add_fault(key, Fault.BAD_VALUE, "must be a list of texts that are not empty.")
    return tags


def _read_type(reader: FieldReader, key: str) -> str:
    found = reader.field(key).text() or POOL
    if found.upper() != POOL:
        reader.add_fault(key, Fault.BAD_VALUE, f"must be {POOL}: only pools have revisions.")
    return found


_TAGS = replace(TEXTS, read=_read_tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionChange(ChangeCommand):
    """A change of one revision."""

    permission: ClassVar = Permission.PLATFORM_WRITE
    needs_version: ClassVar = False

    config_type: str = in_address("TYPE", "Type", f"{POOL}: only pools have revisions.")
    revision: int = in_address("REVISION", "Revision", "Number of the revision.", kind=_NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRevision(RevisionChange):
    """Hide a revision from the history; the revision in force stays."""

    service: ClassVar = "delete_revision"
    audit: ClassVar = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRevision(RevisionChange):
    """Add tags to a revision and remove others."""

    service: ClassVar = "tag_revision"
    audit: ClassVar = ()

    set_tags: Sequence[str] = value(_TAGS, "Add", "Tags to add.", default=())
    delete_tags: Sequence[str] = value(_TAGS, "Remove", "Tags to remove.", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack(ChangeCommand):
    """Restore the pools of a revision; pools created since then stay."""

    service: ClassVar = "rollback_configuration"
    audit: ClassVar = (
        AuditAction.POOL_UPDATED,
        AuditAction.POOL_CREATED,
        AuditAction.POOL_REACTIVATED,
        AuditAction.COHORT_NAMED,
        AuditAction.COHORT_FORGOTTEN,
    )
    permission: ClassVar = Permission.POOL_CONFIGURE
    needs_version: ClassVar = False
    has_tags: ClassVar = True

    revision: int = value(_NUMBER, "Revision", "Number of the revision.", missing="must be the number of a revision.")
    config_type: str = value(
        replace(TEXT, read=_read_type), "Type", f"{POOL}: only pools have revisions.", default=POOL
    )
