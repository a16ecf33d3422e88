"""The sync status of each cluster's queues: condition, drift with its editors, and the connection test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.backends import cluster_tabs
from pools.admin.configuration.pool_changes import pool_form_values
from pools.admin.forms import script_media
from pools.domain.errors import DomainError
from pools.domain.people.roles import Permission, is_allowed
from pools.models import Backend, Pool
from pools.permissions import require_platform
from pools.selectors.clusters import is_observed
from pools.services.configuration.backends import read_backend
from scheduling.domain.list_columns import DRIFT_COLUMNS, SYNC_COLUMNS
from scheduling.domain.queues.adoption import Adoption, find_adoption
from scheduling.domain.queues.sync_advice import (
    OBSERVED,
    SyncAdvice,
    SyncFacts,
    advise_sync,
    observer_commands,
    rights_commands,
)
from scheduling.models import QueueDrift, QueueSync
from scheduling.selectors.cluster.queue_sync_state import QueueSyncAnswer, find_queue_sync, list_drift, queue_sync_body
from scheduling.services.kubernetes.connection_test import request_connection_test, require_cluster
from scheduling.services.kubernetes.syncing.queue_sync import request_sync


@dataclass(frozen=True, slots=True)
class DriftRow:
    """A changed field, and the address of the preview that makes the other client's value the desired one; empty where
    no number of the ledger does."""

    drift: QueueDrift
    adopt_address: str


@dataclass(frozen=True, slots=True)
class SyncRow:
    """A cluster in the list: the state as in the API, the number of fields that still differ, and the next step."""

    backend: Backend
    state: QueueSyncAnswer
    open_drift: int
    advice: SyncAdvice | None


@admin.register(QueueSync)
class ClusterSyncAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers; an osmo-admin requests a sync or a connection test."""

    address = "clusters/-/sync"
    object_address = "clusters/<str:object_id>/sync"
    read_permission = Permission.PLATFORM_READ

    def show_list(self, request: HttpRequest) -> HttpResponse:
        clusters = Backend.objects.filter(kind=Backend.Kind.KUBERNETES).order_by("name")
        rows = [_sync_row(each) for each in clusters]
        return self.render_page(
            request,
            "osmo/cluster_sync_list.html",
            title="Cluster sync",
            crumbs=[("Clusters", reverse("admin:pools_backend_changelist"))],
            columns=SYNC_COLUMNS,
            rows=rows,
            wrong=sum(not row.state["in_step"] and row.state["mode"] != "off" for row in rows),
            may_write=is_allowed(actor_of(request), Permission.PLATFORM_WRITE),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """`object_id` is the backend's name."""
        backend = read_backend(actor_of(request), object_id)
        require_cluster(backend)
        if request.method == "POST":
            return self._request_action(request, backend)
        row, shown = find_queue_sync(backend), _sync_row(backend)
        is_testing = row.connection_test_requested_at is not None and (
            row.connection_tested_at is None or row.connection_tested_at < row.connection_test_requested_at
        )
        return self.render_page(
            request,
            "osmo/cluster_sync.html",
            title=backend.name,
            crumbs=[("Clusters", reverse("admin:pools_backend_changelist"))],
            tabs=cluster_tabs(request, backend),
            backend=backend,
            row=row,
            state=shown.state,
            advice=shown.advice,
            is_observed=is_observed(backend),
            rights_commands=observer_commands("osmo")
            if is_observed(backend)
            else rights_commands(backend.name, backend.namespace),
            open_drift=shown.open_drift,
            columns=DRIFT_COLUMNS,
            drift=_drift_rows(backend, list_drift(backend)),
            is_testing=is_testing,
            is_soon=is_testing or (row.attempted_at is None and not is_observed(backend)),
            script=script_media("copy"),
            may_write=is_allowed(actor_of(request), Permission.PLATFORM_WRITE),
        )

    def _request_action(self, request: HttpRequest, backend: Backend) -> HttpResponse:
        actor = actor_of(request)
        require_platform(actor)
        action, queue = request.POST.get("do"), request.POST.get("queue", "")
        try:
            if action == "test":
                request_connection_test(actor=actor, backend=backend.name)
                self.show_success(request, "A worker tests the connection; the result appears here.")
            elif action == "reapply":
                request_sync(actor=actor, backend=backend.name, reapply=[queue] if queue else True)
                self.show_success(
                    request,
                    f"A worker reverts {queue or 'all queues'} to the desired state; the result appears here.",
                )
            else:
                request_sync(actor=actor, backend=backend.name)
                self.show_success(request, "A worker syncs the queues; the result appears here.")
        except DomainError as refusal:
            self.show_warning(request, refusal.message)
        return HttpResponseRedirect(request.path)


def _sync_row(backend: Backend) -> SyncRow:
    state = queue_sync_body(backend)
    open_drift = sum(each["reapplied_at"] is None for each in state["drift"])
    reason = OBSERVED if is_observed(backend) else state["condition"]["reason"]
    facts = SyncFacts(backend.name, backend.namespace, reason, state["mode"] is not None, open_drift)
    return SyncRow(backend, state, open_drift, advise_sync(facts))


def _drift_rows(backend: Backend, drift: Sequence[QueueDrift]) -> list[DriftRow]:
    """The rows of the table; one query for all pools."""
    found = {each.pk: find_adoption(backend.namespace, each.queue, each.field, each.theirs) for each in drift}
    names = {adoption.pool for adoption in found.values() if adoption}
    rows = Pool.objects.roots().select_related("cohort").filter(backend=backend, archived=False, name__in=names)
    pools = {row.name: row for row in rows}
    return [DriftRow(each, _adopt_address(backend, found[each.pk], pools)) for each in drift]


def _adopt_address(backend: Backend, adoption: Adoption | None, pools: dict[str, Pool]) -> str:
    """The usual preview of the change, with the value of the cluster as its input."""
    root = pools.get(adoption.pool) if adoption else None
    if adoption is None or root is None:
        return ""
    reason: dict[str, Any] = {"description": f"Adopted from cluster {backend.name}"}
    if adoption.subpool is not None:
        page = reverse("admin:pools_subpool_resize_preview", args=[root.name, adoption.subpool])
        return f"{page}?{urlencode({'quota': adoption.value, **reason})}"
    if adoption.field == "maximum" and root.cohort is not None:
        return ""  # the limit of its queue follows from the cohort, too
    values: dict[str, Any] = pool_form_values(root) | {adoption.field: adoption.value}
    # 0 is an amount, and equal to False.
    sent = {
        field: "on" if value is True else value
        for field, value in values.items()
        if value is not None and value is not False and value != ""
    }
    return f"{reverse('admin:pools_pool_configure_preview', args=[root.name])}?{urlencode({**sent, **reason})}"
