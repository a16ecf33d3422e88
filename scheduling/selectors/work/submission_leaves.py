"""The pools and subpools to which a person may submit."""

from __future__ import annotations

from django.db.models import Case, IntegerField, Q, Value, When

from pools.domain.people.roles import Actor, Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.models.pool import PoolQuerySet


def submission_leaves(actor: Actor) -> PoolQuerySet:
    """Pools and subpools that are not archived or draining, to which `actor` may submit, each pool before its
    subpools."""
    rows = Pool.objects.visible_to(actor).not_archived().exclude(subpool_state=SubpoolState.DELETING).in_tree_order()
    if not actor.is_admin:
        allowed = actor.pools_with(Permission.POOL_SUBMIT)
        rows = rows.filter(Q(name__in=allowed, parent__isnull=True) | Q(parent__name__in=allowed))
    return rows


def list_submission_leaves(actor: Actor, *, near: Pool, most: int) -> list[str]:
    """The names of the first other ones: of the same pool, then of the same cluster, then all. One query."""
    root = near.root
    own = Q(pk=root.pk) | Q(parent=root.pk)
    on_cluster = Q(backend=root.backend) | Q(parent__backend=root.backend)
    distance = Case(
        When(own, then=Value(0)), When(on_cluster, then=Value(1)), default=Value(2), output_field=IntegerField()
    )
    rows = submission_leaves(actor).exclude(pk=near.pk).annotate(_distance=distance)
    return list(rows.order_by("_distance", "name").values_list("name", flat=True)[:most])
