"""`task list`: tasks of all workflows that the caller may see, one by one or summed up (OSMO contract, 7.2)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, page
from pools.api.schema import documented
from pools.api.times import moment
from pools.api.views import View
from scheduling.api.bodies import Links, summary_entry, task_entry
from scheduling.api.queries import many, members, newest_first, pools, priorities, users
from scheduling.api.shapes import TASK_FILTERS, TASKS
from scheduling.domain.statuses import TaskStatus
from scheduling.selectors.tasks import TaskFilter, listed_tasks, summed_tasks


class TaskList(View):
    """Tasks; with `summary` or `aggregate_by_workflow` what they ask for together."""

    @documented("List tasks, or what they ask for together.", query=TASK_FILTERS, answer=TASKS)
    def get(self, request: Request) -> Response:
        limit, offset = page(request)
        asked = TaskFilter(
            users=users(request, self.actor),
            statuses=members(many(request, "statuses"), TaskStatus, "statuses"),
            pools=pools(request),
            priorities=priorities(request),
            nodes=many(request, "nodes"),
            workflow=request.query_params.get("workflow_id") or "",
            started_after=moment(request, "started_after"),
            started_before=moment(request, "started_before"),
            newest_first=newest_first(request),
        )
        by_workflow = boolean(request, "aggregate_by_workflow")
        if by_workflow or boolean(request, "summary"):
            rows = summed_tasks(self.actor, asked, by_workflow=by_workflow, limit=limit, offset=offset)
            return Response({"summaries": [summary_entry(row) for row in rows]})
        links = Links(request)
        tasks = listed_tasks(self.actor, asked, limit=limit, offset=offset)
        return Response({"tasks": [task_entry(task, links) for task in tasks]})
