"""Two workflows side by side."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.schema import BOOLEAN, TEXT, array_of, describe_operation, nullable, object_with
from pools.api.views import View
from scheduling.selectors.comparison import MAX_LINES, ComparedFact, FactUnit, compare_workflows

FACT = object_with(
    {
        "key": TEXT,
        "title": TEXT,
        "unit": {"type": "string", "enum": [str(unit) for unit in FactUnit]},
        "first": {},
        "second": {},
        "different": BOOLEAN,
    }
)


class WorkflowComparison(View):
    """What differs between two workflows: files, gangs, resources, waits by cause, attempts, result."""

    @describe_operation(
        "Compare two workflows. Each fact has its unit and both values, null where a workflow has none; a gang that "
        "only one workflow has is compared with nothing. `file_changes` are the lines of a unified difference of the "
        f"rendered files, null if one has more than {MAX_LINES} lines.",
        answer=object_with(
            {
                "first": TEXT,
                "second": TEXT,
                "facts": array_of(FACT),
                "gangs": array_of(
                    object_with({"name": TEXT, "in_first": BOOLEAN, "in_second": BOOLEAN, "facts": array_of(FACT)})
                ),
                "file_changes": nullable(array_of(TEXT)),
            }
        ),
    )
    def get(self, request: Request, name: str, other: str) -> Response:
        found = compare_workflows(self.actor, name, other)
        return Response(
            {
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
                "file_changes": found.file_changes,
            }
        )


def _fact_bodies(facts: Iterable[ComparedFact]) -> list[dict[str, Any]]:
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
    return utc_text(value) if isinstance(value, datetime) else value
