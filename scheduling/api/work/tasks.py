"""`task list`: tasks of all workflows that the caller may see, one by one or summed up (design, O7.2)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.api.work.workflow_bodies import TaskListAnswer, WorkflowLinks, summary_entry, task_entry
from scheduling.domain.lists import TaskQuery
from scheduling.filtersets.work import TaskFilterSet
from scheduling.selectors.work.tasks import list_tasks, sum_tasks, visible_tasks


class TaskList(View):
    """Tasks; with `summary` or `aggregate_by_workflow` the sums of their requests."""

    @describe_operation(
        "List tasks, or the sums of their requests.", query_parameters=parameters_of(TaskQuery), answer=TaskListAnswer
    )
    def get(self, request: Request) -> Response:
        filters = TaskFilterSet(request.query_params, visible_tasks(self.actor), actor=self.actor)
        matching, limit, offset = filters.matching_rows(), filters.value("limit"), filters.value("offset")
        by_workflow = filters.value("aggregate_by_workflow")
        if by_workflow or filters.value("summary"):
            sums = sum_tasks(matching, by_workflow=bool(by_workflow), limit=limit, offset=offset)
            return Response(TaskListAnswer(summaries=[summary_entry(row) for row in sums]))
        links = WorkflowLinks(request)
        tasks = list_tasks(matching, limit=limit, offset=offset)
        return Response(TaskListAnswer(tasks=[task_entry(task, links) for task in tasks]))
