"""The pages of pools: one page per pool with its subpools, what drains, its configuration and its history."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.pool_archive import archive_pool_page
from pools.admin.configuration.pool_changes import configure_pool_page, create_pool_page
from pools.admin.configuration.quota_changes import import_quotas_page, resize_pool_page
from pools.admin.configuration.subpools import (
    create_subpool_page,
    delete_subpool_page,
    drain_deadline_page,
    recreate_subpool_page,
    resize_subpool_page,
)
from pools.admin.confirm_flow import change_paths
from pools.admin.filters import PoolTreeFilterSet
from pools.admin.forms import script_media
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.list_columns import ARCHIVED_SUBPOOL_COLUMNS, FLAVOR_QUOTA_COLUMNS, HOLDER_COLUMNS, POOL_COLUMNS
from pools.domain.names import split_name
from pools.domain.people.roles import Permission, is_allowed
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import AuditEntry, Pool
from pools.permissions import get_visible_pool, get_visible_root
from pools.representations.csv_files import is_csv_request, list_csv
from pools.selectors import leaf_holders
from pools.selectors.clusters import is_observed
from pools.selectors.list_order import read_list_order
from pools.selectors.quotas import platform_totals, pool_tree
from pools.selectors.quotas.backend_capacity import read_part_flavors
from pools.selectors.quotas.degraded import capacity_warnings, clusters_of
from pools.services.changes.ownership import find_owner

MAX_ENTRIES_SHOWN = 8


@admin.register(Pool)
class PoolAdmin(PolicyAdmin):
    """Pools by name."""

    address = "pools"

    def extra_urls(self) -> list[URLPattern]:
        def page(view: Callable[..., HttpResponse]) -> Any:
            return self.protect(partial(view, self))

        subpool = "pools/<str:pool>/subpools/<str:subpool>"
        return [
            *change_paths("pools/-/create", page(create_pool_page), name="pools_pool_create"),
            *change_paths("pools/-/quotas", page(import_quotas_page), name="pools_pool_quotas"),
            *change_paths("pools/<str:pool>/quotas", page(resize_pool_page), name="pools_subpool_quotas"),
            *change_paths("pools/<str:pool>/configuration", page(configure_pool_page), name="pools_pool_configure"),
            *change_paths("pools/<str:pool>/archive", page(archive_pool_page), name="pools_pool_archive"),
            *change_paths("pools/<str:pool>/subpools/create", page(create_subpool_page), name="pools_subpool_create"),
            *change_paths(f"{subpool}/resize", page(resize_subpool_page), name="pools_subpool_resize"),
            *change_paths(f"{subpool}/delete", page(delete_subpool_page), name="pools_subpool_delete"),
            *change_paths(f"{subpool}/deadline", page(drain_deadline_page), name="pools_subpool_deadline"),
            *change_paths(f"{subpool}/recreate", page(recreate_subpool_page), name="pools_subpool_recreate"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        visible = Pool.objects.visible_to(actor).roots()
        filters = PoolTreeFilterSet(request, visible)
        order = read_list_order(request.GET, POOL_COLUMNS, default="name", **pool_tree.POOL_ORDERS)
        if is_csv_request(request):
            trees = pool_tree.all_pool_trees(filters.qs, order=order.expressions)
            lines = ((tree, row) for tree in trees for row in (tree.head, *tree.leaves))
            return list_csv("pools", POOL_COLUMNS, lines)
        return self.render_page(
            request,
            "osmo/pools.html",
            title="Pools",
            script=script_media("columns"),
            totals=platform_totals.platform_totals(actor, read_part_flavors()),
            pool_page=pool_tree.pool_trees(filters.qs, page=request.GET.get("page", "1"), order=order.expressions),
            order=order,
            columns=POOL_COLUMNS,
            filters=filters,
            warnings=capacity_warnings(actor, visible.values("backend")),
            may_configure=is_allowed(actor, Permission.POOL_CONFIGURE),
            may_import=actor.is_admin or bool(actor.pools_with(Permission.POOL_PARTITION)),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        if split_name(object_id).subpool is not None:
            row = get_visible_pool(actor, object_id)
            return HttpResponseRedirect(
                reverse("admin:pools_pool_change", args=[row.root.name]) + f"#{row.subpool_name}"
            )
        root = get_visible_root(actor, object_id)
        (tree,) = pool_tree.pool_trees_of([root])
        draining_rows = [row for row in tree.leaves if row.state == SubpoolState.DELETING or row.bar.draining]
        held = leaf_holders.find_holders([row.name for row in draining_rows])
        owner, is_cluster_observed = find_owner(OwnedKind.POOL, root.name), is_observed(root.backend)
        return self.render_page(
            request,
            "osmo/pool.html",
            title=root.name,
            crumbs=[("Pools", reverse("admin:pools_pool_changelist"))],
            pool=root,
            tree=tree,
            columns=POOL_COLUMNS,
            flavor_columns=FLAVOR_QUOTA_COLUMNS,
            holder_columns=HOLDER_COLUMNS,
            archived_columns=ARCHIVED_SUBPOOL_COLUMNS,
            draining=[(row, held[row.name], tree.excess_text(row)) for row in draining_rows],
            warnings=capacity_warnings(actor, clusters_of([root])),
            archived=pool_tree.archived_subpools(root),
            entries=_audit_entries(request, root),
            may_partition=is_allowed(actor, Permission.POOL_PARTITION, root.name)
            and not root.archived
            and not (owner and owner.subpools),
            may_configure=is_allowed(actor, Permission.POOL_CONFIGURE, root.name) and owner is None,
            git_owner=owner,
            git_owner_note="Change it in that file; the configuration "
            + ("and the subpools are" if owner and owner.subpools else "is")
            + " read-only here.",
            is_observed=is_cluster_observed,
            may_submit=is_allowed(actor, Permission.POOL_SUBMIT, root.name)
            and not root.archived
            and not is_cluster_observed,
        )


def _audit_entries(request: HttpRequest, root: Pool) -> list[AuditEntry]:
    """The newest entries on the pool and its subpools that the reader may see."""
    rows = AuditEntry.objects.visible_to(actor_of(request)).filter(pool_id=root.pk, object__startswith="pool/")
    return list(rows.order_by("-id")[:MAX_ENTRIES_SHOWN])
