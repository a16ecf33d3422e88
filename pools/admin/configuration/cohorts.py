"""The quota tree in the browser, a page for each of its nodes, and the pages that change cohorts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django import forms as django_forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, register_converter, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.cohort_changes import configure_cohort_page, create_cohort_page, delete_cohort_page
from pools.admin.confirm_flow import change_paths
from pools.domain.columns import number_column
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.list_columns import FLAVOR_QUOTA_COLUMNS, NODE_COLUMNS
from pools.domain.numbers import TREE_NUMBERS
from pools.domain.people.roles import Permission, is_allowed
from pools.domain.values.amounts import as_json
from pools.models import AuditEntry, Cohort, Pool
from pools.representations.csv_files import csv_response, is_csv_request
from pools.representations.page_parameters import read_choice
from pools.selectors.quotas import quota_pages
from pools.selectors.quotas.degraded import capacity_warnings
from pools.services.changes.ownership import find_owner

MAX_ENTRIES_SHOWN = 8


class TreeFilterForm(django_forms.Form):
    """The filter of the tree by name. It does not take the focus, which would open the keyboard of a phone."""

    q = forms.text_field("Name, or a part of it")


class _CohortKind:
    """The kind of a node, which its address says by where it is: cohorts are below `/cohorts`."""

    kind: ClassVar[str] = "cohort"
    regex = ""

    def to_python(self, text: str) -> str:
        """The kind."""
        return self.kind

    def to_url(self, kind: str) -> str:
        """Nothing; raises ValueError for the other kind."""
        if kind != self.kind:
            raise ValueError(kind)
        return ""


class _PoolKind(_CohortKind):
    """Pools are nodes below their own page."""

    kind = "pool"


register_converter(_CohortKind, "cohort")
register_converter(_PoolKind, "pool")


@admin.register(Cohort)
class CohortAdmin(PolicyAdmin):
    """Everybody sees the part of the tree in which they have a role; osmo-admin changes cohorts."""

    address = "cohorts"

    def extra_urls(self) -> list[URLPattern]:
        def protect(view: Callable[..., HttpResponse]) -> Any:
            return self.protect(partial(view, self))

        return [
            *change_paths("cohorts/-/create", protect(create_cohort_page), name="pools_cohort_create"),
            *change_paths(
                "cohorts/<str:name>/configuration", protect(configure_cohort_page), name="pools_cohort_configure"
            ),
            *change_paths("cohorts/<str:name>/delete", protect(delete_cohort_page), name="pools_cohort_delete"),
            path("cohorts/<cohort:kind><str:name>", self.protect(self._node_page), name="pools_quota_node"),
            path("pools/<pool:kind><str:name>/quota", self.protect(self._node_page), name="pools_quota_node"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, query = actor_of(request), request.GET
        tree = quota_pages.quota_tree_page(actor, root=query.get("root") or None, key=query.get("resource", ""))
        read_choice(query, "resource", tree.keys)
        name = query.get("q", "").strip().lower()[: forms.MAX_TEXT_LENGTH]
        shown = tree.matching(name) if name else tree
        if is_csv_request(request):
            return _tree_file(shown)
        return self.render_page(
            request,
            "osmo/quota_tree.html",
            title="Quota tree",
            columns=NODE_COLUMNS,
            script=forms.script_media("quota-tree") + forms.script_media("columns"),
            tree=shown,
            filter_name=name,
            filter_form=TreeFilterForm(None, initial={"q": name}),
            has_nodes=bool(tree.rows),
            warnings=capacity_warnings(actor, Pool.objects.visible_to(actor).roots().values("backend")),
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
            can_read_all=actor.can_read_all,
        )

    def _node_page(self, request: HttpRequest, kind: str, name: str) -> HttpResponse:
        actor = actor_of(request)
        page = quota_pages.quota_node_page(actor, kind, name, key=request.GET.get("resource", ""))
        read_choice(request.GET, "resource", page.keys)
        cohort = Cohort.objects.filter(name=name).first() if kind == "cohort" else None
        entries = AuditEntry.objects.visible_to(actor).filter(object=f"{kind}/{name}").order_by("-id")
        owner = find_owner(OwnedKind(kind), name) if kind in {OwnedKind.COHORT, OwnedKind.POOL} else None
        above = [(each.title, _node_url(each.key, each.name)) for each in page.above]
        return self.render_page(
            request,
            "osmo/quota_node.html",
            title=page.row.node.title,
            crumbs=[("Quota tree", reverse("admin:pools_cohort_changelist")), *above],
            page=page,
            columns=NODE_COLUMNS,
            flavor_columns=FLAVOR_QUOTA_COLUMNS,
            cohort=cohort,
            entries=list(entries[:MAX_ENTRIES_SHOWN]),
            git_owner=owner,
            git_owner_note="Change it in that file; it is read-only here.",
            may_write=cohort is not None and owner is None and is_allowed(actor, Permission.PLATFORM_WRITE),
        )


def _tree_file(tree: quota_pages.QuotaTreePage) -> HttpResponse:
    """The rows of the page, folded ones included, with the columns that it hides at first."""
    numbers = (*quota_pages.ROW_NUMBERS, "weighted_share")
    columns = [*NODE_COLUMNS, "parent", *(number_column(TREE_NUMBERS[key]).key for key in numbers)]
    titles = {row.node.key: row.node.title for row in tree.rows}
    lines = [
        [row.node.title, row.node.kind, titles.get(row.parent or ""), *map(as_json, row.amounts.values()), row.share]
        for row in tree.rows
    ]
    return csv_response("quota-tree", columns, lines)


def _node_url(key: str, name: str) -> str:
    return reverse("admin:pools_quota_node", args=[quota_pages.kind_segment_of(key), name])
