"""The settings of the scheduler that apply without a restart."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.domain.errors import DomainError, Stale
from pools.domain.roles import Actor, Permission, is_allowed
from pools.permissions import require_platform
from scheduling.models import WorkflowConfig
from scheduling.services.workflow_config import DRAIN_INTERVAL, MAX_RETRY, current_config, update_workflow_config


class SchedulerSettingsForm(forms.ServiceForm):
    """The drain monitor's interval, the retries of a task, and the version that was shown."""

    field_by_path = {DRAIN_INTERVAL: "minutes", MAX_RETRY: "retries"}
    minutes = forms.text_field(
        "Check for drained subpools every … minutes",
        help_text="1 to 10080. The last workflow that ends archives its subpool at once; this check finds any that "
        "was missed. Applies without a restart.",
        inputmode="numeric",
    )
    retries = forms.text_field(
        "Retry a task at most … times",
        help_text="0 to 100, where its exit actions say RESCHEDULE. Preempted work is always re-queued.",
        inputmode="numeric",
    )
    version = forms.hidden_number_field()


@admin.register(WorkflowConfig)
class WorkflowConfigAdmin(PolicyAdmin):
    """One row on one page."""

    def may_see(self, actor: Actor) -> bool:
        return is_allowed(actor, Permission.PLATFORM_READ)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        if request.method == "POST":
            require_platform(actor)
        row = current_config()
        present = {
            "minutes": row.subpool_drain_interval_minutes,
            "retries": row.max_retry_per_task,
            "version": row.version,
        }
        initial = forms.initial_values(request, SchedulerSettingsForm, present)
        form = SchedulerSettingsForm(forms.submitted_data(request), initial=initial)
        if request.method == "POST" and form.is_valid():
            minutes, retries = form.cleaned_data["minutes"], form.cleaned_data["retries"]
            try:
                update_workflow_config(
                    actor=actor,
                    drain_interval_minutes=_parse_number(minutes),
                    max_retry_per_task=_parse_number(retries) if retries else None,  # an empty field changes nothing
                    expected_version=form.cleaned_data["version"],
                )
            except Stale as refusal:
                form.add_stale_error(refusal, "version", str(row.version))
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(request, f"The drain monitor runs every {minutes} minutes from now on.")
                return HttpResponseRedirect(request.path)
        return self.render_page(
            request,
            "osmo/scheduler_settings.html",
            title="Scheduler settings",
            form=form,
            row=row,
            reverts=forms.reverted_entry(request),
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
            back=reverse("admin:index"),
            button="Save",
            status=400 if form.errors else 200,
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:scheduling_workflowconfig_changelist"))


def _parse_number(text: str) -> int | str:
    """The input, as a number if it is one."""
    return int(text) if text.isascii() and text.isdigit() else text
