"""What-if: a scenario file, or the live state with changes (api.md, "Waiting and what-if"). Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import BOOLEAN, OBJECT, TEXT, array, documented, fields, nullable
from pools.api.views import View, raw_body
from pools.domain.errors import BadInput
from pools.domain.roles import Actor
from scheduling.api.yaml_bodies import YAMLParser
from scheduling.scenario import ScenarioError
from scheduling.scenario.answer import answer_to
from scheduling.scenario.batch import with_lines
from scheduling.scenario.bounds import WEB
from scheduling.scenario.parse import parse
from scheduling.selectors.what_if import live_answer

CHANGE = fields({"set": OBJECT, "remove": TEXT, "finish": {}, "submit": OBJECT}, required=[])
QUESTION = fields(
    {
        "live": {**BOOLEAN, "description": "true: the live state instead of a scenario; then `changes` alone."},
        "backend": {**TEXT, "description": "Of the live state; needed where you administer pools on several."},
        "nodes": nullable(array(OBJECT)),
        "capacity": {},
        "cohorts": nullable(array(OBJECT)),
        "queues": nullable(array(OBJECT)),
        "usage": nullable(OBJECT),
        "demand": nullable(OBJECT),
        "workloads": nullable(array(OBJECT)),
        "changes": nullable(array(CHANGE)),
    },
    required=[],
    more=True,
)
ANSWER = fields(
    {
        "queues": OBJECT,
        "cohorts": OBJECT,
        "workloads": OBJECT,
        "steps": array(OBJECT),
        "settled": BOOLEAN,
        "violations": array(OBJECT),
    },
    more=True,
)


class ScenarioParser(YAMLParser):
    """The same bounds; what breaks them is a scenario that cannot be read."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except BadInput as refusal:
            raise ScenarioError.of_faults(list(refusal.details)) from None


class Simulation(View):
    """What would happen. 400 with every fault for a scenario that cannot be read."""

    parser_classes = [ScenarioParser]

    @documented(
        "Run a scenario, YAML or JSON, or the live state with changes, through the scheduler. Writes nothing.",
        body=QUESTION,
        answer=ANSWER,
    )
    def post(self, request: Request) -> Response:
        question = request.data
        return self.once(lambda: Response(self._answer(question)))

    def _answer(self, question: Any) -> dict[str, Any]:
        try:
            return _answer(self.actor, question)
        except ScenarioError as refusal:
            text = raw_body(self.request).decode("utf-8-sig").strip()
            if "\n" not in text:
                raise  # a file has lines, what a program sends has one
            raise ScenarioError.of_faults(with_lines(text, 0, refusal.details)) from None


def _answer(actor: Actor, question: Any) -> dict[str, Any]:
    if isinstance(question, Mapping) and question.get("live") is not None:
        return live_answer(actor, question)
    return answer_to(parse(question, bounds=WEB))
