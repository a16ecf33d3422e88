"""Workflows: their list, one workflow, and the pages that cancel or end them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.filters import list_views
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.domain.errors import DomainError
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import Gpus
from pools.domain.values.counting import counted
from pools.models import AuditEntry, Backend
from pools.permissions import require_permission
from pools.representations.csv_files import MAX_CSV_ROWS, is_csv_request, list_csv
from pools.representations.page_parameters import read_choice
from pools.selectors.list_order import read_list_order
from pools.selectors.quotas.pool_tree import pool_trees_of
from pools.templatetags.osmo import state_label
from scheduling.admin.filters import ACTIVE, WorkflowPageFilterSet
from scheduling.admin.pool_queue import pool_queue_page
from scheduling.admin.reports.comparison import comparison_page
from scheduling.admin.submit import submit_workflow_page
from scheduling.admin.whole_queue import whole_queue_page
from scheduling.admin.work_actions import CANCEL, RETRY, action_page
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.flavor_choices import TaskGpus
from scheduling.domain.list_columns import GANG_COLUMNS, TASK_COLUMNS, WORKFLOW_COLUMNS
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Group, Workflow
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.selectors.queue.visible_queue import WaitingGang, waiting_gangs_of
from scheduling.selectors.receipts.receipts import read_receipts
from scheduling.selectors.reports.past_waits import PastWaits, read_waits
from scheduling.selectors.work.attempt_bars import read_attempt_chart
from scheduling.selectors.work.decisions import read_flavor_starts
from scheduling.selectors.work.gang_tree_rows import read_gang_tree_rows
from scheduling.selectors.work.observed_objects import find_observed_object
from scheduling.selectors.work.workflow_log import event_log_lines, gang_words
from scheduling.selectors.work.workflow_rows import WORKFLOW_ORDERS, read_workflow_rows
from scheduling.selectors.work.workflows import (
    get_full_workflow,
    get_visible_workflow,
    list_workflows,
    queue_names_of,
)
from scheduling.services.kubernetes.pod_output import observed_output
from scheduling.services.workflows.user_actions import end_workflow

MAX_ENTRIES_SHOWN = 30
MAX_EVENTS_SHOWN = 200
MAX_ROOM_SHOWN = 5


class EndWorkflowForm(forms.ServiceForm):
    """The result of the running gangs."""

    status = forms.choice_field(fields_of(EndWorkflow)["status"].label, [(each, each.lower()) for each in EndStatus])


@admin.register(Workflow)
class WorkflowAdmin(PolicyAdmin):
    """The reader's own workflows, and those of the pools on which the reader has a role."""

    address = "workflows"

    def extra_urls(self) -> list[URLPattern]:
        pages: dict[str, tuple[str, Callable[..., HttpResponse]]] = {
            "submit": ("submit", partial(submit_workflow_page, self)),
            "whole_queue": ("queue", partial(whole_queue_page, self)),
            "queue": ("queue/<str:pool>", partial(pool_queue_page, self)),
            "compare": ("workflows/-/compare", partial(comparison_page, self)),
            "cancel": ("workflows/-/cancel", partial(action_page, self, action=CANCEL)),
            "retry": ("workflows/-/retry", partial(action_page, self, action=RETRY)),
            "end": ("workflows/<str:name>/end", self._end),
        }
        return [
            path(route, self.protect(page), name=f"scheduling_workflow_{name}") for name, (route, page) in pages.items()
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        filters = WorkflowPageFilterSet(request, Workflow.objects.visible_to(actor))
        order = read_list_order(request.GET, WORKFLOW_COLUMNS, default="-submitted", **WORKFLOW_ORDERS)
        found = filters.qs.order_by(*order.expressions)
        if order.key == "submitted":  # as the index has it
            sign = "-" if order.is_descending else ""
            found = filters.qs.order_by(f"{sign}submit_time", f"{sign}name")
        if is_csv_request(request):
            every, _ = list_workflows(found, limit=MAX_CSV_ROWS, offset=0)
            return list_csv("workflows", WORKFLOW_COLUMNS, read_workflow_rows(actor, every))
        number = parse_page_number(request.GET.get("page"))
        workflows, more = list_workflows(found, limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
        rows = read_workflow_rows(actor, workflows)
        can_change_some = any(
            not action.obstacle(actor, row.workflow, row.observed) for row in rows for action in (CANCEL, RETRY)
        )
        return self.render_page(
            request,
            "osmo/workflows.html",
            title="Workflows",
            filters=filters,
            script=forms.script_media("columns"),
            views=list_views(
                request,
                ("All", {}),
                ("Mine", {"user": actor.username}),
                ("My active work", {"user": actor.username, "status": ACTIVE}),
                ("Pending", {"status": WorkflowStatus.PENDING}),
                ("Running", {"status": WorkflowStatus.RUNNING}),
            ),
            order=order,
            columns=WORKFLOW_COLUMNS,
            count=filters.qs.order_by().count(),
            rows=rows,
            window=ListPage(workflows, number, number + 1 if more else 0),
            can_change_some=can_change_some,
            is_all_selected=read_choice(request.GET, "select", ["all"]) == "all",
            address_filters=request.GET.urlencode(),
            may_submit=actor.is_admin or bool(actor.pools_with(Permission.POOL_SUBMIT)),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        workflow = get_full_workflow(actor, object_id, all_attempts=True)
        groups = workflow.loaded_groups
        queue, _ = queue_names_of(workflow)
        status = WorkflowStatus(workflow.status)
        waiting_gangs = waiting_gangs_of(actor, workflow)
        waits, starts = read_waits(groups, timezone.now()), read_flavor_starts(workflow)
        words, gpus = gang_words(workflow), sum(group.gpus for group in groups)
        subjects = [f"workflow/{workflow.name}", f"preemption/{workflow.name}"]
        observed = find_observed_object(workflow)
        return self.render_page(
            request,
            "osmo/workflow.html",
            title=workflow.name,
            crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
            workflow=workflow,
            receipts=read_receipts(actor, workflow, waiting_gangs),
            gang_columns=GANG_COLUMNS,
            task_columns=TASK_COLUMNS,
            groups=[
                (
                    group,
                    group.loaded_tasks,
                    waiting_gangs.get(group.name),
                    read_gang_tree_rows(group),
                    PastWaits(waits.get(group.pk, ())),
                    starts.get(group.pk),
                    counted(group.gpus, *words(group)),
                )
                for group in groups
            ],
            queue=queue,
            gpus=gpus,
            gpus_text=counted(gpus, *words(*groups)) if workflow.root_pool.flavors else "",
            nodes=_nodes_of(groups),
            has_retries=any(task.retry_id for group in groups for task in group.loaded_tasks),
            room=_subpools_with_room(actor, workflow, waiting_gangs),
            events=event_log_lines(workflow)[-MAX_EVENTS_SHOWN:],
            chart=read_attempt_chart(
                workflow, {group: found[0].since for group, found in waits.items()}, timezone.now()
            ),
            script=forms.script_media("output"),
            is_on_cluster=workflow.root_pool.backend is not None
            and workflow.root_pool.backend.kind == Backend.Kind.KUBERNETES,
            is_active=status.is_active,
            observed=observed,
            output_lines=_observed_output(groups) if observed is not None else [],
            may_cancel=not CANCEL.obstacle(actor, workflow, observed),
            may_retry=not RETRY.obstacle(actor, workflow, observed),
            may_end=is_allowed(actor, Permission.POOL_MANAGE_WORK, workflow.root_pool.name)
            and not _end_obstacle(workflow),
            may_submit=observed is None and is_allowed(actor, Permission.POOL_SUBMIT, workflow.root_pool.name),
            may_see_pool=is_allowed(actor, Permission.POOL_READ, workflow.root_pool.name),
            entries=list(
                AuditEntry.objects.visible_to(actor).filter(object__in=subjects).order_by("-id")[:MAX_ENTRIES_SHOWN]
            ),
        )

    def _end(self, request: HttpRequest, name: str) -> HttpResponse:
        """Report that the running gangs of a workflow on a simulated backend have ended."""
        workflow = get_visible_workflow(actor_of(request), name)
        require_permission(actor_of(request), Permission.POOL_MANAGE_WORK, workflow.root_pool.name)
        back = reverse("admin:scheduling_workflow_change", args=[workflow.name])
        title, crumbs = (
            f"Report the end of {workflow.name}",
            [("Workflows", reverse("admin:scheduling_workflow_changelist")), (workflow.name, back)],
        )
        if reason := _end_obstacle(workflow):
            return self.render_page(
                request,
                "osmo/change_unavailable.html",
                title=title,
                crumbs=crumbs,
                status=409,
                reason=reason,
                back=back,
            )
        form = EndWorkflowForm(forms.submitted_data(request), initial={"status": EndStatus.COMPLETED})
        if request.method == "POST" and form.is_valid():
            try:
                command = EndWorkflow(name=workflow.name, status=EndStatus(form.cleaned_data["status"]))
                ended = end_workflow(command, actor=actor_of(request))
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
            title=title,
            button="Report the end",
            crumbs=crumbs,
            lead="Work on a simulated cluster does not really run, so its end is reported by hand. Groups that depend "
            "on these continue, or fail with them.",
        )


def _end_obstacle(workflow: Workflow) -> str:
    """Why nobody can report the end of this work; empty if it is possible."""
    backend = workflow.root_pool.backend
    if backend is None or backend.kind != Backend.Kind.SIMULATED:
        return f"{workflow.name} does not run on a simulated cluster: its end is observed."
    if workflow.status != WorkflowStatus.RUNNING:
        return f"{workflow.name} is not running ({state_label(workflow.status)}); only running work can end."
    return ""


def _observed_output(groups: Iterable[Group]) -> list[str]:
    """How the output of the last attempts of observed tasks is read."""
    latest = {(task.group_id, task.name): task for group in groups for task in group.loaded_tasks}
    return observed_output(list(latest.values()))


def _nodes_of(groups: Iterable[Group]) -> list[str]:
    """The nodes on which tasks run, or ran last where none runs; each once."""
    tasks = [task for group in groups for task in group.loaded_tasks if task.node_name]
    running = [task for task in tasks if task.end_time is None]
    return sorted({task.node_name for task in running or tasks})


@dataclass(frozen=True, slots=True)
class _Room:
    """Another subpool with enough guaranteed GPUs free; in a pool with GPU flavors, of this one."""

    name: str
    available: Gpus
    flavor: str = ""


def _subpools_with_room(actor: Actor, workflow: Workflow, waiting: Mapping[str, WaitingGang]) -> list[_Room]:
    """Other subpools of the pool with enough guaranteed GPUs free for the largest waiting gang, most first, if the
    actor may submit there."""
    root = workflow.root_pool
    largest = max(waiting.items(), key=lambda each: each[1].gpus, default=None)
    if largest is None or not largest[1].gpus or not is_allowed(actor, Permission.POOL_SUBMIT, root.name):
        return []
    name, gpus = largest[0], largest[1].gpus
    (tree,) = pool_trees_of([root])
    rows = [row for row in tree.leaves if row.name != workflow.pool.name and row.state == SubpoolState.ACTIVE]
    if root.flavors:
        tasks = [
            task
            for group in workflow.loaded_groups
            if group.name == name
            for task in group.loaded_tasks
            if not task.end_time
        ]
        requested = [TaskGpus(task.gpu_count, tuple(task.gpu_flavors), task.platform) for task in tasks]
        free = {(row.label, row.flavor): row.available for row in tree.by_flavor}
        flavors = [next(iter(need)) for need in read_pool_flavors(root).needs(requested, gpus, None) if len(need) == 1]
        fits = [_Room(row.name, free.get((row.label, each), 0), each) for row in rows for each in flavors]
    else:
        fits = [_Room(row.name, row.available) for row in rows]
    enough = [room for room in fits if room.available >= gpus]
    return sorted(enough, key=attrgetter("available"), reverse=True)[:MAX_ROOM_SHOWN]
