"""Revisions of the pool configuration, as OSMO's `config history` counts them.

A revision copies nothing: its content is the state of every top-level pool in the audit trail up to the revision's
entry. Configuration writes happen one after the other (:func:`pools.locking.lock_configuration`), so this state is well
defined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, QuerySet
from django.utils import timezone

from pools.database.transactions import change
from pools.domain.audit_actions import AuditAction
from pools.domain.changes.revisions import POOL, DeleteRevision, RevisionChange, TagRevision
from pools.domain.configuration.pool_config import PoolSettings, editable_body
from pools.domain.configuration.pool_fields import COLUMNS
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.people.roles import Actor, Permission
from pools.locking import lock_revision
from pools.models import AuditEntry, Backend, ConfigRevision
from pools.permissions import require_platform

MAX_TAGS = 100


@dataclass(frozen=True, slots=True)
class PastPool:
    """A top-level pool with an earlier configuration. `id` outlives a rename."""

    id: int
    name: str
    settings: PoolSettings


def record_revision(*, actor: Actor, name: str, description: str, tags: Sequence[str] | None) -> ConfigRevision:
    """Record a new revision of the current pool configuration. Called in the transaction of the change, after its
    writes, under :func:`pools.locking.lock_configuration`. `name` is the changed pool, '' for many."""
    return ConfigRevision.objects.create(
        config_type=POOL,
        revision=next_revision(),
        name=name,
        username=actor.username,
        description=description,
        tags=list(tags) if tags else None,
        audit_id=AuditEntry.objects.aggregate(last=Max("id"))["last"] or 0,
    )


def next_revision() -> int:
    """One more than the highest revision, deleted revisions included."""
    return (ConfigRevision.objects.filter(config_type=POOL).aggregate(last=Max("revision"))["last"] or 0) + 1


def list_revisions(actor: Actor) -> QuerySet[ConfigRevision]:
    """All revisions except deleted ones, newest first, for readers of the platform."""
    require_platform(actor, Permission.PLATFORM_READ)
    return ConfigRevision.objects.filter(deleted_at__isnull=True).order_by("-revision")


def get_revision(actor: Actor, config_type: str, revision: int) -> ConfigRevision:
    """One revision that is not deleted, for readers of the platform."""
    row = list_revisions(actor).filter(config_type=config_type.upper(), revision=revision).first()
    if row is None:
        raise NotFound(f"There is no revision {revision} of {config_type.upper()}.")
    return row


def current_revision(actor: Actor) -> ConfigRevision | None:
    """The revision in force."""
    return list_revisions(actor).filter(config_type=POOL).first()


def revision_data(row: ConfigRevision) -> dict[str, Any]:
    """The whole pool configuration at a revision, as `GET /api/configs/pool` gives it."""
    return {"pools": {pool.name: editable_body(pool.settings) for pool in pools_at(row.audit_id)}}


def pools_at(audit_id: int) -> list[PastPool]:
    """Every top-level pool that existed and was not archived, by name, from the audit trail up to `audit_id`."""
    entries = AuditEntry.objects.filter(id__lte=audit_id, action__startswith="pool.", pool_id__isnull=False)
    images = entries.order_by("pool_id", "-id").distinct("pool_id").values_list("pool_id", "after")
    there = {image["id"]: image for _, image in images if image is not None and not image["archived"]}
    backends = _backend_names({image["backend_id"] for image in there.values()})
    found = [PastPool(pool, image["name"], _settings_from_image(image, backends)) for pool, image in there.items()]
    return sorted(found, key=lambda pool: pool.name)


def delete_revision(command: DeleteRevision, *, actor: Actor, description: str = "") -> None:
    """Hide a revision from the history. Raises Conflict for the revision in force."""
    require_platform(actor)
    with change(actor=actor, description=description):
        row = _lock_revision(actor, command)
        newest = ConfigRevision.objects.filter(config_type=row.config_type, deleted_at__isnull=True)
        if row.revision == newest.aggregate(last=Max("revision"))["last"]:
            raise Conflict(
                f"Revision {row.revision} of {row.config_type} is the one in force and stays. Write another one first, "
                "or delete an older one."
            )
        row.deleted_at, row.deleted_by = timezone.now(), actor.username
        row.save(update_fields=["deleted_at", "deleted_by"])


def tag_revision(command: TagRevision, *, actor: Actor, description: str = "") -> ConfigRevision:
    """Add tags to a revision and remove others."""
    require_platform(actor)
    with change(actor=actor, description=description):
        row = _lock_revision(actor, command)
        tags = [tag for tag in row.tags or [] if tag not in command.delete_tags]
        tags += [tag for tag in dict.fromkeys(command.set_tags) if tag not in tags]
        if len(tags) > MAX_TAGS:
            raise BadInput.of(
                [Violation("set_tags", Fault.TOO_MANY, f"A revision carries at most {MAX_TAGS} tags, not {len(tags)}.")]
            )
        row.tags = tags or None
        row.save(update_fields=["tags"])
        return row


def _lock_revision(actor: Actor, command: RevisionChange) -> ConfigRevision:
    return lock_revision(get_revision(actor, command.config_type, command.revision).pk)


def _settings_from_image(image: Mapping[str, Any], backends: Mapping[int, str]) -> PoolSettings:
    return PoolSettings(
        backend=backends.get(image["backend_id"], ""),
        cohort=image.get("cohort"),
        config=image["config"],
        **{column: image[column] for column in COLUMNS if column in image},
    )


def _backend_names(ids: Collection[int]) -> dict[int, str]:
    """Names of backends by id; names of deleted backends come from the audit trail."""
    names = dict(Backend.objects.filter(pk__in=ids).values_list("pk", "name"))
    for gone in set(ids) - set(names):
        entries = AuditEntry.objects.filter(action=AuditAction.BACKEND_DELETED, before__id=gone)
        names[gone] = entries.values_list("before__name", flat=True).first() or ""
    return names
