"""Workflows: found, looked at, cancelled."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.paging import ROWS_ON_A_PAGE, Window, page_number
from pools.admin.policy import PolicyAdmin, actor_of
from pools.domain.errors import DomainError
from pools.domain.roles import Action, Actor, allows
from pools.models import AuditEntry
from pools.permissions import require
from scheduling import pages
from scheduling.admin.queue import queue_page
from scheduling.admin.submit import submit_page
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.gangs import rows_of
from scheduling.selectors.queue import waiting_of
from scheduling.selectors.workflows import WorkflowFilter, listed_workflows, queues_of, visible_workflow, whole_workflow
from scheduling.services.workflows.user_actions import cancel_workflow, end_workflow, may_cancel

MOST_AT_ONCE = 200
ENTRIES_SHOWN = 30


class Filters(forms.FilterForm):
    """Which workflows to show."""

    first = ("q", "status", "pool")
    q = forms.text("Name", placeholder="part of a name")
    status = forms.choice(
        "Status",
        [
            ("", "any"),
            (pages.LIVE, "live: running or waiting"),
            (pages.ENDED, "ended"),
            *((status, status) for status in WorkflowStatus if status is not WorkflowStatus.WAITING),
        ],
        required=False,
    )
    pool = forms.text("Pool or slice", placeholder="team or team--a")
    user = forms.text("Submitted by", placeholder="exact name")
    priority = forms.choice("Priority", [("", "any"), *((each, each) for each in Priority)], required=False)
    since = forms.moment("Submitted from")
    until = forms.moment("Submitted until")

    def asked(self, actor: Actor) -> WorkflowFilter:
        """The same for the selector."""
        since, until = self.value("since"), self.value("until")
        return WorkflowFilter(
            users=[self.value("user")] if self.value("user") else None,
            statuses=pages.statuses_meant(self.value("status") or ""),
            pools=pages.leaves_meant(actor, self.value("pool")) if self.value("pool") else (),
            priorities=[self.value("priority")] if self.value("priority") else (),
            name=self.value("q") or "",
            submitted_after=since if isinstance(since, datetime) else None,
            submitted_before=until if isinstance(until, datetime) else None,
        )


class CancelForm(forms.HouseForm):
    """Why work ends before its time."""

    message = forms.text("Why", help_text="Optional. Its owner reads it beside the workflow.")


class EndForm(forms.HouseForm):
    """How running gangs ended."""

    status = forms.choice("The running gangs", [(TaskStatus.COMPLETED, "completed"), (TaskStatus.FAILED, "failed")])


@admin.register(Workflow)
class WorkflowAdmin(PolicyAdmin):
    """One's own workflows, and those of the pools where one has a role."""

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("submit/", self.door(lambda request: submit_page(self, request)), name="scheduling_workflow_submit"),
            path(
                "queue/<str:pool>/",
                self.door(lambda request, pool: queue_page(self, request, pool)),
                name="scheduling_workflow_queue",
            ),
            path("cancel/", self.door(self._cancel), name="scheduling_workflow_cancel"),
            path("<str:name>/end/", self.door(self._end), name="scheduling_workflow_end"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, filters = actor_of(request), Filters(request.GET)
        number = page_number(request.GET.get("page"))
        rows, more = listed_workflows(
            actor, filters.asked(actor), limit=ROWS_ON_A_PAGE, offset=(number - 1) * ROWS_ON_A_PAGE
        )
        listed = [(row, WorkflowStatus(row.status).is_live and may_cancel(actor, row)) for row in rows]
        return self.page(
            request,
            "osmo/workflows.html",
            title="Workflows",
            filters=filters,
            window=Window(rows, number, number + 1 if more else 0),
            listed=listed,
            may_cancel_some=any(cancellable for _, cancellable in listed),
            may_submit=actor.is_admin or bool(actor.pools_for(Action.POOL_SUBMIT)),
        )

    def show_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        workflow = whole_workflow(actor, object_id, every_try=True)
        groups = list(workflow.groups.all())
        queue, _ = queues_of(workflow)
        subject = f"workflow/{workflow.name}"
        status = WorkflowStatus(workflow.status)
        told = waiting_of(actor, workflow)
        return self.page(
            request,
            "osmo/workflow.html",
            title=workflow.name,
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
            workflow=workflow,
            groups=[(group, list(group.tasks.all()), told.get(group.name), rows_of(group)) for group in groups],
            queue=queue,
            is_live=status.is_live,
            may_cancel=status.is_live and may_cancel(actor, workflow),
            may_end=status is WorkflowStatus.RUNNING
            and allows(actor, Action.POOL_MANAGE_WORK, workflow.root_pool.name)
            and workflow.root_pool.backend is not None
            and workflow.root_pool.backend.kind == "simulated",
            may_submit=allows(actor, Action.POOL_SUBMIT, workflow.root_pool.name),
            sees_pool=allows(actor, Action.POOL_READ, workflow.root_pool.name),
            entries=list(AuditEntry.objects.visible_to(actor).filter(object=subject).order_by("-id")[:ENTRIES_SHOWN]),
        )

    def _cancel(self, request: HttpRequest) -> HttpResponse:
        """Ask, then cancel: one workflow or those ticked in the list."""
        actor = actor_of(request)
        names = list(dict.fromkeys((request.POST if request.method == "POST" else request.GET).getlist("name")))
        back = reverse("admin:scheduling_workflow_changelist")
        if not names:
            return self._told(request, back, "Tick the workflows to cancel first.")
        names = names[:MOST_AT_ONCE]
        rows = [visible_workflow(actor, name) for name in names]
        if len(rows) == 1:
            back = reverse("admin:scheduling_workflow_change", args=[rows[0].name])
        if request.method == "POST" and request.POST.get("step") == "confirm":
            form = CancelForm(request.POST)
            if form.is_valid():
                return self._cancelled(request, [row.name for row in rows], form, back)
        else:
            form = CancelForm()
        return self.page(
            request,
            "osmo/cancel.html",
            title=f"Cancel {rows[0].name}" if len(rows) == 1 else f"Cancel {len(rows)} workflows",
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
            form=form,
            rows=[(row, WorkflowStatus(row.status).is_live, may_cancel(actor, row)) for row in rows],
            back=back,
        )

    def _cancelled(self, request: HttpRequest, names: list[str], form: CancelForm, back: str) -> HttpResponse:
        """Each is its own transaction: what could be cancelled is, and the rest says why not."""
        done, refused = 0, []
        for name in names:
            try:
                cancel_workflow(actor=actor_of(request), name=name, message=form.cleaned_data["message"])
            except DomainError as refusal:
                refused.append(refusal.message)
            else:
                done += 1
        if done:
            self.say(request, f"{names[0]} was cancelled." if len(names) == 1 else f"{done} workflows were cancelled.")
        return self._told(request, back, *refused[:5])

    def _end(self, request: HttpRequest, name: str) -> HttpResponse:
        """Report that the running gangs of a workflow on a simulated backend have ended."""
        workflow = visible_workflow(actor_of(request), name)
        require(actor_of(request), Action.POOL_MANAGE_WORK, workflow.root_pool.name)
        back = reverse("admin:scheduling_workflow_change", args=[workflow.name])
        form = EndForm(forms.sent(request), initial={"status": TaskStatus.COMPLETED})
        if request.method == "POST" and form.is_valid():
            try:
                ended = end_workflow(
                    actor=actor_of(request), name=workflow.name, status=TaskStatus(form.cleaned_data["status"])
                )
            except DomainError as refusal:
                form.blame(refusal)
            else:
                self.say(request, f"The running gangs of {ended.name} have ended; it is {ended.status} now.")
                return HttpResponseRedirect(back)
        return self.form_page(
            request,
            form,
            title=f"Report the end of {workflow.name}",
            button="Report the end",
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist")), (workflow.name, back)],
            lead="On a simulated backend nothing really runs, so somebody has to say that it is done. Groups that wait "
            "for these go on, or fail with them.",
        )

    def _told(self, request: HttpRequest, back: str, *sentences: str) -> HttpResponse:
        for sentence in sentences:
            self.warn(request, sentence)
        return HttpResponseRedirect(back)
