"""What names a pool elsewhere and follows when the pool is renamed: its roles, profiles, targets of notices, saved
views and the queues of an observed cluster. Rows that name a pool by its id need nothing."""

from __future__ import annotations

from django.db.models import F

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import Conflict, Fault, Violation
from pools.domain.names import renamed_leaf
from pools.domain.people.roles import PoolRoleKind, pool_role
from pools.domain.people.saved_views import rename_pool_in_query
from pools.locking import lock_last
from pools.models import Backend, KubernetesSettings, NoticeTarget, Pool, SavedView
from pools.services.changes.ownership import owned_names
from pools.services.people.users import rename_default_pool, rename_pool_roles


def follow_rename(row: Pool, old: str, new: str) -> None:
    """Let everything that names the pool `old` name it `new`. The caller has renamed `row` in the same transaction.

    Raises Conflict if Git owns one of its roles, which only files change, or its observed cluster, whose queues name
    the pool."""
    _require_own_roles(old, new)
    rename_default_pool(old, new)  # accounts before their tokens, as where a role is taken away
    rename_pool_roles(old, new)
    # Their owners change these rows under other locks: each is read as it is when nobody else writes it.
    for target in lock_last(NoticeTarget.objects.filter(pools__contains=[old])):
        target.pools = [new if name == old else name for name in target.pools]
        target.save(update_fields=["pools"])
    for view in lock_last(SavedView.objects.filter(query__contains=old)):
        query = rename_pool_in_query(view.query, old, new)
        SavedView.objects.filter(pk=view.pk).exclude(query=query).update(query=query)
    for settings in KubernetesSettings.objects.filter(backend=row.backend_id):
        queues = {queue: renamed_leaf(leaf, old, new) for queue, leaf in settings.queue_pools.items()}
        if queues != settings.queue_pools:
            settings.queue_pools = queues
            settings.save(update_fields=["queue_pools"])
            Backend.objects.filter(pk=settings.pk).update(version=F("version") + 1)


def _require_own_roles(old: str, new: str) -> None:
    """Raise Conflict with the roles of either name that Git owns: their files name them."""
    roles = [pool_role(name, kind) for name in (old, new) for kind in PoolRoleKind]
    owned = owned_names(OwnedKind.ROLE, roles)
    found = [
        Violation(
            "new_name",
            Fault.OWNED_BY_GIT,
            f"Git owns the role {role}, whose name would change. Release it on the server first: "
            f"osmo-admin release role/{role}",
        )
        for role in sorted(owned)
    ]
    if found:
        raise Conflict.of(found)
