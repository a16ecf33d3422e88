"""The plain texts for the stock client: the file of a workflow, its logs and its events (design, O7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from pools.api.questions import parameters_of, read_query
from pools.api.request_parsing import query_boolean
from pools.api.schema import BOOLEAN, TEXT, QueryParameter, describe_operation
from pools.api.views import View
from pools.domain.errors import BadInput, Fault, NotFound, Violation
from pools.models import Backend
from scheduling.domain.lists import LineQuery
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.work.workflow_log import LogLine, event_log_lines, task_log_lines
from scheduling.selectors.work.workflows import get_full_workflow, get_visible_workflow
from scheduling.services.kubernetes import pod_output

_ABOUT_OUTPUT = {
    Backend.Kind.SIMULATED: "Simulated work runs no process, so it prints nothing. "
    "These are the recorded facts about its tasks.",
    Backend.Kind.KUBERNETES: "The recorded facts about the tasks, and then the output of their latest attempts, "
    "as the cluster has it now.",
}
_describe_lines = partial(
    describe_operation, query_parameters=parameters_of(LineQuery), answer=TEXT, media_type="text/plain"
)


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
    """Starts and ends of the tasks, and on a cluster the output of their containers."""

    @_describe_lines(
        "Read the recorded facts about the tasks and, on a cluster, the last lines that their containers printed: "
        f"`last_n_lines` of each, {pod_output.MAX_LINES} at most."
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        workflow = get_full_workflow(self.actor, name, all_attempts=True)
        query = read_query(LineQuery, request)
        attempts = _requested_attempts(query, workflow)
        lines = _lines_of(attempts, task_log_lines(workflow))
        backend = _backend_of(workflow)
        facts = _join_last_lines([_ABOUT_OUTPUT[Backend.Kind(backend.kind)], *map(str, lines)], query.last_n_lines)
        if backend.kind != Backend.Kind.KUBERNETES:
            return _text_response(facts)
        output = pod_output.read_output(backend, attempts or _latest_attempts(workflow), last=query.last_n_lines)
        return _streamed_response(chain([facts], output))


class WorkflowErrorLog(View):
    """Tasks that failed, with their reasons."""

    @_describe_lines("Read the tasks that failed, with their reasons.")
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = get_full_workflow(self.actor, name, all_attempts=True)
        query = read_query(LineQuery, request)
        lines = _lines_of(_requested_attempts(query, workflow), task_log_lines(workflow))
        return _text_response(_join_last_lines([str(line) for line in lines if line.is_failure], query.last_n_lines))


class WorkflowEventLog(View):
    """The events of the workflow, its groups and its tasks, oldest first."""

    @_describe_lines(
        "Read the events of a workflow, oldest first; on a cluster with the Kubernetes Events of its pods and "
        "PodGroups, which a cluster keeps for about an hour."
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        workflow = get_full_workflow(self.actor, name, all_attempts=True)
        query = read_query(LineQuery, request)
        attempts = _requested_attempts(query, workflow)
        lines = _lines_of(attempts, event_log_lines(workflow))
        backend = _backend_of(workflow)
        if backend.kind != Backend.Kind.KUBERNETES:
            return _text_response(_join_last_lines(list(map(str, lines)), query.last_n_lines))
        groups = [] if attempts else workflow.loaded_groups
        of_tasks = attempts or _latest_attempts(workflow)
        return _streamed_response(
            _with_cluster_events(
                lines, backend, groups, of_tasks, last=query.last_n_lines, with_names=self.actor.can_read_all
            )
        )


def _with_cluster_events(
    lines: list[LogLine], backend: Backend, groups: list[Group], attempts: list[Task], *, last: int, with_names: bool
) -> Iterator[str]:
    """The lines with those of the cluster among them, read when the answer is sent."""
    found, problem = pod_output.read_cluster_events(backend, groups, attempts, with_names=with_names)
    of_cluster = [LogLine(each.time, each.subject, each.text, each.task, each.retry) for each in found]
    merged = sorted([*lines, *of_cluster], key=lambda line: line.time)
    yield "".join(f"{line}\n" for line in merged[len(merged) - min(last, len(merged)) :])
    yield problem


def _backend_of(workflow: Workflow) -> Backend:
    backend = workflow.root_pool.backend
    assert backend is not None, "a pool without a backend accepts no work"
    return backend


def _latest_attempts(workflow: Workflow) -> list[Task]:
    """The latest attempt of every task, in the order of the file."""
    return [
        task
        for group in workflow.loaded_groups
        for task in {each.name: each for each in sorted(group.loaded_tasks, key=lambda each: each.retry_id)}.values()
    ]


def _requested_attempts(query: LineQuery, workflow: Workflow) -> list[Task]:
    """The attempt of the requested task, the latest unless the request says which; none if no task is requested.
    Raises NotFound for a task or attempt that does not exist."""
    task, retry = query.task_name, query.retry_id
    if not task and retry is not None:
        message = "retry_id counts the attempts of one task: name the task, too, as task_name."
        raise BadInput.of([Violation("retry_id", Fault.BAD_QUERY, message)])
    if not task:
        return []
    attempts = [each for group in workflow.loaded_groups for each in group.loaded_tasks if each.name == task]
    if not attempts:
        raise NotFound(f"Workflow {workflow.name} has no such task.", workflow_id=workflow.name)
    attempt = max(each.retry_id for each in attempts) if retry is None else retry
    if attempt not in {each.retry_id for each in attempts}:
        raise NotFound(f"Task {task} of workflow {workflow.name} had no attempt {attempt}.", workflow_id=workflow.name)
    return [each for each in attempts if each.retry_id == attempt]


def _lines_of(attempts: Sequence[Task], all_lines: Iterable[LogLine]) -> list[LogLine]:
    """The lines about these attempts; all lines without attempts."""
    wanted = {(each.name, each.retry_id) for each in attempts}
    return [line for line in all_lines if not wanted or (line.task, line.retry) in wanted]


def _join_last_lines(lines: list[str], last: int) -> str:
    return "".join(f"{line}\n" for line in lines[len(lines) - min(last, len(lines)) :])


def _text_response(text: str) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


def _streamed_response(pieces: Iterable[str]) -> StreamingHttpResponse:
    """The pieces as they come; the snapshot of the request has ended before the first one."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(pieces, content_type="text/plain; charset=utf-8", headers=headers)
