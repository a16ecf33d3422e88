"""Changes of top-level pools (OSMO contract, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pools.domain.changes.command import JSON, ChangeCommand, in_address, value
from pools.domain.ownership import OwnedKind
from pools.domain.roles import Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange(ChangeCommand):
    """A change of one top-level pool."""

    permission: ClassVar = Permission.POOL_CONFIGURE
    pool_field: ClassVar = "name"
    has_tags: ClassVar = True
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.POOL

    name: str = in_address("NAME", "Pool", "Name of the pool.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutPool(PoolChange):
    """Create a pool, replace its configuration, or restore an archived one."""

    service: ClassVar = "put_pool"
    may_need_approval: ClassVar = True

    body: Mapping[str, Any] = value(JSON, "Configuration", "The configuration of the pool, with every key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPool(PoolChange):
    """Merge a part into a pool's configuration."""

    service: ClassVar = "patch_pool"
    may_need_approval: ClassVar = True

    patch: Mapping[str, Any] = value(JSON, "Configuration", "The keys that change.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePool(PoolChange):
    """Remove a pool; a pool with a history is archived instead."""

    service: ClassVar = "delete_pool"
    may_need_approval: ClassVar = True
