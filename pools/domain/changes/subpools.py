"""Changes of subpools: create, resize, delete, and the deadline of a drain (design, D1, D3, D8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import BOOLEAN, JSON, QUOTA, TEXT, TIME, in_address, value
from pools.domain.structured_input.fields import FieldReader

_QUOTA_LABEL = "Quota in GPUs"
_QUOTA_HELP = "A whole number of GPUs, or a share of the pool such as 25%. Fractions are rounded down."
_DEADLINE_HELP = (
    "The time at which the work of the subpool should have ended. It stops no work: after it, the home page warns and "
    "notices are sent."
)
_QUOTAS_RULE = 'must be an object such as {"team--a": 20}.'


def _read_quotas(reader: FieldReader, key: str) -> Any:
    found = reader.body[key]
    if not isinstance(found, dict):
        reader.add_fault(key, Fault.BAD_VALUE, _QUOTAS_RULE)
    return found


_FLAVORS_SCHEMA = {"type": "object", "additionalProperties": QUOTA.schema}
_QUOTAS = replace(
    JSON,
    schema={"type": "object", "additionalProperties": {"anyOf": [*QUOTA.schema["anyOf"], _FLAVORS_SCHEMA]}},
    read=_read_quotas,
)
_BY_FLAVOR = replace(JSON, looks="flavors", schema=_FLAVORS_SCHEMA, read=lambda reader, key: reader.body[key])
_FLAVORS_HELP = (
    "GPUs of each flavor, of a pool that has several: whole GPUs, or a share of the pool's such as 25%. A flavor that "
    "is left out keeps what it has."
)


def _quota_field() -> Any:
    return value(QUOTA, _QUOTA_LABEL, _QUOTA_HELP, default=None, metavar="GPUS", short="-q", unit="GPUs", missing="")


def _flavors_field() -> Any:
    return value(_BY_FLAVOR, "Quotas by flavor", _FLAVORS_HELP, default=None, metavar="FLAVOR=GPUS,…")


def _note_missing_quota(reader: FieldReader) -> None:
    """Beside other faults only: alone, the service says it with the flavors of the pool."""
    if reader.faults.violations and not (reader.is_given("quota") or reader.is_given("quotas")):
        reader.add_fault("quota", Fault.MISSING, "is missing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubpoolChange(ChangeCommand):
    """A change of one subpool of a pool."""

    permission: ClassVar = Permission.POOL_PARTITION
    pool_field: ClassVar = "parent"
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.POOL
    is_of_subpools: ClassVar = True

    parent: str = in_address("PARENT", "Pool", "Pool that has the subpools.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSubpool(SubpoolChange):
    """Create a subpool, or restore an archived one of that name."""

    service: ClassVar = "create_subpool"
    audit: ClassVar = (AuditAction.SUBPOOL_CREATED, AuditAction.SUBPOOL_REACTIVATED)
    may_need_approval: ClassVar = True

    subpool_name: str = value(
        TEXT,
        "Name",
        "Lower-case letters, digits and single hyphens; the pool's name comes in front of it.",
        metavar="SUBPOOL",
        positional=True,
    )
    quota: object = _quota_field()
    quotas: Mapping[str, object] | None = _flavors_field()

    @classmethod
    def note_faults(cls, reader: FieldReader) -> None:
        _note_missing_quota(reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSubpoolChange(SubpoolChange):
    """A change of a subpool that has a name already."""

    subpool_name: str = in_address("SUBPOOL", "Subpool", "Short name of the subpool, `a` of `team--a`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeSubpool(NamedSubpoolChange):
    """Change the quota of a subpool, lasting or until a time. Running work continues; use above the new quota drains.

    Only a raise can be temporary: to end a cut, the subpool would need GPUs that another one may own by then. A change
    without `until` is lasting, and ends a temporary quota.
    """

    service: ClassVar = "resize_subpool"
    audit: ClassVar = (AuditAction.SUBPOOL_UPDATED,)
    may_need_approval: ClassVar = True

    quota: object = _quota_field()
    quotas: Mapping[str, object] | None = _flavors_field()
    until: datetime | None = value(
        TIME,
        "Until",
        "Empty for a lasting quota. A raise with an end is given back at that time by itself.",
        default=None,
        metavar="TIME",
    )

    @classmethod
    def note_faults(cls, reader: FieldReader) -> None:
        _note_missing_quota(reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubpool(NamedSubpoolChange):
    """Delete a subpool: at once if it has no active workflows; otherwise it takes no new work and drains first. No work
    is stopped."""

    service: ClassVar = "delete_subpool"
    audit: ClassVar = (AuditAction.SUBPOOL_DELETING, AuditAction.SUBPOOL_ARCHIVED, AuditAction.WORKFLOW_CANCELED)
    may_need_approval: ClassVar = True

    cancel_pending: bool = value(
        BOOLEAN,
        "Cancel the workflows that have not started",
        "Running work always continues until it ends by itself.",
        default=False,
    )
    drain_by: datetime | None = value(TIME, "Deadline", _DEADLINE_HELP, default=None, metavar="TIME")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDrainDeadline(NamedSubpoolChange):
    """Set the time by which the work of a draining subpool should have ended, with `drain_by` alone; null for none."""

    service: ClassVar = "set_drain_deadline"
    audit: ClassVar = (AuditAction.SUBPOOL_UPDATED,)
    owned_kind: ClassVar = None

    drain_by: datetime | None = value(
        TIME, "Deadline", f"{_DEADLINE_HELP} Empty for none.", default=None, metavar="[TIME]", positional=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeSubpools(ChangeCommand):
    """Change the quotas of many subpools, all of them or none. A subpool that has its quota already is left alone."""

    service: ClassVar = "resize_subpools"
    audit: ClassVar = (AuditAction.SUBPOOL_UPDATED,)
    permission: ClassVar = None  # of each pool
    needs_version: ClassVar = False
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.POOL
    is_of_subpools: ClassVar = True

    quotas: Mapping[str, object] = value(
        _QUOTAS, "Quotas", "The quota of each subpool by its name, such as team--a.", missing=_QUOTAS_RULE
    )
