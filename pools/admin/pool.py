"""The pages of pools: one page per pool with its slices, its debts, its configuration and its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin.policy import PolicyAdmin, actor_of
from pools.admin.pool_config import archive_pool, create_pool, edit_pool
from pools.admin.subpools import Delete, OfSlice, Recreate, Resize, change_slice, create_slice
from pools.domain.lifecycle import SubpoolState
from pools.domain.names import split
from pools.domain.roles import Action, allows
from pools.models import AuditEntry, Pool
from pools.permissions import visible_pool, visible_root
from pools.selectors import pool_tree

ENTRIES_SHOWN = 8


@admin.register(Pool)
class PoolAdmin(PolicyAdmin):
    """Pools by name. The list of them is the dashboard."""

    def extra_urls(self) -> list[URLPattern]:
        def on_pool(view: Callable[[PolicyAdmin, HttpRequest, str], HttpResponse]) -> Any:
            return self.door(lambda request, pool: view(self, request, pool))

        def on_slice(flow: type[OfSlice]) -> Any:
            return self.door(lambda request, pool, part: change_slice(self, request, pool, part, flow))

        part = "<str:pool>/slices/<str:part>"
        return [
            path("create/", self.door(lambda request: create_pool(self, request)), name="pools_pool_create"),
            path("<str:pool>/configuration/", on_pool(edit_pool), name="pools_pool_configure"),
            path("<str:pool>/archive/", on_pool(archive_pool), name="pools_pool_archive"),
            path("<str:pool>/slices/create/", on_pool(create_slice), name="pools_slice_create"),
            path(f"{part}/resize/", on_slice(Resize), name="pools_slice_resize"),
            path(f"{part}/delete/", on_slice(Delete), name="pools_slice_delete"),
            path(f"{part}/recreate/", on_slice(Recreate), name="pools_slice_recreate"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:index"))

    def show_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        if split(object_id).subpool is not None:
            row = visible_pool(actor, object_id)
            return HttpResponseRedirect(
                reverse("admin:pools_pool_change", args=[row.root.name]) + f"#{row.subpool_name}"
            )
        root = visible_root(actor, object_id)
        (tree,) = pool_tree.trees([root])
        draining = [row for row in tree.leaves if row.state == SubpoolState.DELETING or row.parts.draining]
        held = pool_tree.holders([row.name for row in draining])
        return self.page(
            request,
            "osmo/pool.html",
            title=root.name,
            crumbs=[("Pools", reverse("admin:index"))],
            pool=root,
            tree=tree,
            debts=[(row, held[row.name]) for row in draining],
            archived=pool_tree.archived_slices(root),
            entries=_entries(request, root),
            may_partition=allows(actor, Action.POOL_PARTITION, root.name) and not root.archived,
            may_configure=allows(actor, Action.POOL_CONFIGURE, root.name),
            may_submit=allows(actor, Action.POOL_SUBMIT, root.name) and not root.archived,
        )


def _entries(request: HttpRequest, root: Pool) -> list[AuditEntry]:
    """The newest entries on the pool and its slices that this person may read."""
    mine = AuditEntry.objects.visible_to(actor_of(request)).filter(pool_id=root.pk, object__startswith="pool/")
    return list(mine.order_by("-id")[:ENTRIES_SHOWN])
