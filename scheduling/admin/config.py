"""How the house runs workflows, as far as it can be turned while it runs."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin import forms
from pools.admin.policy import PolicyAdmin, actor_of
from pools.domain.errors import DomainError, Stale
from pools.domain.roles import Action, Actor, allows
from pools.permissions import require_house
from scheduling.models import WorkflowConfig
from scheduling.services.workflow_config import DRAIN_INTERVAL, current, update_workflow_config


class ConfigForm(forms.HouseForm):
    """The drain monitor's interval, and the version that was shown."""

    paths = {DRAIN_INTERVAL: "minutes"}
    minutes = forms.text(
        "Look for drained slices every … minutes",
        help_text="1 to 10080. The last workflow that ends archives its slice at once; this is the net under it. "
        "Counts from now, without a restart.",
        inputmode="numeric",
    )
    version = forms.hidden_number()


@admin.register(WorkflowConfig)
class WorkflowConfigAdmin(PolicyAdmin):
    """One row, one page."""

    def may_see(self, actor: Actor) -> bool:
        return allows(actor, Action.HOUSE_READ)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        if request.method == "POST":
            require_house(actor)
        row = current()
        form = ConfigForm(
            forms.sent(request), initial={"minutes": row.subpool_drain_interval_minutes, "version": row.version}
        )
        if request.method == "POST" and form.is_valid():
            text = form.cleaned_data["minutes"]
            try:
                update_workflow_config(
                    actor=actor,
                    drain_interval_minutes=int(text) if text.isascii() and text.isdigit() else text,
                    expected_version=form.cleaned_data["version"],
                )
            except DomainError as refusal:
                form.blame(refusal)
                if isinstance(refusal, Stale):
                    form.retype("version", str(row.version))
            else:
                self.say(request, f"The drain monitor looks every {text} minutes from now.")
                return HttpResponseRedirect(request.path)
        return self.page(
            request,
            "osmo/workflow_config.html",
            title="Workflow configuration",
            form=form,
            row=row,
            may_write=allows(actor, Action.HOUSE_WRITE),
            back=reverse("admin:index"),
            button="Save",
            status=400 if form.errors else 200,
        )

    def show_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:scheduling_workflowconfig_changelist"))
