"""Two workflows side by side."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.selectors.reports.comparison import MAX_LINES, ComparedFact, FactUnit, compare_workflows


class FactAnswer(TypedDict):
    """A fact of both workflows; null where one has none."""

    key: str
    title: str
    unit: Annotated[str, FactUnit]
    first: Any
    second: Any
    different: bool


class GangComparisonAnswer(TypedDict):
    """A gang of one workflow or of both."""

    name: str
    in_first: bool
    in_second: bool
    facts: list[FactAnswer]


class ComparisonAnswer(TypedDict):
    """Two workflows side by side."""

    first: str
    second: str
    facts: list[FactAnswer]
    gangs: list[GangComparisonAnswer]
    file_changes: list[str] | None


class WorkflowComparison(View):
    """What differs between two workflows: files, gangs, resources, waits by cause, attempts, result."""

    @describe_operation(
        "Compare two workflows. Each fact has its unit and both values, null where a workflow has none; a gang that "
        "only one workflow has is compared with nothing. `file_changes` are the lines of a unified difference of the "
        f"rendered files, null if one has more than {MAX_LINES:,} lines.",
        answer=ComparisonAnswer,
    )
    def get(self, request: Request, name: str, other: str) -> Response:
        found = compare_workflows(self.actor, name, other)
        answer: ComparisonAnswer = {
            "first": found.first.name,
            "second": found.second.name,
            "facts": _fact_bodies(found.facts),
            "gangs": [
                {
                    "name": gang.name,
                    "in_first": gang.in_first,
                    "in_second": gang.in_second,
                    "facts": _fact_bodies(gang.facts),
                }
                for gang in found.gangs
            ],
            "file_changes": None if found.file_changes is None else list(found.file_changes),
        }
        return Response(answer)


def _fact_bodies(facts: Iterable[ComparedFact]) -> list[FactAnswer]:
    return [
        {
            "key": fact.key,
            "title": fact.title,
            "unit": str(fact.unit),
            "first": _value(fact.first),
            "second": _value(fact.second),
            "different": fact.is_different,
        }
        for fact in facts
    ]


def _value(value: Any) -> Any:
    return zoned_text(value) if isinstance(value, datetime) else value
