"""The plain texts for the stock client: the file of a workflow, its logs and its events (OSMO contract, 7.2)."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpResponse
from rest_framework.request import Request

from pools.api.request_parsing import collect_faults, query_boolean, query_integer
from pools.api.schema import BOOLEAN, TEXT, QueryParameter, describe_operation
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation
from pools.models import Backend
from scheduling.api.work_schemas import LINE_FILTERS
from scheduling.models import Task, Workflow
from scheduling.selectors.workflow_log import LogLine, event_log_lines, task_log_lines
from scheduling.selectors.workflows import get_full_workflow, get_visible_workflow

MAX_LINES = 2**31 - 1
_NO_OUTPUT = {
    Backend.Kind.SIMULATED: "Simulated work runs no process, so it prints nothing. "
    "These are the recorded facts about its tasks.",
    Backend.Kind.KUBERNETES: "The output of containers stays on their cluster; read it there, with kubectl logs. "
    "These are the recorded facts about the tasks.",
}


class WorkflowSpecText(View):
    """The file as it was rendered, or with `use_template` as it was written."""

    @describe_operation(
        "Read a workflow's file.",
        query_parameters=[
            QueryParameter("use_template", BOOLEAN, "The file as it was written, not as it was rendered.")
        ],
        answer=TEXT,
        media_type="text/plain",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = get_visible_workflow(self.actor, name)
        template = workflow.template_spec if query_boolean(request, "use_template") else ""
        return _text_response(template or workflow.spec)


class WorkflowLog(View):
    """Starts and ends of the tasks."""

    @describe_operation(
        "Read the recorded facts about the tasks.", query_parameters=LINE_FILTERS, answer=TEXT, media_type="text/plain"
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = get_full_workflow(self.actor, name, all_attempts=True)
        lines = _requested_lines(request, workflow, task_log_lines(workflow))
        backend = workflow.root_pool.backend
        assert backend is not None, "a pool without a backend accepts no work"
        return _text_response(_join_last_lines([_NO_OUTPUT[Backend.Kind(backend.kind)], *map(str, lines)], request))


class WorkflowErrorLog(View):
    """Tasks that failed, with their reasons."""

    @describe_operation(
        "Read the tasks that failed, with their reasons.",
        query_parameters=LINE_FILTERS,
        answer=TEXT,
        media_type="text/plain",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = get_full_workflow(self.actor, name, all_attempts=True)
        lines = _requested_lines(request, workflow, task_log_lines(workflow))
        return _text_response(_join_last_lines([str(line) for line in lines if line.is_failure], request))


class WorkflowEventLog(View):
    """The events of the workflow, its groups and its tasks, oldest first."""

    @describe_operation(
        "Read the events of a workflow, oldest first.",
        query_parameters=LINE_FILTERS,
        answer=TEXT,
        media_type="text/plain",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = get_full_workflow(self.actor, name, all_attempts=True)
        lines = _requested_lines(request, workflow, event_log_lines(workflow))
        return _text_response(_join_last_lines([str(line) for line in lines], request))


def _requested_lines(request: Request, workflow: Workflow, lines: Iterable[LogLine]) -> list[LogLine]:
    """The lines of the requested task (and attempt), or all. Raises NotFound for a task or attempt that does not
    exist."""
    task = request.query_params.get("task_name")
    retry, _ = collect_faults(lambda: _read_retry_id(request), lambda: _read_last_n_lines(request))
    if not task:
        return list(lines)
    attempts: list[Task] = [each for group in workflow.groups.all() for each in group.tasks.all() if each.name == task]
    if not attempts:
        raise NotFound(f"Workflow {workflow.name} has no task {task[:100]}.", workflow_id=workflow.name)
    attempt = max(each.retry_id for each in attempts) if retry is None else retry
    if attempt not in {each.retry_id for each in attempts}:
        raise NotFound(f"Task {task} of workflow {workflow.name} had no attempt {attempt}.", workflow_id=workflow.name)
    return [line for line in lines if (line.task, line.retry) == (task, attempt)]


def _read_retry_id(request: Request) -> int | None:
    """The number of the requested attempt, None for the latest. Attempts are counted for each task separately."""
    number = query_integer(request, "retry_id", -1)
    if number < 0:
        return None
    if not request.query_params.get("task_name"):
        message = "retry_id counts the attempts of one task: name the task, too, as task_name."
        raise BadInput.of([Violation("retry_id", "bad_query", message)])
    return number


def _read_last_n_lines(request: Request) -> int:
    return query_integer(request, "last_n_lines", MAX_LINES)


def _join_last_lines(lines: list[str], request: Request) -> str:
    return "".join(f"{line}\n" for line in lines[len(lines) - min(_read_last_n_lines(request), len(lines)) :])


def _text_response(text: str) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
