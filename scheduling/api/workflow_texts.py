"""What the stock client reads as plain text: a workflow's file, and what is known of its run (OSMO contract, 7.2)."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpResponse
from rest_framework.request import Request

from pools.api.http import all_at_once, boolean, whole
from pools.api.schema import BOOLEAN, TEXT, Query, documented
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation
from pools.models import Backend
from scheduling.api.shapes import LINES
from scheduling.models import Task, Workflow
from scheduling.selectors.timeline import Line, event_lines, task_lines
from scheduling.selectors.workflows import visible_workflow, whole_workflow

MOST_LINES = 2**31 - 1
_NO_OUTPUT = {
    Backend.Kind.SIMULATED: "Simulated work runs no process, so it prints nothing. This is what is known of its tasks.",
    Backend.Kind.KUBERNETES: "What containers print stays on their cluster; read it there, with kubectl logs. "
    "This is what is known of the tasks.",
}


class Spec(View):
    """The file as it was rendered, or with `use_template` as it was written."""

    @documented(
        "Read a workflow's file.",
        query=[Query("use_template", BOOLEAN, "As it was written, not as it was rendered.")],
        answer=TEXT,
        media="text/plain",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = visible_workflow(self.actor, name)
        template = workflow.template_spec if boolean(request, "use_template") else ""
        return _text(template or workflow.spec)


class Logs(View):
    """Starts and ends of the tasks."""

    @documented("Read what is known of the tasks.", query=LINES, answer=TEXT, media="text/plain")
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = whole_workflow(self.actor, name, every_try=True)
        lines = _asked(request, workflow, task_lines(workflow))
        backend = workflow.root_pool.backend
        assert backend is not None, "work is only submitted where there is a backend"
        return _text(_joined([_NO_OUTPUT[Backend.Kind(backend.kind)], *map(str, lines)], request))


class ErrorLogs(View):
    """Tasks that failed, and why."""

    @documented("Read which tasks failed, and why.", query=LINES, answer=TEXT, media="text/plain")
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = whole_workflow(self.actor, name, every_try=True)
        lines = _asked(request, workflow, task_lines(workflow))
        return _text(_joined([str(line) for line in lines if line.failed], request))


class Events(View):
    """What became of the workflow, its groups and its tasks, oldest first."""

    @documented("Read what became of a workflow, oldest first.", query=LINES, answer=TEXT, media="text/plain")
    def get(self, request: Request, name: str) -> HttpResponse:
        workflow = whole_workflow(self.actor, name, every_try=True)
        lines = _asked(request, workflow, event_lines(workflow))
        return _text(_joined([str(line) for line in lines], request))


def _asked(request: Request, workflow: Workflow, lines: Iterable[Line]) -> list[Line]:
    """The lines of the task (and try) that was asked for, or all. Raises NotFound for one that never was."""
    task = request.query_params.get("task_name")
    retry, _ = all_at_once(lambda: _retry(request), lambda: _last(request))
    if not task:
        return list(lines)
    tries: list[Task] = [each for group in workflow.groups.all() for each in group.tasks.all() if each.name == task]
    if not tries:
        raise NotFound(f"Workflow {workflow.name} has no task {task[:100]}.", workflow_id=workflow.name)
    wanted = max(each.retry_id for each in tries) if retry is None else retry
    if wanted not in {each.retry_id for each in tries}:
        raise NotFound(f"Task {task} of workflow {workflow.name} had no try {wanted}.", workflow_id=workflow.name)
    return [line for line in lines if (line.task, line.retry) == (task, wanted)]


def _retry(request: Request) -> int | None:
    """The number of the try that is asked for, None for the latest. Tries are counted for each task by itself."""
    number = whole(request, "retry_id", -1)
    if number < 0:
        return None
    if not request.query_params.get("task_name"):
        sentence = "retry_id counts the tries of one task: name the task, too, as task_name."
        raise BadInput.of([Violation("retry_id", "bad_query", sentence)])
    return number


def _last(request: Request) -> int:
    return whole(request, "last_n_lines", MOST_LINES)


def _joined(lines: list[str], request: Request) -> str:
    return "".join(f"{line}\n" for line in lines[len(lines) - min(_last(request), len(lines)) :])


def _text(text: str) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
