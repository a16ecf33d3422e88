"""Putting an old pool configuration back, as one more write with its own revision."""

from __future__ import annotations

from collections.abc import Sequence

from pools.domain.errors import NotFound
from pools.domain.pool_config import editable_body
from pools.domain.roles import Actor, Permission
from pools.models import ConfigRevision, Pool
from pools.permissions import require_platform
from pools.services.config_history import POOL, pools_at
from pools.services.pool_configuration import configuration_change, write_pools


def rollback_configuration(
    *, actor: Actor, revision: int, description: str = "", tags: Sequence[str] | None = None
) -> None:
    """Give every pool of a revision the configuration it had then.

    A pool that was deleted or archived since comes back; one that was renamed keeps its name, for a name is not
    configuration; one that was made since stays as it is. Subpools are no configuration: where a guarantee of then is
    below the subpools of now, all of it is refused. Raises NotFound, and what `put_pools` raises.
    """
    require_platform(actor, Permission.POOL_CONFIGURE)
    past = ConfigRevision.objects.filter(config_type=POOL, revision=revision, deleted_at__isnull=True).first()
    if past is None:
        raise NotFound(f"There is no revision {revision} of {POOL}.")
    why = description or f"rolled back to revision {revision}"
    with configuration_change(actor=actor, name="", description=why, tags=tags):
        then = pools_at(past.audit_id)
        names = dict(Pool.objects.roots().filter(pk__in=[pool.id for pool in then]).values_list("pk", "name"))
        write_pools({names.get(pool.id, pool.name): editable_body(pool.settings) for pool in then}, nested=True)
