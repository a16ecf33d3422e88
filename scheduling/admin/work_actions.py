"""Pages that cancel or retry workflows: one, or those selected in the list, each with its own result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.done_changes import sent_once
from pools.domain.changes.command import title_of
from pools.domain.errors import DomainError
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.values.counting import counted
from pools.services.changes.dry_run import impact_body
from pools.services.changes.shown_effects import (
    ShownChange,
    confirmed_effect,
    confirming,
    effect_in_transaction,
    keep_memos,
    shown_command,
)
from pools.signals import Impact
from pools.templatetags.osmo import state_label
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.list_columns import RESULT_COLUMNS, WORKFLOW_COLUMNS
from scheduling.domain.observed.observed_object import ObservedAction, ObservedObject, observed_obstacle
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.what_if.impact import read_cancel_impact
from scheduling.selectors.work.observed_objects import read_observed_objects
from scheduling.selectors.work.workflows import get_visible_workflow
from scheduling.services.workflows.resubmission import retry_submission
from scheduling.services.workflows.submission import submit
from scheduling.services.workflows.user_actions import cancel_workflow, cancel_workflows, may_cancel

MAX_SELECTED = 200
_MAX_FILTERS = 2000


_REASON = fields_of(CancelWorkflow)["message"]


class CancelWorkflowForm(forms.ServiceForm):
    """The reason of a cancellation."""

    message = forms.text_field(_REASON.label, help_text=_REASON.help)


class RetryWorkflowForm(forms.ServiceForm):
    """A retry has no fields."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action on one workflow; `address` is the page of the workflow to look at next."""

    name: str
    is_done: bool
    message: str
    address: str


@dataclass(frozen=True, slots=True)
class WorkAction:
    """An action on workflows. `obstacle` says why the actor cannot do it to a workflow (with the object behind one that
    was observed), empty if it is possible; `run` does it and returns the workflow to look at next, with a message.
    `read_impact` says which other work it starts or stops. `run_all` does it to several at once; without it each is on
    its own."""

    verb: str
    done: str
    note: str
    form: type[forms.ServiceForm]
    is_dangerous: bool
    address: str
    obstacle: Callable[[Actor, Workflow, ObservedObject | None], str]
    run: Callable[[Actor, Workflow, forms.ServiceForm], tuple[Workflow, str]]
    read_impact: Callable[[Actor, Collection[Workflow]], Impact | None] | None = None
    run_all: Callable[[Actor, Sequence[Workflow], forms.ServiceForm], list[ActionResult]] | None = None


def _cancel_obstacle(actor: Actor, workflow: Workflow, seen: ObservedObject | None) -> str:
    if not WorkflowStatus(workflow.status).is_active:
        return f"{workflow.name} has already ended ({state_label(workflow.status)}); there is nothing to cancel."
    if not may_cancel(actor, workflow):
        return f"{workflow.name} is not yours, and you are not an admin of its pool."
    return observed_obstacle(workflow.name, seen, ObservedAction.CANCEL)


def _retry_obstacle(actor: Actor, workflow: Workflow, seen: ObservedObject | None) -> str:
    if not WorkflowStatus(workflow.status).is_failed:
        state = state_label(workflow.status)
        return f"{workflow.name} is {state}; only failed workflows can be restarted. Submit its file again instead."
    if not is_allowed(actor, Permission.POOL_SUBMIT, workflow.root_pool.name):
        return f"You may not submit to {workflow.pool.name}, the pool of {workflow.name}."
    return observed_obstacle(workflow.name, seen, ObservedAction.SUBMIT_AGAIN)


def _cancel(actor: Actor, workflow: Workflow, form: forms.ServiceForm) -> tuple[Workflow, str]:
    command, message = CancelWorkflow(name=workflow.name), form.cleaned_data["message"]
    with (
        confirming(_shown_cancellation([workflow]), actor),
        confirmed_effect(command, actor=actor, title=title_of(command), description=message),
    ):
        cancel_workflow(replace(command, message=message), actor=actor)
    return workflow, _cancelled(workflow)


def _cancel_all(actor: Actor, workflows: Sequence[Workflow], form: forms.ServiceForm) -> list[ActionResult]:
    """In one transaction, so that the next scheduling cycle sees all GPUs that become free, as the preview did."""
    shown, message = _shown_cancellation(workflows), form.cleaned_data["message"]
    names = [row.name for row in workflows]
    try:
        with (
            confirming(shown, actor),
            effect_in_transaction(actor=actor, title=shown.title, description=message),
        ):
            refusals = cancel_workflows(names, actor=actor, message=message)
    except DomainError as refusal:
        refusals = dict.fromkeys(names, refusal.message)
    return [
        ActionResult(row.name, not refusals[row.name], refusals[row.name] or _cancelled(row), _page_of(row))
        for row in workflows
    ]


def _cancelled(workflow: Workflow) -> str:
    return f"{workflow.name} was cancelled."


def _shown_cancellation(workflows: Sequence[Workflow]) -> ShownChange:
    if len(workflows) == 1:
        return shown_command(CancelWorkflow(name=workflows[0].name))
    return ShownChange(f"Cancel {counted(len(workflows), 'workflow')}", " ".join(sorted(row.name for row in workflows)))


def _retry(actor: Actor, workflow: Workflow, form: forms.ServiceForm) -> tuple[Workflow, str]:
    def submit_again() -> tuple[str, str]:
        receipt = submit(actor=actor, pool=workflow.pool.name, submission=retry_submission(workflow))
        assert receipt.workflow is not None
        return receipt.workflow.name, f"{workflow.name} was submitted again as {receipt.workflow.name}."

    (name, message), _ = sent_once(actor, form, workflow.name, submit_again)
    return get_visible_workflow(actor, name), message


CANCEL = WorkAction(
    verb="Cancel",
    done="cancelled",
    note="Running tasks are stopped now and their GPUs are free at once. This cannot be undone; the file can be "
    "submitted again.",
    form=CancelWorkflowForm,
    is_dangerous=True,
    address="admin:scheduling_workflow_cancel",
    obstacle=_cancel_obstacle,
    run=_cancel,
    read_impact=read_cancel_impact,
    run_all=_cancel_all,
)
RETRY = WorkAction(
    verb="Retry",
    done="submitted again",
    note="Each workflow is submitted again to its pool, as a new workflow with the same file and priority.",
    form=RetryWorkflowForm,
    is_dangerous=False,
    address="admin:scheduling_workflow_retry",
    obstacle=_retry_obstacle,
    run=_retry,
)


def action_page(admin: PolicyAdmin, request: HttpRequest, action: WorkAction) -> HttpResponse:
    """Ask, then do it: to one workflow, whose page follows, or to several, with a result for each. The list to which
    the page leads back keeps its filters."""
    actor = actor_of(request)
    sent = request.POST if request.method == "POST" else request.GET
    names = list(dict.fromkeys(sent.getlist("name")))[:MAX_SELECTED]
    filters = QueryDict(sent.get("filters", "")[:_MAX_FILTERS].removeprefix("?")).urlencode()
    back = reverse("admin:scheduling_workflow_changelist") + (f"?{filters}" if filters else "")
    if not names:
        admin.show_warning(request, f"Select the workflows to {action.verb.lower()} first.")
        return HttpResponseRedirect(back)
    rows = [get_visible_workflow(actor, name) for name in names]
    form = action.form(request.POST if request.POST.get("step") == "confirm" else None)
    if form.is_bound and form.is_valid():
        return _answer(admin, request, action, rows, form, back)
    is_single = len(rows) == 1
    seen = read_observed_objects(rows)
    obstacles = [(row, action.obstacle(actor, row, seen.get(row.pk))) for row in rows]
    possible = [row for row, obstacle in obstacles if not obstacle]
    effect = action.read_impact(actor, possible) if action.read_impact is not None and possible else None
    if effect is not None:
        keep_memos(_shown_cancellation(rows), actor, effect.memos)
    return admin.render_page(
        request,
        "osmo/work_action.html",
        title=f"{action.verb} {rows[0].name}" if is_single else f"{action.verb} {len(rows)} workflows",
        crumbs=[("Workflows", back)],
        action=action,
        form=form,
        columns=WORKFLOW_COLUMNS,
        rows=obstacles,
        is_possible=bool(possible),
        effect=None if effect is None else impact_body([effect]),
        filters=filters,
        back=_page_of(rows[0]) if is_single else back,
    )


def _answer(
    admin: PolicyAdmin,
    request: HttpRequest,
    action: WorkAction,
    rows: Sequence[Workflow],
    form: forms.ServiceForm,
    back: str,
) -> HttpResponse:
    actor = actor_of(request)
    if action.run_all is not None and len(rows) > 1:
        results = action.run_all(actor, rows, form)
    else:
        results = [_run(actor, action, row, form) for row in rows]
    if len(results) == 1:
        (only,) = results
        show = admin.show_success if only.is_done else admin.show_warning
        show(request, only.message)
        return HttpResponseRedirect(only.address)
    workflows = counted(len(results), "workflow")
    return admin.render_page(
        request,
        "osmo/work_action_results.html",
        title=f"{action.verb} {workflows}",
        crumbs=[("Workflows", back)],
        columns=RESULT_COLUMNS,
        results=results,
        summary=f"{sum(each.is_done for each in results)} of {workflows} {'was' if len(results) == 1 else 'were'} "
        f"{action.done}.",
        back=back,
    )


def _run(actor: Actor, action: WorkAction, row: Workflow, form: forms.ServiceForm) -> ActionResult:
    """A refusal concerns one workflow."""
    try:
        after, message = action.run(actor, row, form)
    except DomainError as refusal:
        return ActionResult(row.name, False, refusal.message, _page_of(row))
    return ActionResult(row.name, True, message, _page_of(after))


def _page_of(workflow: Workflow) -> str:
    return reverse("admin:scheduling_workflow_change", args=[workflow.name])
