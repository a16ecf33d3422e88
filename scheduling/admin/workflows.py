"""Workflows: their list, one workflow, and the pages that cancel or end them."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.domain.errors import DomainError
from pools.domain.roles import Permission, is_allowed
from pools.models import AuditEntry
from pools.permissions import require_permission
from scheduling.admin.filters import WorkflowPageFilterSet
from scheduling.admin.pool_queue import pool_queue_page
from scheduling.admin.submit import submit_workflow_page
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.gang_tree_rows import read_gang_tree_rows
from scheduling.selectors.visible_queue import waiting_gangs_of
from scheduling.selectors.workflows import (
    get_full_workflow,
    get_visible_workflow,
    list_workflows,
    queue_names_of,
)
from scheduling.services.workflows.user_actions import cancel_workflow, end_workflow, may_cancel

MAX_CANCELLED_AT_ONCE = 200
MAX_ENTRIES_SHOWN = 30


class CancelWorkflowForm(forms.ServiceForm):
    """The reason of a cancellation."""

    message = forms.text_field("Reason", help_text="Optional. The owner sees it with the workflow.")


class EndWorkflowForm(forms.ServiceForm):
    """The result of the running gangs."""

    status = forms.choice_field(
        "The running gangs", [(TaskStatus.COMPLETED, "completed"), (TaskStatus.FAILED, "failed")]
    )


@admin.register(Workflow)
class WorkflowAdmin(PolicyAdmin):
    """The reader's own workflows, and those of the pools on which the reader has a role."""

    def extra_urls(self) -> list[URLPattern]:
        return [
            path(
                "submit/",
                self.protect(lambda request: submit_workflow_page(self, request)),
                name="scheduling_workflow_submit",
            ),
            path(
                "queue/<str:pool>/",
                self.protect(lambda request, pool: pool_queue_page(self, request, pool)),
                name="scheduling_workflow_queue",
            ),
            path("cancel/", self.protect(self._cancel), name="scheduling_workflow_cancel"),
            path("<str:name>/end/", self.protect(self._end), name="scheduling_workflow_end"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        filters = WorkflowPageFilterSet(request, Workflow.objects.visible_to(actor).order_by("-submit_time", "-name"))
        number = parse_page_number(request.GET.get("page"))
        rows, more = list_workflows(filters.qs, limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
        listed = [(row, WorkflowStatus(row.status).is_active and may_cancel(actor, row)) for row in rows]
        return self.render_page(
            request,
            "osmo/workflows.html",
            title="Workflows",
            filters=filters,
            window=ListPage(rows, number, number + 1 if more else 0),
            listed=listed,
            may_cancel_some=any(cancellable for _, cancellable in listed),
            may_submit=actor.is_admin or bool(actor.pools_with(Permission.POOL_SUBMIT)),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        workflow = get_full_workflow(actor, object_id, all_attempts=True)
        groups = list(workflow.groups.all())
        queue, _ = queue_names_of(workflow)
        subject = f"workflow/{workflow.name}"
        status = WorkflowStatus(workflow.status)
        waiting_gangs = waiting_gangs_of(actor, workflow)
        return self.render_page(
            request,
            "osmo/workflow.html",
            title=workflow.name,
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
            workflow=workflow,
            groups=[
                (group, list(group.tasks.all()), waiting_gangs.get(group.name), read_gang_tree_rows(group))
                for group in groups
            ],
            queue=queue,
            is_active=status.is_active,
            may_cancel=status.is_active and may_cancel(actor, workflow),
            may_end=status is WorkflowStatus.RUNNING
            and is_allowed(actor, Permission.POOL_MANAGE_WORK, workflow.root_pool.name)
            and workflow.root_pool.backend is not None
            and workflow.root_pool.backend.kind == "simulated",
            may_submit=is_allowed(actor, Permission.POOL_SUBMIT, workflow.root_pool.name),
            may_see_pool=is_allowed(actor, Permission.POOL_READ, workflow.root_pool.name),
            entries=list(
                AuditEntry.objects.visible_to(actor).filter(object=subject).order_by("-id")[:MAX_ENTRIES_SHOWN]
            ),
        )

    def _cancel(self, request: HttpRequest) -> HttpResponse:
        """Ask, then cancel: one workflow or those selected in the list."""
        actor = actor_of(request)
        names = list(dict.fromkeys((request.POST if request.method == "POST" else request.GET).getlist("name")))
        back = reverse("admin:scheduling_workflow_changelist")
        if not names:
            return self._redirect_with_warnings(request, back, "Select the workflows to cancel first.")
        names = names[:MAX_CANCELLED_AT_ONCE]
        rows = [get_visible_workflow(actor, name) for name in names]
        if len(rows) == 1:
            back = reverse("admin:scheduling_workflow_change", args=[rows[0].name])
        if request.method == "POST" and request.POST.get("step") == "confirm":
            form = CancelWorkflowForm(request.POST)
            if form.is_valid():
                return self._cancel_each(request, [row.name for row in rows], form, back)
        else:
            form = CancelWorkflowForm()
        return self.render_page(
            request,
            "osmo/cancel.html",
            title=f"Cancel {rows[0].name}" if len(rows) == 1 else f"Cancel {len(rows)} workflows",
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
            form=form,
            rows=[(row, WorkflowStatus(row.status).is_active, may_cancel(actor, row)) for row in rows],
            back=back,
        )

    def _cancel_each(self, request: HttpRequest, names: list[str], form: CancelWorkflowForm, back: str) -> HttpResponse:
        """Cancel each in its own transaction, and warn about those that could not be cancelled."""
        done, refused = 0, []
        for name in names:
            try:
                cancel_workflow(actor=actor_of(request), name=name, message=form.cleaned_data["message"])
            except DomainError as refusal:
                refused.append(refusal.message)
            else:
                done += 1
        if done:
            self.show_success(
                request, f"{names[0]} was cancelled." if len(names) == 1 else f"{done} workflows were cancelled."
            )
        return self._redirect_with_warnings(request, back, *refused[:5])

    def _end(self, request: HttpRequest, name: str) -> HttpResponse:
        """Report that the running gangs of a workflow on a simulated backend have ended."""
        workflow = get_visible_workflow(actor_of(request), name)
        require_permission(actor_of(request), Permission.POOL_MANAGE_WORK, workflow.root_pool.name)
        back = reverse("admin:scheduling_workflow_change", args=[workflow.name])
        form = EndWorkflowForm(forms.submitted_data(request), initial={"status": TaskStatus.COMPLETED})
        if request.method == "POST" and form.is_valid():
            try:
                ended = end_workflow(
                    actor=actor_of(request), name=workflow.name, status=TaskStatus(form.cleaned_data["status"])
                )
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(
                    request, f"The running gangs of {ended.name} have ended; the workflow is {ended.status} now."
                )
                return HttpResponseRedirect(back)
        return self.render_form_page(
            request,
            form,
            title=f"Report the end of {workflow.name}",
            button="Report the end",
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist")), (workflow.name, back)],
            lead="Work on a simulated cluster does not really run, so its end is reported by hand. Groups that depend "
            "on these continue, or fail with them.",
        )

    def _redirect_with_warnings(self, request: HttpRequest, back: str, *warnings: str) -> HttpResponse:
        for sentence in warnings:
            self.show_warning(request, sentence)
        return HttpResponseRedirect(back)
