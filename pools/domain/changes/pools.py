"""Changes of top-level pools (design, O8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.config_merge import ACTION, REPLACE
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.configuration.pool_flavors import flavors_list
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import JSON, TEXT, in_address, read_name, value
from pools.domain.structured_input.fields import FieldReader


def _read_configurations(reader: FieldReader, key: str) -> Any:
    found = reader.body[key]
    if not found:
        reader.add_fault(key, Fault.MISSING, "is missing: give the configuration of each pool by name.")
    for name, body in found.items():
        if not isinstance(body, dict):
            reader.faults.add(name[:60], Fault.BAD_VALUE, f"The configuration of {name[:60]!r} must be an object.")
    return found


def _write_configuration(given: Any) -> Any:
    """The configuration, or the part of it, with its flavors in a list, because the store of requests for approval
    sorts keys. Flavors that a part does not replace are merged into present ones, in their order."""
    resources = given.get("resources") if isinstance(given, Mapping) else None
    flavors = resources.get("flavors") if isinstance(resources, Mapping) else None
    if not isinstance(resources, Mapping) or not isinstance(flavors, Mapping):
        return given
    return {**given, "resources": {**resources, "flavors": flavors_list(flavors)}}


def _write_patch(given: Any) -> Any:
    resources = given.get("resources") if isinstance(given, Mapping) else None
    flavors = resources.get("flavors") if isinstance(resources, Mapping) else None
    if not isinstance(resources, Mapping) or not isinstance(flavors, Mapping) or flavors.get(ACTION) != REPLACE:
        return given
    rows = {flavor: row for flavor, row in flavors.items() if flavor != ACTION}
    return _write_configuration({**given, "resources": {**resources, "flavors": rows}})


_NAME = replace(TEXT, read=read_name)
_CONFIGURATION = replace(JSON, write=_write_configuration)
_CONFIGURATIONS = replace(JSON, read=_read_configurations)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange(ChangeCommand):
    """A change of one top-level pool."""

    permission: ClassVar = Permission.POOL_CONFIGURE
    pool_field: ClassVar = "name"
    has_tags: ClassVar = True
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.POOL

    name: str = in_address("NAME", "Pool", "Name of the pool.")


_OF_ITS_COHORT = (AuditAction.COHORT_NAMED, AuditAction.COHORT_FORGOTTEN)
"""A cohort that is not configured exists as long as a pool or cohort names it."""
_PUT_AUDIT = (AuditAction.POOL_CREATED, AuditAction.POOL_UPDATED, AuditAction.POOL_REACTIVATED, *_OF_ITS_COHORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutPool(PoolChange):
    """Create a pool, replace its configuration, or restore an archived one."""

    service: ClassVar = "put_pool"
    audit: ClassVar = _PUT_AUDIT
    may_need_approval: ClassVar = True

    body: Mapping[str, Any] = value(_CONFIGURATION, "Configuration", "The configuration of the pool, with every key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPool(PoolChange):
    """Merge a part into a pool's configuration."""

    service: ClassVar = "patch_pool"
    audit: ClassVar = (AuditAction.POOL_UPDATED, *_OF_ITS_COHORT)
    may_need_approval: ClassVar = True

    patch: Mapping[str, Any] = value(replace(JSON, write=_write_patch), "Configuration", "The keys that change.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePool(PoolChange):
    """Remove a pool; a pool with a history is archived instead."""

    service: ClassVar = "delete_pool"
    audit: ClassVar = (AuditAction.POOL_ARCHIVED, AuditAction.POOL_DELETED, AuditAction.COHORT_FORGOTTEN)
    may_need_approval: ClassVar = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePool(PoolChange):
    """Create a pool whose name is free."""

    service: ClassVar = "create_pool"
    audit: ClassVar = (AuditAction.POOL_CREATED, AuditAction.COHORT_NAMED)
    needs_version: ClassVar = False

    body: Mapping[str, Any] = value(JSON, "Configuration", "The configuration of the pool.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutPools(ChangeCommand):
    """Create or replace many pools, all or none; other pools stay."""

    service: ClassVar = "put_pools"
    audit: ClassVar = _PUT_AUDIT
    permission: ClassVar = Permission.POOL_CONFIGURE
    needs_version: ClassVar = False
    has_tags: ClassVar = True
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.POOL

    configs: Mapping[str, Mapping[str, Any]] = value(
        _CONFIGURATIONS, "Configurations", "The configuration of each pool by name, with every key."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePool(PoolChange):
    """Rename a pool with its roles and archived subpools."""

    service: ClassVar = "rename_pool"
    audit: ClassVar = (AuditAction.POOL_RENAMED, AuditAction.SUBPOOL_RENAMED)

    new_name: str = value(_NAME, "New name", "The name of the pool from now on.", missing="must be a text.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformChange(PoolChange):
    """A change of one platform of a pool."""

    platform: str = in_address("PLATFORM", "Platform", "Name of the platform.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutPlatform(PlatformChange):
    """Create or replace one platform of a pool."""

    service: ClassVar = "put_platform"
    audit: ClassVar = (AuditAction.POOL_UPDATED,)

    body: Mapping[str, Any] = value(JSON, "Configuration", "The settings of work on the platform.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePlatform(PlatformChange):
    """Rename a platform of a pool; the default platform follows."""

    service: ClassVar = "rename_platform"
    audit: ClassVar = (AuditAction.POOL_UPDATED,)

    new_name: str = value(_NAME, "New name", "The name of the platform from now on.", missing="must be a text.")
