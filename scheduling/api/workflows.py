"""Workflows: list, read, cancel, end, tag (OSMO contract, 7.2; api.md, "Simulated backend")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import (
    BodyReader,
    body_object,
    collect_faults,
    query_boolean,
    query_page,
    reject_unknown_keys,
)
from pools.api.schema import BOOLEAN, DRY_RUN, NULL, TEXT, QueryParameter, describe_operation
from pools.api.views import View
from pools.domain.roles import Actor
from pools.services.dry_run import read_effect
from scheduling.api.queries import query_list
from scheduling.api.work_schemas import END_REPORT, NOTES_BODY, WORKFLOW_FILTERS
from scheduling.api.workflow_bodies import (
    WorkflowAnswer,
    WorkflowLinks,
    WorkflowListAnswer,
    detailed_list_entry,
    workflow_detail,
    workflow_list_entry,
)
from scheduling.domain.statuses import TaskStatus
from scheduling.filtersets.work import matching_workflows
from scheduling.selectors.visible_queue import waiting_gangs_of
from scheduling.selectors.workflow_rows import read_workflow_rows
from scheduling.selectors.workflows import (
    get_full_workflow,
    get_visible_workflow,
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

REPORTABLE_STATUSES = (TaskStatus.COMPLETED, TaskStatus.FAILED)
_LIST_DETAILS = (
    QueryParameter("details", BOOLEAN, "With the GPUs of each workflow, and the reason and start of work that waits."),
    QueryParameter("total", BOOLEAN, "With the number of all workflows that match, as `total`."),
)


class WorkflowList(View):
    """Workflows that the caller may see; by default only those of the caller."""

    @describe_operation(
        "List workflows.", query_parameters=[*WORKFLOW_FILTERS, *_LIST_DETAILS], answer=WorkflowListAnswer
    )
    def get(self, request: Request) -> Response:
        (limit, offset), with_details, with_total, matching = collect_faults(
            lambda: query_page(request),
            lambda: query_boolean(request, "details"),
            lambda: query_boolean(request, "total"),
            lambda: matching_workflows(request.query_params, self.actor),
        )
        links = WorkflowLinks(request)
        if with_details:
            workflows, more = list_workflows(matching, limit=limit, offset=offset)
            entries = [detailed_list_entry(row, links) for row in read_workflow_rows(self.actor, workflows)]
        else:
            listed, more = list_workflow_entries(matching, limit=limit, offset=offset)
            entries = [workflow_list_entry(each, links) for each in listed]
        answer: WorkflowListAnswer = {"workflows": entries, "more_entries": more}
        if with_total:
            answer["total"] = matching.order_by().count()
        return Response(answer)


class WorkflowDetail(View):
    """One workflow by id or uuid; with `verbose` the earlier attempts of its tasks, too."""

    @describe_operation(
        "Show a workflow with its groups and tasks.",
        query_parameters=[QueryParameter("verbose", BOOLEAN, "With the earlier attempts of its tasks.")],
        answer=WorkflowAnswer,
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(_workflow_body(self, request, name, all_attempts=query_boolean(request, "verbose")))


class WorkflowNameAnswer(TypedDict):
    """The workflow that was changed."""

    name: str


class WorkflowCancel(View):
    """The cancellation of an active workflow, by its owner or an admin of the pool."""

    @describe_operation(
        "Cancel a workflow. A dry run also names the work that would start, and the LOW work that would be reclaimed.",
        query_parameters=[
            QueryParameter("force", BOOLEAN, "A workflow that has ended already is not an error."),
            QueryParameter("message", TEXT, "The reason, for the audit log."),
            DRY_RUN,
        ],
        body=NOTES_BODY,
        answer=WorkflowNameAnswer,
    )
    def post(self, request: Request, name: str) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        force = query_boolean(request, "force")
        message = request.query_params.get("message") or ""

        def operation() -> Response:
            workflow = cancel_workflow(actor=self.actor, name=name, message=message, force=force)
            return Response(WorkflowNameAnswer(name=workflow.name))

        return _apply_or_preview(self, request, name, operation, require_own_or_manage)


class WorkflowEnd(View):
    """An admin of the pool reports how simulated work ended; the answer is the workflow."""

    @describe_operation(
        "Report how simulated work ended.", query_parameters=[DRY_RUN], body=END_REPORT, answer=WorkflowAnswer
    )
    def post(self, request: Request, name: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("status", "group"))
        status, description = reader.body.get("status"), reader.description
        if status not in REPORTABLE_STATUSES:
            reader.add_fault("status", "bad_value", f"must be {' or '.join(REPORTABLE_STATUSES)}.")
        group = reader.any_text("group") if reader.is_given("group") else None
        reader.raise_faults()

        def operation() -> Response:
            end_workflow(
                actor=self.actor, name=name, status=TaskStatus(str(status)), group=group, description=description
            )
            return Response(_workflow_body(self, request, name))

        return _apply_or_preview(self, request, name, operation, require_manage)


class WorkflowTags(View):
    """A change of the tags of a workflow, by its owner or an admin of the pool."""

    @describe_operation(
        "Add tags to a workflow and remove others.",
        query_parameters=[
            QueryParameter("add", TEXT, "Tags to add.", is_list=True),
            QueryParameter("remove", TEXT, "Tags to remove.", is_list=True),
            DRY_RUN,
        ],
        body=NOTES_BODY,
        answer=NULL,
    )
    def post(self, request: Request, name: str) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        add, remove = query_list(request, "add"), query_list(request, "remove")

        def operation() -> Response:
            tag_workflow(actor=self.actor, name=name, add=add, remove=remove)
            return Response(None)

        return _apply_or_preview(self, request, name, operation, require_own_or_manage)


class TagListAnswer(TypedDict):
    """The tags in use."""

    tags: list[str]


class TagList(View):
    """Every tag in use on workflows that the caller may see."""

    @describe_operation("List the tags in use.", answer=TagListAnswer)
    def get(self, request: Request) -> Response:
        return Response(TagListAnswer(tags=list_tags(self.actor)))


def _apply_or_preview(
    view: View, request: Request, name: str, operation: Callable[[], Response], require: Callable[[Actor, str], object]
) -> Response:
    """Run the operation, or with `dry_run` answer its effect on the workflow. `require` asks for the permission of the
    operation."""
    if not query_boolean(request, "dry_run"):
        return view.run_once(operation, require=lambda: require(view.actor, name))
    get_visible_workflow(view.actor, name)
    return Response(read_effect(operation, read_state=lambda: _workflow_body(view, request, name), actor=view.actor))


def _workflow_body(view: View, request: Request, name: str, *, all_attempts: bool = False) -> WorkflowAnswer:
    workflow = get_full_workflow(view.actor, name, all_attempts=all_attempts)
    return workflow_detail(workflow, WorkflowLinks(request), waiting_gangs_of(view.actor, workflow))
