"""Changes of cohorts: borrowing and lending between pools (design, A4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import BOOLEAN, JSON, in_address, value


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortChange(ChangeCommand):
    """A change of one cohort."""

    permission: ClassVar = Permission.PLATFORM_WRITE
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.COHORT

    name: str = in_address("COHORT", "Cohort", "Name of the cohort.")


_OF_ITS_PARENT = (AuditAction.COHORT_NAMED, AuditAction.COHORT_FORGOTTEN)
"""A cohort that is not configured exists as long as a pool or cohort names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutCohort(CohortChange):
    """Create a cohort, or replace its configuration."""

    service: ClassVar = "put_cohort"
    audit: ClassVar = (
        AuditAction.COHORT_CREATED,
        AuditAction.COHORT_UPDATED,
        AuditAction.COHORT_MOVED,
        *_OF_ITS_PARENT,
    )

    body: Mapping[str, Any] = value(JSON, "Configuration", "The configuration of the cohort, with every key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCohort(CohortChange):
    """Create a cohort that is not configured yet."""

    service: ClassVar = "create_cohort"
    audit: ClassVar = (AuditAction.COHORT_CREATED, AuditAction.COHORT_NAMED)
    needs_version: ClassVar = False

    body: Mapping[str, Any] = value(JSON, "Configuration", "The configuration of the cohort, with every key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchCohort(CohortChange):
    """Replace only the keys that are given: another parent moves it with everything below it."""

    service: ClassVar = "patch_cohort"
    audit: ClassVar = (AuditAction.COHORT_UPDATED, AuditAction.COHORT_MOVED, *_OF_ITS_PARENT)

    patch: Mapping[str, Any] = value(JSON, "Configuration", "The keys that change.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCohort(CohortChange):
    """Delete a cohort with its quota. A cohort with children needs `orphan`."""

    service: ClassVar = "delete_cohort"
    audit: ClassVar = (
        AuditAction.COHORT_DELETED,
        AuditAction.COHORT_MOVED,
        AuditAction.COHORT_FORGOTTEN,
        AuditAction.POOL_UPDATED,
    )

    orphan: bool = value(
        BOOLEAN,
        "Make the cohorts and pools below roots of their own trees",
        "They lose their borrowing and lending limits, which a root cannot have. Running work continues.",
        default=False,
        in_query=True,
    )
