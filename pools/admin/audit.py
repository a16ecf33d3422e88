"""The audit log: every change as a message, with its row before and after."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.reverts import revert_address
from pools.admin.filters import CONFIGURATION, AuditPageFilterSet, list_views
from pools.admin.forms import script_media
from pools.admin.paging import paginate
from pools.api.rendering import UtcJsonEncoder
from pools.domain.audit_labels import NUMBERS_OF_ROWS, column_label, column_text
from pools.domain.list_columns import AUDIT_COLUMNS
from pools.models import AuditEntry
from pools.representations.csv_files import FORMAT_PARAMETER, csv_response
from pools.representations.page_parameters import read_choice
from pools.selectors.audit_trail import entries_by_cause, entry_body

MAX_EXPORTED = 10_000


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """One column of a row before and after."""

    key: str
    label: str
    before: Any
    after: Any

    @property
    def is_changed(self) -> bool:
        """Whether the change touched the column."""
        return bool(self.before != self.after)


def column_differences(entry: AuditEntry) -> list[ColumnDifference]:
    """Every column of the row before or after, in the words of people, without the numbers of rows. The spec of a GPU
    quota has a line for each of its amounts."""
    kind = entry.object.partition("/")[0]
    before, after = (
        dict(_amounts(row or {})) if kind == "gpu_quota" else row or {} for row in (entry.before, entry.after)
    )
    return [
        ColumnDifference(
            key, column_label(kind, key), *(column_text(kind, key, row.get(key)) for row in (before, after))
        )
        for key in sorted((before | after).keys() - NUMBERS_OF_ROWS)
    ]


def _amounts(row: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _amounts(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


@admin.register(AuditEntry)
class AuditAdmin(PolicyAdmin):
    """Read-only, like the table itself."""

    address = "activity/audit"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        filters = AuditPageFilterSet(request, AuditEntry.objects.visible_to(actor_of(request)))
        if form := read_choice(request.GET, FORMAT_PARAMETER, ["csv", "json"]):
            return _export(form, filters.qs.order_by("-id")[:MAX_EXPORTED])
        window = paginate(filters.qs.order_by("-id"), request.GET.get("page"))
        return self.render_page(
            request,
            "osmo/audit.html",
            title="Audit log",
            script=script_media("columns"),
            columns=AUDIT_COLUMNS,
            filters=filters,
            views=list_views(request, ("Everything", {}), ("Configuration", {"show": CONFIGURATION})),
            window=window,
            causes=entries_by_cause(window.rows),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        visible = AuditEntry.objects.visible_to(actor_of(request))
        if not object_id.isascii() or not object_id.isdigit() or len(object_id) > 18:
            raise Http404
        entry = visible.filter(pk=int(object_id)).first()
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
            revert=revert_address(actor_of(request), entry),
            request_entries=list(visible.filter(request_id=entry.request_id).exclude(pk=entry.pk).order_by("-id")[:20])
            if entry.request_id
            else [],
        )


def _export(form: str, entries: Iterable[AuditEntry]) -> HttpResponse:
    """The newest entries that match the filters as a file; in JSON they are as `/api/audit` lists them."""
    bodies: Iterator[Mapping[str, Any]] = map(entry_body, entries)
    if form == "csv":
        rows = ([_csv_value(body[key]) for key in AUDIT_COLUMNS] for body in bodies)
        return csv_response("audit", list(AUDIT_COLUMNS), rows)
    headers = {"Content-Disposition": 'attachment; filename="audit.json"'}
    return JsonResponse({"entries": list(bodies)}, encoder=UtcJsonEncoder, headers=headers)


def _csv_value(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return value


def _object_url(subject: str) -> str:
    """The page of an entry's object; empty where it has none."""
    kind, _, name = subject.partition("/")
    pages = {
        "pool": "pools_pool", "workflow": "scheduling_workflow", "user": "pools_user", "backend": "pools_backend",
        "gpu_quota": "pools_gpuquota", "approval": "pools_approvalrequest",
    }  # fmt: skip
    if kind == "cohort" and name:
        return reverse("admin:pools_quota_node", args=[kind, name])
    return reverse(f"admin:{pages[kind]}_change", args=[name]) if kind in pages and name else ""
