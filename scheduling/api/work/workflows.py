"""Workflows: list, read, cancel, end, tag (design, O7.2, A3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change
from pools.api.questions import parameters_of, read_query
from pools.api.schema import NULL, describe_operation
from pools.api.views import View
from pools.domain.people.roles import Actor
from pools.domain.questions import parameter
from pools.domain.structured_input.declared_values import BOOLEAN
from pools.services.changes.dry_run import EffectAnswer, read_effect
from scheduling.api.work.workflow_bodies import (
    WorkflowAnswer,
    WorkflowLinks,
    WorkflowListAnswer,
    detailed_list_entry,
    workflow_detail,
    workflow_list_entry,
)
from scheduling.domain.changes.workflows import CancelWorkflow, EndWorkflow, TagWorkflow, WorkflowChange
from scheduling.domain.lists import WorkflowQuery
from scheduling.filtersets.work import workflow_filters
from scheduling.models import Workflow
from scheduling.selectors.work.workflow_rows import read_workflow_rows
from scheduling.selectors.work.workflows import (
    get_full_workflow,
    list_tags,
    list_workflow_entries,
    list_workflows,
)
from scheduling.services.workflows.user_actions import (
    cancel_workflow,
    end_workflow,
    require_manage,
    require_own_or_manage,
    tag_workflow,
)

WorkflowChangeT = TypeVar("WorkflowChangeT", bound=WorkflowChange)


class WorkflowList(View):
    """Workflows that the caller may see; by default only those of the caller."""

    @describe_operation("List workflows.", query_parameters=parameters_of(WorkflowQuery), answer=WorkflowListAnswer)
    def get(self, request: Request) -> Response:
        filters = workflow_filters(request.query_params, self.actor)
        matching, limit = filters.matching_rows(), filters.value("limit")
        links = WorkflowLinks(request)
        if filters.value("details"):
            workflows, more = list_workflows(matching, limit=limit, offset=filters.value("offset"))
            entries = [detailed_list_entry(row, links) for row in read_workflow_rows(self.actor, workflows)]
        else:
            listed, more = list_workflow_entries(filters.page_sql, limit=limit)
            entries = [workflow_list_entry(each, links) for each in listed]
        answer: WorkflowListAnswer = {"workflows": entries, "more_entries": more}
        if filters.value("total"):
            answer["total"] = matching.order_by().count()
        return Response(answer)


@dataclass(frozen=True, slots=True)
class WorkflowDetailQuery:
    """How much of a workflow is shown."""

    verbose: bool = parameter(BOOLEAN, "With the earlier attempts of its tasks.", default=False)


class WorkflowDetail(View):
    """One workflow by id or uuid; with `verbose` the earlier attempts of its tasks, too."""

    @describe_operation(
        "Show a workflow with its groups and tasks.",
        query_parameters=parameters_of(WorkflowDetailQuery),
        answer=WorkflowAnswer,
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(_workflow_body(self, name, all_attempts=read_query(WorkflowDetailQuery, request).verbose))


class WorkflowNameAnswer(TypedDict):
    """The workflow that was changed."""

    name: str


def _name_body(workflow: Workflow) -> WorkflowNameAnswer:
    return {"name": workflow.name}


class WorkflowCancel(View):
    """The cancellation of an active workflow, by its owner or an admin of the pool."""

    @describe_change(CancelWorkflow, answer=WorkflowNameAnswer)
    def post(self, request: Request, name: str) -> Response:
        return _answer_change(self, CancelWorkflow, cancel_workflow, _name_body, require_own_or_manage)


class WorkflowEnd(View):
    """An admin of the pool reports how simulated work ended; the answer is the workflow."""

    @describe_change(EndWorkflow, required=["status"], answer=WorkflowAnswer)
    def post(self, request: Request, name: str) -> Response:
        return _answer_change(self, EndWorkflow, end_workflow, self._body, require_manage)

    def _body(self, workflow: Workflow) -> WorkflowAnswer:
        return _workflow_body(self, workflow.name)


class WorkflowTags(View):
    """A change of the tags of a workflow, by its owner or an admin of the pool."""

    @describe_change(TagWorkflow, answer=NULL)
    def post(self, request: Request, name: str) -> Response:
        return _answer_change(self, TagWorkflow, tag_workflow, answer_nothing, require_own_or_manage)


class TagListAnswer(TypedDict):
    """The tags in use."""

    tags: list[str]


class TagList(View):
    """Every tag in use on workflows that the caller may see."""

    @describe_operation("List the tags in use.", answer=TagListAnswer)
    def get(self, request: Request) -> Response:
        return Response(TagListAnswer(tags=list_tags(self.actor)))


def _answer_change(
    view: View,
    kind: type[WorkflowChangeT],
    service: Callable[..., Workflow],
    render: Callable[[Workflow], object],
    require: Callable[[Actor, str], object],
) -> Response:
    """The answer of a change of the workflow in the address. `require` asks for the permission of the change."""

    def guard(actor: Actor, address: Mapping[str, Any]) -> None:
        require(actor, address["name"])

    changes: ChangeAnswer[WorkflowChangeT, Workflow] = ChangeAnswer(render, partial(_effect, view), guard)
    return answer_change(view, kind, service, changes, {"name": view.kwargs["name"]})


def _effect(view: View, command: WorkflowChange, run: Callable[[], Workflow], actor: Actor) -> EffectAnswer:
    return read_effect(run, read_state=partial(_workflow_body, view, command.name), actor=actor)


def _workflow_body(view: View, name: str, *, all_attempts: bool = False) -> WorkflowAnswer:
    workflow = get_full_workflow(view.actor, name, all_attempts=all_attempts)
    return workflow_detail(view.actor, workflow, WorkflowLinks(view.request))
