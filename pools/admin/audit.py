"""The audit log: every change as a message, with its row before and after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import paginate
from pools.models import AuditEntry, Pool
from pools.models.audit import AuditQuerySet

OBJECT_KINDS = ("pool", "workflow", "user", "token", "backend", "config")


class AuditFilterForm(forms.FilterForm):
    """Which entries to show."""

    first = ("q", "actor", "kind")
    q = forms.text_field("Object", placeholder="pool/team--a, workflow/hello-1, or a part of it")
    actor = forms.text_field("Who", placeholder="exact name")
    kind = forms.choice_field("Kind", [("", "all kinds"), *((kind, kind) for kind in OBJECT_KINDS)], required=False)
    action = forms.text_field("Action", placeholder="subpool.updated, or updated")
    pool = forms.text_field("Pool", placeholder="exact name, with its slices")
    since = forms.datetime_field("From")
    until = forms.datetime_field("Until")

    def narrow(self, rows: AuditQuerySet) -> AuditQuerySet:
        """The entries that match."""
        if text := self.value("q"):
            rows = (
                rows.filter(object=text)
                if "/" in text and _is_object_name(text)
                else rows.filter(object__contains=text)
            )
        if actor := self.value("actor"):
            rows = rows.filter(actor=actor)
        if kind := self.value("kind"):
            rows = rows.filter(object__startswith=f"{kind}/")
        if action := self.value("action"):
            rows = rows.filter(Q(action=action) | Q(action__endswith=f".{action}"))
        if pool := self.value("pool"):
            rows = rows.filter(pool_id__in=Pool.objects.filter(name=pool).values("pk"))
        since, until = self.value("since"), self.value("until")
        if isinstance(since, datetime):
            rows = rows.filter(time__gte=since)
        if isinstance(until, datetime):
            rows = rows.filter(time__lte=until)
        return rows


def _is_object_name(text: str) -> bool:
    return AuditEntry.objects.filter(object=text).exists()


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """One column of a row before and after."""

    key: str
    before: Any
    after: Any

    @property
    def is_changed(self) -> bool:
        """Whether the change touched the column."""
        return bool(self.before != self.after)


def column_differences(entry: AuditEntry) -> list[ColumnDifference]:
    """Every column of the row before or after."""
    before, after = entry.before or {}, entry.after or {}
    return [ColumnDifference(key, before.get(key), after.get(key)) for key in sorted(before | after)]


@admin.register(AuditEntry)
class AuditAdmin(PolicyAdmin):
    """Read-only, like the table itself."""

    def show_list(self, request: HttpRequest) -> HttpResponse:
        filters = AuditFilterForm(request.GET)
        rows = filters.narrow(AuditEntry.objects.visible_to(actor_of(request))).order_by("-id")
        return self.render_page(
            request,
            "osmo/audit.html",
            title="Audit log",
            filters=filters,
            window=paginate(rows, request.GET.get("page")),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        seen = AuditEntry.objects.visible_to(actor_of(request))
        if not object_id.isascii() or not object_id.isdigit() or len(object_id) > 18:
            raise Http404
        entry = seen.filter(pk=int(object_id)).first()
        if entry is None:
            raise Http404
        columns = column_differences(entry)
        return self.render_page(
            request,
            "osmo/audit_entry.html",
            title=f"Entry {entry.pk}",
            crumbs=[("Audit log", reverse("admin:pools_auditentry_changelist"))],
            entry=entry,
            changed=[each for each in columns if each.is_changed],
            kept=[each for each in columns if not each.is_changed],
            link=_object_url(entry.object),
            request_entries=list(seen.filter(request_id=entry.request_id).exclude(pk=entry.pk).order_by("-id")[:20])
            if entry.request_id
            else [],
        )


def _object_url(subject: str) -> str:
    """The page of an entry's object; empty where it has none."""
    kind, _, name = subject.partition("/")
    pages = {"pool": "pools_pool", "workflow": "scheduling_workflow", "user": "pools_user", "backend": "pools_backend"}
    return reverse(f"admin:{pages[kind]}_change", args=[name]) if kind in pages and name else ""
