"""Rollback to an old pool configuration, as a new write with its own revision."""

from __future__ import annotations

from collections.abc import Sequence

from pools.domain.changes.revisions import POOL, RollBack
from pools.domain.configuration.pool_config import editable_body
from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor, Permission
from pools.models import ConfigRevision, Pool
from pools.permissions import require_platform
from pools.services.configuration.config_history import pools_at
from pools.services.configuration.pool_configuration import configuration_change, write_pools


def rollback_configuration(
    command: RollBack, *, actor: Actor, description: str = "", tags: Sequence[str] | None = None
) -> None:
    """Give every pool of a revision the configuration it had at that time.

    A pool that was deleted or archived since then is restored. A renamed pool keeps its name, because the name is not
    part of the configuration. Pools created since then do not change. Subpools are not part of the configuration
    either: if the old guarantee of a pool is below the quotas of its present subpools, the whole rollback is refused.
    Raises NotFound, and the errors of `put_pools`.
    """
    require_platform(actor, Permission.POOL_CONFIGURE)
    past = ConfigRevision.objects.filter(config_type=POOL, revision=command.revision, deleted_at__isnull=True).first()
    if past is None:
        raise NotFound(f"There is no revision {command.revision} of {POOL}.")
    why = description or f"rolled back to revision {command.revision}"
    with configuration_change(actor=actor, name="", description=why, tags=tags):
        then = pools_at(past.audit_id)
        names = dict(Pool.objects.roots().filter(pk__in=[pool.id for pool in then]).values_list("pk", "name"))
        write_pools({names.get(pool.id, pool.name): editable_body(pool.settings) for pool in then}, nested=True)
