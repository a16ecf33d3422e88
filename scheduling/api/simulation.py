"""What-if: a scenario file, or the live state with changes (design, A5). Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import BOOLEAN, OBJECT, TEXT, array_of, describe_operation, nullable, object_with
from pools.api.views import View, raw_body
from pools.domain.errors import BadInput
from pools.domain.people.roles import Actor
from pools.domain.values.file_text import decode_text
from scheduling.api.yaml_bodies import YamlBodyParser
from scheduling.history.starts.after_loss import starts_after_loss
from scheduling.locking import hold_what_if_turn
from scheduling.scenario import ScenarioError
from scheduling.scenario.answer import ScenarioAnswer, answer_scenario
from scheduling.scenario.batch import add_lines
from scheduling.scenario.bounds import WEB_BOUNDS
from scheduling.scenario.parse import parse_scenario
from scheduling.selectors.what_if.live_question import answer_live_question

SIMULATION_CHANGE = object_with(
    {
        "set": OBJECT,
        "remove": TEXT,
        "finish": {},
        "submit": OBJECT,
        "set_node": OBJECT,
        "remove_node": TEXT,
        "remove_nodes": {"description": "Names, or `{label: KEY=VALUE}` or `{name: PATTERN}`."},
        "remove_backend": TEXT,
    },
    required=[],
)
SIMULATION_BODY = object_with(
    {
        "live": {**BOOLEAN, "description": "true: the live state instead of a scenario; then `changes` alone."},
        "backend": {**TEXT, "description": "Of the live state; needed where you administer pools on several."},
        "nodes": nullable(array_of(OBJECT)),
        "capacity": {},
        "cohorts": nullable(array_of(OBJECT)),
        "queues": nullable(array_of(OBJECT)),
        "usage": nullable(OBJECT),
        "demand": nullable(OBJECT),
        "workloads": nullable(array_of(OBJECT)),
        "changes": nullable(array_of(SIMULATION_CHANGE)),
    },
    required=[],
    additional=True,
)


class ScenarioParser(YamlBodyParser):
    """The YAML parser with the same limits; a body that exceeds them is an unreadable scenario."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except BadInput as refusal:
            raise ScenarioError.of_faults(list(refusal.details)) from None


class Simulation(View):
    """The answer to a scenario; status 400 with every fault for an unreadable scenario."""

    parser_classes = [ScenarioParser]

    @describe_operation(
        "Run a scenario, YAML or JSON, or the live state with changes, through the scheduler. Writes nothing.",
        body=SIMULATION_BODY,
        answer=ScenarioAnswer,
        extra_statuses=(429,),
    )
    def post(self, request: Request) -> Response:
        question = request.data
        assert self.actor.user_id is not None, "only people ask"
        with hold_what_if_turn(self.actor.user_id):
            return Response(self._answer(question))

    def _answer(self, question: Any) -> ScenarioAnswer:
        try:
            return _answer_question(self.actor, question)
        except ScenarioError as refusal:
            text = decode_text(raw_body(self.request)).strip()
            if "\n" not in text:
                raise  # a program sends one line, so line numbers do not help
            raise ScenarioError.of_faults(add_lines(text, 0, refusal.details)) from None


def _answer_question(actor: Actor, question: Any) -> ScenarioAnswer:
    if isinstance(question, Mapping) and question.get("live") is not None:
        return answer_live_question(actor, question, starts_after_loss)
    return answer_scenario(parse_scenario(question, bounds=WEB_BOUNDS))
