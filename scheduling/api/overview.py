"""The overview of an installation: problems, waiting work, idle quota, changes, and the caller's own work."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    OBJECT,
    TEXT,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from pools.selectors.audit_trail import entry_body
from scheduling.selectors.overview import OwnWork, read_overview
from scheduling.selectors.problems import Problem, ProblemCode
from scheduling.selectors.waiting_pools import IdlePool, WaitingPool

_MAYBE_TIME = nullable(DATETIME)
PROBLEM = object_with(
    {
        "code": {"type": "string", "enum": [str(code) for code in ProblemCode]},
        "subject": TEXT,
        "message": TEXT,
        "urgent": BOOLEAN,
        "since": _MAYBE_TIME,
        "numbers": OBJECT,
    }
)
OWN_WORK = object_with(
    {
        "workflow": TEXT,
        "pool": TEXT,
        "status": TEXT,
        "since": DATETIME,
        "position": {"type": ["integer", "null"]},
        "reason": {"type": ["string", "null"]},
        "message": {"type": ["string", "null"]},
    }
)
WAITING = object_with(
    {"pool": TEXT, "backend": TEXT, "gangs": INTEGER, "gpus": INTEGER, "since": DATETIME},
)
IDLE = object_with({"pool": TEXT, "backend": TEXT, "quota": INTEGER, "used": INTEGER, "idle": INTEGER})


class OverviewDetail(View):
    """What the home page shows."""

    @describe_operation(
        "Show problems, the own work, waiting work, idle quota and latest changes that the caller may see.",
        answer=object_with(
            {
                "made_at": DATETIME,
                "problems": array_of(PROBLEM),
                "mine": array_of(OWN_WORK),
                "mine_count": INTEGER,
                "waiting": array_of(WAITING),
                "waiting_gangs": INTEGER,
                "waiting_gpus": INTEGER,
                "idle": array_of(IDLE),
                "changes": array_of(OBJECT),
            }
        ),
    )
    def get(self, request: Request) -> Response:
        found = read_overview(self.actor)
        return Response(
            {
                "made_at": utc_text(found.made_at),
                "problems": [_problem_body(each) for each in found.problems],
                "mine": [_own_work_body(each) for each in found.mine],
                "mine_count": found.mine_count,
                "waiting": [_waiting_body(each) for each in found.waiting],
                "waiting_gangs": found.waiting_gangs,
                "waiting_gpus": found.waiting_gpus,
                "idle": [_idle_body(each) for each in found.idle],
                "changes": [entry_body(each) for each in found.changes],
            }
        )


def _problem_body(problem: Problem) -> dict[str, Any]:
    return {
        "code": str(problem.code),
        "subject": problem.subject,
        "message": problem.message,
        "urgent": problem.is_urgent,
        "since": None if problem.since is None else utc_text(problem.since),
        "numbers": dict(problem.numbers),
    }


def _own_work_body(work: OwnWork) -> dict[str, Any]:
    gang = work.waiting
    return {
        "workflow": work.workflow.name,
        "pool": work.workflow.pool.name,
        "status": work.workflow.status,
        "since": utc_text(work.since),
        "position": gang and gang.position,
        "reason": gang and str(gang.reason.code),
        "message": gang and gang.reason.message,
    }


def _waiting_body(each: WaitingPool) -> dict[str, Any]:
    return {
        "pool": each.pool,
        "backend": each.backend,
        "gangs": each.gangs,
        "gpus": each.gpus,
        "since": utc_text(each.since),
    }


def _idle_body(each: IdlePool) -> dict[str, Any]:
    return {"pool": each.pool, "backend": each.backend, "quota": each.quota, "used": each.used, "idle": each.idle}
