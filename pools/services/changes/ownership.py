"""Owners of objects: set them while files are applied, release them, read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from django.db.models import QuerySet

from pools.database.statements import execute_sql
from pools.database.transactions import change
from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor, Permission
from pools.locking import lock_configuration
from pools.models import ConfigurationOwner
from pools.models.ownership import SOURCE_SETTING
from pools.permissions import require_platform

OwnedObject = tuple[OwnedKind, str]
"""The kind and the name of an object."""


@contextmanager
def applying(source: str) -> Iterator[None]:
    """Inside, this transaction may change the objects that Git owns through `source`."""
    _set_source(source)
    yield
    _set_source("")  # after an error the rollback does this


def _set_source(source: str) -> None:
    execute_sql("SELECT set_config(%s, %s, true)", [SOURCE_SETTING, source])


def set_owners(owners: Mapping[OwnedObject, GitOwner]) -> None:
    """Make Git the owner of these objects. Called under :func:`pools.locking.lock_configuration`."""
    present = {(row.kind, row.name): row for row in _rows_of(owners)}
    for (kind, name), owner in sorted(owners.items()):
        row = present.get((kind, name))
        values = {"source": owner.source, "path": owner.path, "commit": owner.commit, "subpools": owner.subpools}
        if row is None:
            ConfigurationOwner.objects.create(kind=kind, name=name, **values)
        elif row.owner != owner:
            ConfigurationOwner.objects.filter(pk=row.pk).update(**values)


def forget_owners(objects: Iterable[OwnedObject]) -> int:
    """Give these objects back to the admins; returns their number. Called under the lock of the configuration."""
    rows = _rows_of(objects)
    for row in rows:
        row.delete()
    return len(rows)


def release(*, actor: Actor, kind: OwnedKind, name: str, description: str = "") -> None:
    """Give an object that Git owns back to the admins. The next `apply` of a file that has it takes it again."""
    require_platform(actor)
    with change(actor=actor, description=description or "released from Git"):
        lock_configuration()
        if not forget_owners([(kind, name)]):
            raise NotFound(f"{kind}/{name[:100]} is not owned by Git.")


def list_owners(actor: Actor) -> QuerySet[ConfigurationOwner]:
    """Every object that Git owns, for readers of the platform."""
    require_platform(actor, Permission.PLATFORM_READ)
    return ConfigurationOwner.objects.order_by("kind", "name")


def find_owner(kind: OwnedKind, name: str) -> GitOwner | None:
    """The owner in Git of an object; None for an object of the admins."""
    row = ConfigurationOwner.objects.filter(kind=kind, name=name).first()
    return row.owner if row else None


def owned_names(kind: OwnedKind, names: Collection[str]) -> set[str]:
    """Those of the names whose object Git owns."""
    rows = ConfigurationOwner.objects.filter(kind=kind, name__in=names)
    return set(rows.values_list("name", flat=True)) if names else set()


def _rows_of(objects: Iterable[OwnedObject]) -> list[ConfigurationOwner]:
    wanted = set(objects)
    rows = ConfigurationOwner.objects.filter(name__in={name for _, name in wanted}).order_by("kind", "name")
    return [row for row in rows if (row.kind, row.name) in wanted]
