"""The overview of an installation: problems, waiting work, idle quota, changes, and the caller's own work."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.selectors.audit_trail import AuditEntryAnswer, entry_body
from scheduling.selectors.queue.waiting_pools import IdlePool, WaitingPool
from scheduling.selectors.status.overview import OwnWork, read_overview
from scheduling.selectors.status.problems import Problem, ProblemCode

_PARTS = "Parts of shared GPUs by flavor, which are in no number of GPUs; where there are some."


class ProblemAnswer(TypedDict):
    """A state that somebody should look at."""

    code: Annotated[str, ProblemCode]
    subject: str
    message: str
    urgent: bool
    since: ZonedText | None
    numbers: dict[str, int]


class OwnWorkAnswer(TypedDict):
    """A workflow of the caller; the last three keys are of one that waits."""

    workflow: str
    pool: str
    status: str
    since: ZonedText
    position: int | None
    reason: str | None
    message: str | None


class WaitingPoolAnswer(TypedDict):
    """The gangs that wait in a pool."""

    pool: str
    backend: str
    gangs: int
    gpus: int
    since: ZonedText
    parts: NotRequired[Annotated[dict[str, int], _PARTS]]


class IdlePoolAnswer(TypedDict):
    """A pool with unused quota, in GPUs."""

    pool: str
    backend: str
    quota: int
    used: int
    idle: int
    idle_parts: NotRequired[Annotated[dict[str, int], _PARTS]]


class OverviewAnswer(TypedDict):
    """What the home page shows."""

    made_at: ZonedText
    problems: list[ProblemAnswer]
    mine: list[OwnWorkAnswer]
    mine_count: int
    waiting: list[WaitingPoolAnswer]
    waiting_gangs: int
    waiting_gpus: int
    waiting_parts: NotRequired[Annotated[dict[str, int], _PARTS]]
    idle: list[IdlePoolAnswer]
    changes: list[AuditEntryAnswer]


class OverviewDetail(View):
    """What the home page shows."""

    @describe_operation(
        "Show problems, the own work, waiting work, idle quota and latest changes that the caller may see.",
        answer=OverviewAnswer,
    )
    def get(self, request: Request) -> Response:
        found = read_overview(self.actor)
        answer: OverviewAnswer = {
            "made_at": zoned_text(found.made_at),
            "problems": [_problem_body(each) for each in found.problems],
            "mine": [_own_work_body(each) for each in found.mine],
            "mine_count": found.mine_count,
            "waiting": [_waiting_body(each) for each in found.waiting],
            "waiting_gangs": found.waiting_gangs,
            "waiting_gpus": found.waiting_gpus,
            "idle": [_idle_body(each) for each in found.idle],
            "changes": [entry_body(each) for each in found.changes],
        }
        if found.waiting_parts:
            answer["waiting_parts"] = found.waiting_parts
        return Response(answer)


def _problem_body(problem: Problem) -> ProblemAnswer:
    return {
        "code": str(problem.code),
        "subject": problem.subject,
        "message": problem.message,
        "urgent": problem.is_urgent,
        "since": zoned_text(problem.since),
        "numbers": dict(problem.numbers),
    }


def _own_work_body(work: OwnWork) -> OwnWorkAnswer:
    gang = work.waiting
    return {
        "workflow": work.workflow.name,
        "pool": work.workflow.pool.name,
        "status": work.workflow.status,
        "since": zoned_text(work.since),
        "position": None if gang is None else gang.position,
        "reason": None if gang is None else gang.reason.code,
        "message": None if gang is None else gang.reason.message,
    }


def _waiting_body(each: WaitingPool) -> WaitingPoolAnswer:
    body: WaitingPoolAnswer = {
        "pool": each.pool,
        "backend": each.backend,
        "gangs": each.gangs,
        "gpus": each.gpus,
        "since": zoned_text(each.since),
    }
    if each.parts:
        body["parts"] = dict(each.parts)
    return body


def _idle_body(each: IdlePool) -> IdlePoolAnswer:
    body: IdlePoolAnswer = {
        "pool": each.pool,
        "backend": each.backend,
        "quota": each.quota,
        "used": each.used,
        "idle": each.idle,
    }
    if each.idle_parts:
        body["idle_parts"] = each.idle_parts
    return body
