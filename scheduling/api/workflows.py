"""Workflows: list, read, cancel, end, tag (OSMO contract, 7.2; api.md, "Simulated backend")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, boolean, only, page, unknown_keys
from pools.api.schema import BOOLEAN, DRY_RUN, NULL, TEXT, Query, array, documented, fields
from pools.api.times import moment
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.services.dry_run import effect_of
from scheduling.api.bodies import Links, detail, list_entry
from scheduling.api.queries import label_selectors, many, members, newest_first, pools, priorities, users
from scheduling.api.shapes import END, NOTES, WORKFLOW, WORKFLOW_FILTERS, WORKFLOWS
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.selectors.queue import waiting_of
from scheduling.selectors.workflows import (
    WorkflowFilter,
    listed_workflows,
    tags_of,
    visible_workflow,
    whole_workflow,
)
from scheduling.services.workflows.user_actions import cancel_workflow, end_workflow, tag_workflow

REPORTED = (TaskStatus.COMPLETED, TaskStatus.FAILED)


class WorkflowList(View):
    """Workflows that the caller may see; one's own unless others are asked for."""

    @documented("List workflows.", query=WORKFLOW_FILTERS, answer=WORKFLOWS)
    def get(self, request: Request) -> Response:
        limit, offset = page(request)
        app, _, version = (request.query_params.get("app") or "").partition(":")
        asked = WorkflowFilter(
            users=users(request, self.actor),
            statuses=members(many(request, "statuses"), WorkflowStatus, "statuses"),
            pools=pools(request),
            priorities=priorities(request),
            name=request.query_params.get("name") or "",
            tags=many(request, "tags"),
            labels=label_selectors(request),
            no_labels=many(request, "no_label"),
            app=(app, version) if app else None,
            submitted_after=moment(request, "submitted_after"),
            submitted_before=moment(request, "submitted_before"),
            newest_first=newest_first(request),
        )
        rows, more = listed_workflows(self.actor, asked, limit=limit, offset=offset)
        links = Links(request)
        return Response({"workflows": [list_entry(row, links) for row in rows], "more_entries": more})


class WorkflowDetail(View):
    """One workflow by id or uuid; with `verbose` the earlier tries of its tasks too."""

    @documented(
        "Show a workflow with its groups and tasks.",
        query=[Query("verbose", BOOLEAN, "With the earlier tries of its tasks.")],
        answer=WORKFLOW,
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(_whole(self, request, name, every_try=boolean(request, "verbose")))


class Cancel(View):
    """End a live workflow. The owner or an admin of the pool."""

    @documented(
        "Cancel a workflow.",
        query=[
            Query("force", BOOLEAN, "One that has ended already is no error."),
            Query("message", TEXT, "Why, for the audit trail."),
            DRY_RUN,
        ],
        body=NOTES,
        answer=fields({"name": TEXT}),
    )
    def post(self, request: Request, name: str) -> Response:
        only(body_object(request), "description", "tags")
        force = boolean(request, "force")
        message = request.query_params.get("message") or ""

        def deed() -> Response:
            workflow = cancel_workflow(actor=self.actor, name=name, message=message, force=force)
            return Response({"name": workflow.name})

        return _tried_or_done(self, request, name, deed)


class End(View):
    """Report how simulated work ended. An admin of the pool; answers the workflow."""

    @documented("Report how simulated work ended.", query=[DRY_RUN], body=END, answer=WORKFLOW)
    def post(self, request: Request, name: str) -> Response:
        body = body_object(request)
        found = unknown_keys(body, "status", "group", "description", "tags")
        status = body.get("status")
        if status not in REPORTED:
            found.append(Violation("status", "bad_value", f"status is {' or '.join(REPORTED)}."))
        group, description = body.get("group"), body.get("description") or ""
        if group is not None and not isinstance(group, str):
            found.append(Violation("group", "bad_value", "group is the name of a group."))
        if not isinstance(description, str):
            found.append(Violation("description", "bad_value", "description must be a text."))
        if found:
            raise BadInput.of(found)

        def deed() -> Response:
            end_workflow(
                actor=self.actor, name=name, status=TaskStatus(str(status)), group=group, description=description
            )
            return Response(_whole(self, request, name))

        return _tried_or_done(self, request, name, deed)


class Tag(View):
    """Take tags off a workflow and put tags on it. The owner or an admin of the pool."""

    @documented(
        "Put tags on a workflow and take others off.",
        query=[Query("add", TEXT, "Put on.", many=True), Query("remove", TEXT, "Take off.", many=True), DRY_RUN],
        body=NOTES,
        answer=NULL,
    )
    def post(self, request: Request, name: str) -> Response:
        only(body_object(request), "description", "tags")
        add, remove = many(request, "add"), many(request, "remove")

        def deed() -> Response:
            tag_workflow(actor=self.actor, name=name, add=add, remove=remove)
            return Response(None)

        return _tried_or_done(self, request, name, deed)


class TagList(View):
    """Every tag in use on workflows that the caller may see."""

    @documented("List the tags in use.", answer=fields({"tags": array(TEXT)}))
    def get(self, request: Request) -> Response:
        return Response({"tags": tags_of(self.actor)})


def _tried_or_done(view: View, request: Request, name: str, deed: Callable[[], Response]) -> Response:
    """Do it, or with `dry_run` say what it would do to the workflow."""
    if not boolean(request, "dry_run"):
        return view.once(deed)
    visible_workflow(view.actor, name)
    return Response(effect_of(deed, read=lambda: _whole(view, request, name)))


def _whole(view: View, request: Request, name: str, *, every_try: bool = False) -> dict[str, Any]:
    workflow = whole_workflow(view.actor, name, every_try=every_try)
    return detail(workflow, Links(request), waiting_of(view.actor, workflow))
