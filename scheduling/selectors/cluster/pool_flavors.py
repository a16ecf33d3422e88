"""The GPU flavors of a pool, and where its platforms have nodes of them."""

from __future__ import annotations

from collections import defaultdict

from pools.models import Node, Pool
from scheduling.domain.flavor_choices import PoolFlavors

_WITHOUT_FLAVORS = PoolFlavors()


def read_pool_flavors(root: Pool) -> PoolFlavors:
    """Those of a top-level pool; one query where it has some, else none."""
    if not root.flavors:
        return _WITHOUT_FLAVORS
    there: dict[str, set[str]] = defaultdict(set)
    rows = Node.objects.filter(backend=root.backend_id, gpus__gt=0).order_by()
    for platform, flavor in rows.values_list("platform", "flavor").distinct():
        there[platform].add(flavor)
    return PoolFlavors(root.gpu_flavors, there)
