"""Observed work in a change of the configuration: the end of its record, and the pools of its queues."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Q

from pools.domain.values.counting import counted, first_names
from pools.models import Backend, Pool
from pools.signals import observation_ends


def hand_over_observed_work(backend: Backend, root: Pool | None = None) -> tuple[str, ...]:
    """End the record of the work that was seen on this cluster, of all of it or of one pool. The work belongs to the
    scheduler there, and goes on. Returns the warning about it; the caller holds the locks of the trees."""
    answers = observation_ends.send(sender=None, backend=backend, root=root)
    count = sum(int(number or 0) for _, number in answers)
    if not count:
        return ()
    leave = "leaves" if count == 1 else "leave"
    of_pool = "" if root is None else f" of pool {root.name}"
    message = (
        f"{counted(count, 'observed workflow')}{of_pool} {leave} the record. The scheduler of cluster {backend.name} "
        "goes on with this work, nothing stops it, and its pods count on the nodes as those of others until they end."
    )
    return (message,)


def queue_warnings(row: Backend, queue_pools: Mapping[str, str]) -> list[str]:
    """The queues whose pool is not on the cluster: it may come later."""
    if not queue_pools:
        return []
    on_cluster = Pool.objects.filter(Q(backend=row) | Q(parent__backend=row), name__in=queue_pools.values())
    known = set(on_cluster.values_list("name", flat=True))
    missing = [queue for queue, pool in queue_pools.items() if pool not in known]
    if not missing:
        return []
    who = f"{counted(len(missing), 'queue')} ({first_names(missing)})"
    return [f"The pools of {who} are not on cluster {row.name}: work of these queues counts in no pool until they are."]
