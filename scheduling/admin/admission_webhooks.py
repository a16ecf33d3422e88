"""The admission webhooks of each cluster: their mode, the accounts they allow, and requests that bypass OSMO Admin."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import reason_field
from pools.admin.configuration.backends import cluster_tabs
from pools.domain.changes.command import body_fields, read_command
from pools.domain.errors import Conflict, DomainError, Stale
from pools.domain.people.roles import Permission, is_allowed
from pools.models import Backend
from pools.permissions import require_platform
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.domain.list_columns import BYPASS_COLUMNS, WEBHOOK_COLUMNS
from scheduling.models import QueueGuard, UnmarkedReviews, WebhookInstallation
from scheduling.services.webhooks.queue_guard import list_bypasses, put_queue_guard, queue_guard_for, read_queue_guard

MAX_CALLERS_SHOWN = 200
_ABOUT = body_fields(PutQueueGuard)


class AdmissionWebhookForm(forms.ServiceForm):
    """The input of :class:`PutQueueGuard`, with one account a line."""

    mode = forms.choice_field(_ABOUT["mode"].label, QueueGuard.Mode.choices)
    identity = forms.text_field(_ABOUT["identity"].label, help_text=_ABOUT["identity"].help)
    accounts = forms.text_area_field(
        _ABOUT["accounts"].label, rows=4, help_text=f"One a line. {_ABOUT['accounts'].help}"
    )
    strict_minimums = forms.checkbox_field(_ABOUT["strict_minimums"].label, help_text=_ABOUT["strict_minimums"].help)
    description = reason_field()
    version = forms.hidden_number_field()

    def command(self, backend: str) -> PutQueueGuard:
        """The change of a valid form. Raises BadInput with every fault of the accounts."""
        values = {key: self.cleaned_data[key] for key in _ABOUT}
        lines = [line.strip() for line in values["accounts"].splitlines()]
        values |= {"identity": values["identity"].strip(), "accounts": [each for each in lines if each]}
        return read_command(PutQueueGuard, values, {"backend": backend})


@admin.register(QueueGuard)
class AdmissionWebhookAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers, changed by osmo-admin."""

    address = "clusters/-/webhooks"
    object_address = "clusters/<str:object_id>/webhooks"
    read_permission = Permission.PLATFORM_READ

    def show_list(self, request: HttpRequest) -> HttpResponse:
        clusters = (
            Backend.objects.filter(kind=Backend.Kind.KUBERNETES)
            .select_related("guard")
            .annotate(callers=Count("bypasses"), attempts=Sum("bypasses__attempts"))
            .order_by("name")
        )
        rows = [
            {"backend": row, "guard": row.guard if hasattr(row, "guard") else queue_guard_for(row)} for row in clusters
        ]
        return self.render_page(
            request,
            "osmo/admission_webhooks.html",
            title="Admission webhooks",
            crumbs=[("Clusters", reverse("admin:pools_backend_changelist"))],
            columns=WEBHOOK_COLUMNS,
            rows=rows,
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """`object_id` is the backend's name."""
        actor = actor_of(request)
        if request.method == "POST":
            require_platform(actor)
        row = read_queue_guard(actor, object_id)
        if row.backend.kind == Backend.Kind.SIMULATED:
            raise Conflict(f"Cluster {object_id} is simulated; it has no webhooks.")
        initial = {"mode": row.mode, "identity": row.identity, "accounts": "\n".join(row.accounts)}
        form = AdmissionWebhookForm(
            forms.submitted_data(request),
            initial=initial | {"version": row.version, "strict_minimums": row.strict_minimums},
        )
        if request.method == "POST" and form.is_valid():
            try:
                put_queue_guard(
                    form.command(object_id),
                    actor=actor,
                    description=form.cleaned_data["description"],
                    expected_version=form.cleaned_data["version"],
                )
            except Stale as refusal:
                form.add_stale_error(refusal, "version", str(row.version))
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(
                    request, f"The admission webhooks of {object_id} are now in mode {form.cleaned_data['mode']}."
                )
                return HttpResponseRedirect(request.path)
        met = list_bypasses(actor, object_id)
        return self.render_page(
            request,
            "osmo/admission_webhook.html",
            title=object_id,
            crumbs=[("Clusters", reverse("admin:pools_backend_changelist"))],
            tabs=cluster_tabs(request, row.backend),
            form=form,
            row=row,
            installation=WebhookInstallation.objects.filter(backend=row.backend).first(),
            unmarked=UnmarkedReviews.objects.filter(backend=row.backend).first(),
            columns=BYPASS_COLUMNS,
            bypasses=met[:MAX_CALLERS_SHOWN],
            more=max(0, len(met) - MAX_CALLERS_SHOWN),
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
            button="Save",
            status=400 if form.errors else 200,
        )
