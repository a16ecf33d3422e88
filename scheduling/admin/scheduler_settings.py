"""The settings of the scheduler that apply without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import reason_field
from pools.admin.confirm_flow import Change, ChangeForm, ConfirmFlow, Done
from pools.admin.git_ownership import owned_reason
from pools.admin.object_preview import CONFIGS, ObjectPreview, form_label, form_value
from pools.domain.changes.command import read_command
from pools.domain.page_addresses import PREVIEW_SEGMENT, is_preview_address
from pools.domain.people.roles import Permission, is_allowed
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.values.scalars import typed_number
from pools.permissions import require_platform
from scheduling.domain.changes.settings import DRAIN_INTERVAL, MAX_RETRY, UpdateSettings
from scheduling.models import WorkflowConfig
from scheduling.selectors.cluster.scheduler_settings import config_body, current_config
from scheduling.services.workflow_config import update_workflow_config

TITLE = "Settings"


_MINUTES, _RETRIES = (fields_of(UpdateSettings)[name] for name in (DRAIN_INTERVAL, MAX_RETRY))


class SchedulerSettingsForm(ChangeForm):
    """The drain monitor's interval, and the retries of a task."""

    field_by_path = {DRAIN_INTERVAL: "minutes", MAX_RETRY: "retries"}
    kept_fields = frozenset({"minutes", "retries"})
    minutes = forms.text_field(_MINUTES.label, help_text=_MINUTES.help, unit=_MINUTES.unit, inputmode="numeric")
    retries = forms.text_field(_RETRIES.label, help_text=_RETRIES.help, unit=_RETRIES.unit, inputmode="numeric")
    description = reason_field()

    def command(self) -> UpdateSettings:
        """The change; an empty number of retries changes nothing."""
        minutes, retries = self.cleaned_data["minutes"], self.cleaned_data["retries"]
        return read_command(
            UpdateSettings,
            {DRAIN_INTERVAL: typed_number(minutes), MAX_RETRY: typed_number(retries) if retries else None},
        )


def _save(command: UpdateSettings, **note: Any) -> Done:
    update_workflow_config(command, **note)
    return Done()


class SettingsPreview(ObjectPreview[Done]):
    """The preview of a change of the settings, whose form is on their page."""

    form_template: ClassVar[str] = "osmo/scheduler_settings.html"


@admin.register(WorkflowConfig)
class WorkflowConfigAdmin(PolicyAdmin):
    """One row on one page: the form for those who may change it, the values for all other readers."""

    address = "settings"
    read_permission = Permission.PLATFORM_READ

    def extra_urls(self) -> list[URLPattern]:
        return [
            path(
                f"{self.address}{PREVIEW_SEGMENT}",
                self.protect(self._configure),
                name="scheduling_workflowconfig_preview",
            )
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST" or is_allowed(actor_of(request), Permission.PLATFORM_WRITE):
            return self._configure(request)
        return self.render_page(request, "osmo/scheduler_settings.html", title=TITLE, row=current_config())

    def _configure(self, request: HttpRequest) -> HttpResponse:
        actor, row = actor_of(request), current_config()
        require_platform(actor)
        above = (TITLE, _address()) if is_preview_address(request.path) else ("Home", reverse("admin:index"))

        change = Change(
            title=TITLE,
            button="Save the settings",
            unavailable_reason=owned_reason(UpdateSettings, "workflow"),
            breadcrumbs=[above],
            form_class=SchedulerSettingsForm,
            initial={"minutes": row.subpool_drain_interval_minutes, "retries": row.max_retry_per_task},
            version=row.version,
            preview=SettingsPreview(
                actor=actor,
                read_state=_state,
                label_of=form_label(SchedulerSettingsForm),
                value_of=form_value(SchedulerSettingsForm),
                messages=_messages,
                form_words={"row": row, "may_write": True},
            ),
            service=_save,
            success_message="The scheduler settings were saved and apply from now on.",
            success_url=_address(),
        )
        return ConfirmFlow(self, request, change).respond()


def _state() -> dict[str, Any]:
    body = config_body(current_config())
    return {CONFIGS: {DRAIN_INTERVAL: body[DRAIN_INTERVAL], MAX_RETRY: body[MAX_RETRY]}}


def _messages(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old, new = before[CONFIGS], after[CONFIGS]
    if old[DRAIN_INTERVAL] != new[DRAIN_INTERVAL]:
        yield (
            f"A drained subpool whose last workflow ended unnoticed is archived {new[DRAIN_INTERVAL]} minutes later at "
            f"the most, instead of {old[DRAIN_INTERVAL]}. The end of a workflow that is noticed archives its subpool "
            "at once, as before."
        )
    if new[MAX_RETRY] < old[MAX_RETRY]:
        yield (
            f"A task that fails with the exit action RESCHEDULE starts again {new[MAX_RETRY]} times at the most, "
            f"instead of {old[MAX_RETRY]}. A running task that was retried more often already goes on; it fails for "
            "good at its next failure."
        )
    elif new[MAX_RETRY] > old[MAX_RETRY]:
        yield (
            f"A task that fails with the exit action RESCHEDULE starts again up to {new[MAX_RETRY]} times, instead of "
            f"{old[MAX_RETRY]}; running work has the new limit, too. Tasks that failed for good stay failed."
        )


def _address() -> str:
    return reverse("admin:scheduling_workflowconfig_changelist")
