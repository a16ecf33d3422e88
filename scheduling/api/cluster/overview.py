"""The overview of an installation: problems, waiting work, idle quota, changes, and the caller's own work."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.selectors.audit_trail import AuditEntryAnswer, entry_body
from scheduling.selectors.queue.waiting_pools import IdlePool, WaitingPool
from scheduling.selectors.status.overview import OwnWork, read_overview
from scheduling.selectors.status.problems import Problem, ProblemCode


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


class IdlePoolAnswer(TypedDict):
    """A pool with unused quota, in GPUs."""

    pool: str
    backend: str
    quota: int
    used: int
    idle: int


class OverviewAnswer(TypedDict):
    """What the home page shows."""

    made_at: ZonedText
    problems: list[ProblemAnswer]
    mine: list[OwnWorkAnswer]
    mine_count: int
    waiting: list[WaitingPoolAnswer]
    waiting_gangs: int
    waiting_gpus: int
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
    return {
        "pool": each.pool,
        "backend": each.backend,
        "gangs": each.gangs,
        "gpus": each.gpus,
        "since": zoned_text(each.since),
    }


def _idle_body(each: IdlePool) -> IdlePoolAnswer:
    return {"pool": each.pool, "backend": each.backend, "quota": each.quota, "used": each.used, "idle": each.idle}
