"""Top-level pools: put, change, rename, remove (design, O8, D1, D7, D8).

Only `osmo-admin` writes pools. Other actors get Forbidden for a pool that they see, NotFound for other pools.
Subpools have their own service (:mod:`pools.services.configuration.subpools`). Every write ends with a revision of the
configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Required, TypedDict, Unpack

from django.db.models import F, TextField, Value
from django.db.models.functions import Concat

from pools.domain import names
from pools.domain.changes.pools import (
    CreatePool,
    DeletePool,
    PatchPool,
    PoolChange,
    PutPlatform,
    PutPool,
    PutPools,
    RenamePlatform,
    RenamePool,
)
from pools.domain.configuration.config_merge import merge_patch
from pools.domain.configuration.pool_config import editable_body
from pools.domain.configuration.pool_flavors import without_old_sums
from pools.domain.errors import BadInput, Conflict, Fault, Violation
from pools.domain.people.roles import Actor, Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.permissions import require_permission, require_platform
from pools.representations.pool import pool_settings_of
from pools.selectors.quotas.pool_balance import read_balance
from pools.services.changes.approval_check import require_no_pool_approval
from pools.services.configuration.implicit_cohorts import delete_unused_implicit_cohorts
from pools.services.configuration.pool_configuration import (
    PoolResult,
    configuration_change,
    live_work_violation,
    lock_pool_for_change,
    raise_violations,
    unknown_platform,
    write_pools,
)
from pools.services.people.renamed_pools import follow_rename
from pools.services.people.users import delete_pool_roles

Body = Mapping[str, Any]


class Note(TypedDict, total=False):
    """What accompanies a change of a pool's configuration."""

    actor: Required[Actor]
    description: str
    tags: Sequence[str] | None
    expected_version: int | None


def put_pool(
    command: PutPool,
    *,
    actor: Actor,
    description: str = "",
    tags: Sequence[str] | None = None,
    expected_version: int | None = None,
) -> PoolResult:
    """Create a pool, replace its configuration, or restore an archived one (design, D8). `body` is the editable JSON.

    Raises BadInput with every fault at once (form, name, unknown backend, guarantee below the ACTIVE subpools),
    Conflict (another backend while work is live), Stale, NotFound/Forbidden.
    """
    require_permission(actor, Permission.POOL_CONFIGURE, command.name)
    with configuration_change(actor=actor, name=command.name, description=description, tags=tags):
        (result,) = write_pools({command.name: command.body}, nested=False, expected_version=expected_version)
    return result


def create_pool(
    command: CreatePool, *, actor: Actor, description: str = "", tags: Sequence[str] | None = None
) -> PoolResult:
    """Create a pool whose name is free. Raises Conflict if a pool of that name exists, archived or not, and the errors
    of :func:`put_pool`."""
    name = command.name
    require_permission(actor, Permission.POOL_CONFIGURE, name)
    with configuration_change(actor=actor, name=name, description=description, tags=tags):
        if Pool.objects.filter(name=name).exists():
            message = f"Pool {name} exists already. Configure it on its own page (archived ones too)."
            raise Conflict(message, [Violation("name", Fault.NAME_TAKEN, message)])
        (result,) = write_pools({name: command.body}, nested=False)
    return result


def put_pools(
    command: PutPools, *, actor: Actor, description: str = "", tags: Sequence[str] | None = None
) -> list[PoolResult]:
    """Put many pools, all or none; other pools do not change. The path of a fault begins with the pool's name."""
    require_platform(actor, Permission.POOL_CONFIGURE)
    with configuration_change(actor=actor, name="", description=description, tags=tags):
        return write_pools(command.configs, nested=True)


def patch_pool(command: PatchPool, **note: Unpack[Note]) -> PoolResult:
    """Merge `patch` into the pool's editable JSON (:mod:`pools.domain.configuration.config_merge`) and put the
    result."""

    def edit(body: dict[str, Any]) -> Body:
        result, faults = merge_patch(body, command.patch)
        raise_violations(faults)
        return without_old_sums(result, command.patch)

    return _edit(command, edit, **note)


def put_platform(command: PutPlatform, **note: Unpack[Note]) -> PoolResult:
    """Create or replace one platform of a pool."""

    def edit(pool: dict[str, Any]) -> Body:
        return pool | {"platforms": pool["platforms"] | {command.platform: command.body}}

    return replace(_edit(command, edit, **note), platform=command.platform)


def rename_platform(command: RenamePlatform, **note: Unpack[Note]) -> PoolResult:
    """Rename a platform of a pool; the default platform follows. The nodes of the backend keep their own `platform`,
    so the renamed platform has the nodes that carry the new name."""
    old, new = command.platform, command.new_name

    def edit(pool: dict[str, Any]) -> Body:
        platforms = pool["platforms"]
        if old not in platforms:
            raise unknown_platform(command.name)
        if new != old and new in platforms:
            raise Conflict(f"Pool {command.name} has a platform {new} already.")
        renamed = {new if key == old else key: value for key, value in platforms.items()}
        default = new if pool["default_platform"] == old else pool["default_platform"]
        return pool | {"platforms": renamed, "default_platform": default}

    return replace(_edit(command, edit, **note), platform=new)


def _edit(
    command: PoolChange,
    edit: Callable[[dict[str, Any]], Body],
    *,
    actor: Actor,
    description: str = "",
    tags: Sequence[str] | None = None,
    expected_version: int | None = None,
) -> PoolResult:
    """Store the result of `edit` on the pool's editable JSON, read under the pool's lock."""
    name = command.name
    require_permission(actor, Permission.POOL_CONFIGURE, name)
    with configuration_change(actor=actor, name=name, description=description, tags=tags):
        row = lock_pool_for_change(name, expected_version=expected_version, forbidden_action="changed")
        (result,) = write_pools({name: edit(editable_body(pool_settings_of(row)))}, nested=False)
    return result


def delete_pool(
    command: DeletePool,
    *,
    actor: Actor,
    description: str = "",
    tags: Sequence[str] | None = None,
    expected_version: int | None = None,
) -> Pool | None:
    """Remove a pool. A pool that ever had subpools or workflows is archived instead and returned (design, D8); it
    leaves its cohort.

    Raises Conflict while the pool has ACTIVE or DELETING subpools or live work, and for an archived pool.
    """
    require_permission(actor, Permission.POOL_CONFIGURE, command.name)
    with configuration_change(actor=actor, name=command.name, description=description, tags=tags):
        row = lock_pool_for_change(command.name, expected_version=expected_version, forbidden_action="deleted")
        refuse_while_in_use(row, "it cannot be deleted")
        require_no_pool_approval(row, None)
        archived_pool: Pool | None = None
        if row.subpools.exists() or row.workflows.exists():  # `workflows` is defined by the scheduling app
            row.archived = True
            row.save(update_fields=["archived", *row.leave_cohort()])
            row.refresh_from_db()
            archived_pool = row
        else:
            row.delete()
            delete_pool_roles(command.name)
        delete_unused_implicit_cohorts()
        return archived_pool


def rename_pool(
    command: RenamePool,
    *,
    actor: Actor,
    description: str = "",
    tags: Sequence[str] | None = None,
    expected_version: int | None = None,
) -> PoolResult:
    """Rename a pool with its ARCHIVED subpools, its roles, which their users keep, and what else names it.

    Raises BadInput (name rules, of the subpools too), Conflict (name taken; ACTIVE or DELETING subpools; live work).
    """
    name, new_name = command.name, command.new_name
    require_permission(actor, Permission.POOL_CONFIGURE, name)
    with configuration_change(actor=actor, name=new_name, description=description, tags=tags):
        row = lock_pool_for_change(name, expected_version=expected_version, forbidden_action="renamed")
        _check_new_name(row, new_name)
        refuse_while_in_use(row, "it cannot be renamed")
        row.name = new_name
        row.save(update_fields=["name"])
        row.subpools.update(
            name=Concat(Value(f"{new_name}{names.SEPARATOR}"), F("subpool_name"), output_field=TextField())
        )
        follow_rename(row, name, new_name)
    return PoolResult(Pool.objects.select_related("backend", "cohort").get(pk=row.pk))


def refuse_while_in_use(row: Pool, consequence: str) -> None:
    """Raise Conflict, with every reason, while the tree has ACTIVE or DELETING subpools or live work."""
    facts = read_balance(row)
    violations = []
    if open_subpools := [part for part in facts.subpools if part.state is not SubpoolState.ARCHIVED]:
        listed = ", ".join(f"{part.name} {part.state}" for part in open_subpools)
        message = f"Pool {row.name} has subpools ({listed}), so {consequence}. Delete them and let them drain first."
        violations.append(Violation("subpools", Fault.HAS_SUBPOOLS, message, numbers=(("slices", len(open_subpools)),)))
    if live := live_work_violation(facts, "", consequence):
        violations.append(live)
    if violations:
        raise Conflict.of(violations)


def _check_new_name(row: Pool, new_name: str) -> None:
    violations = names.short_name_violations(new_name, namespace=row.namespace, parent=None, path="new_name")
    for part in row.subpools.all():
        violations += names.short_name_violations(
            part.subpool_name or "", namespace=row.namespace, parent=new_name, path="new_name"
        )
    if violations:
        raise BadInput.of(violations)
    if Pool.objects.filter(name=new_name).exclude(pk=row.pk).exists():
        message = f"There is a pool {new_name} already, perhaps an archived one. Choose another name."
        raise Conflict(message, [Violation("new_name", Fault.NAME_TAKEN, message)])
