"""`task list`: tasks of all workflows that the caller may see, one by one or summed up (OSMO contract, 7.2)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.query_times import query_datetime
from pools.api.request_parsing import query_boolean, query_page
from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.api.queries import (
    is_newest_first,
    parse_enum_values,
    query_list,
    query_pools,
    query_priorities,
    query_users,
)
from scheduling.api.work_schemas import TASK_FILTERS, TASK_LIST_ANSWER
from scheduling.api.workflow_bodies import WorkflowLinks, summary_entry, task_entry
from scheduling.domain.statuses import TaskStatus
from scheduling.selectors.tasks import TaskFilter, list_tasks, sum_tasks


class TaskList(View):
    """Tasks; with `summary` or `aggregate_by_workflow` what they ask for together."""

    @describe_operation(
        "List tasks, or what they ask for together.", query_parameters=TASK_FILTERS, answer=TASK_LIST_ANSWER
    )
    def get(self, request: Request) -> Response:
        limit, offset = query_page(request)
        asked = TaskFilter(
            users=query_users(request, self.actor),
            statuses=parse_enum_values(query_list(request, "statuses"), TaskStatus, "statuses"),
            pools=query_pools(request),
            priorities=query_priorities(request),
            nodes=query_list(request, "nodes"),
            workflow=request.query_params.get("workflow_id") or "",
            started_after=query_datetime(request, "started_after"),
            started_before=query_datetime(request, "started_before"),
            newest_first=is_newest_first(request),
        )
        by_workflow = query_boolean(request, "aggregate_by_workflow")
        if by_workflow or query_boolean(request, "summary"):
            rows = sum_tasks(self.actor, asked, by_workflow=by_workflow, limit=limit, offset=offset)
            return Response({"summaries": [summary_entry(row) for row in rows]})
        links = WorkflowLinks(request)
        tasks = list_tasks(self.actor, asked, limit=limit, offset=offset)
        return Response({"tasks": [task_entry(task, links) for task in tasks]})
