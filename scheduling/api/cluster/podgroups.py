"""PodGroups without a submission: their rules and their next steps (design, A6)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import INTEGER, TEXT, array_of, describe_operation, nullable, object_with
from pools.api.views import View
from scheduling.api.yaml_bodies import YamlBodyParser
from scheduling.domain.judgement.podgroup_plan import POD_STATES, PlanAnswer
from scheduling.scenario.bounds import WEB_BOUNDS
from scheduling.scenario.podgroup_batches import ValidationAnswer, plan_body, validation_body

_MINIMUMS = {"minMember": nullable(INTEGER), "minSubGroup": nullable(INTEGER)}
_SUB_GROUP = object_with({"name": TEXT, "parent": nullable(TEXT), **_MINIMUMS}, required=["name"], additional=True)
_SPEC = object_with({**_MINIMUMS, "subGroups": nullable(array_of(_SUB_GROUP))}, required=[], additional=True)
MANIFEST = object_with(
    {"apiVersion": TEXT, "kind": {"type": "string", "enum": ["PodGroup"]}, "spec": _SPEC},
    required=["spec"],
    additional=True,
)
_POD = object_with(
    {"name": TEXT, "sub_group": nullable(TEXT), "state": {"type": "string", "enum": list(POD_STATES)}, "gpus": INTEGER},
    required=["name"],
)
_ROOM = {
    "type": "object",
    "additionalProperties": INTEGER,
    "description": "The free GPUs of each node: `next` are then the pods that start there first.",
}


class PodGroupValidation(View):
    """The check of a manifest against every rule: status 200 for valid and invalid manifests, 400 only for unreadable
    bodies."""

    parser_classes = [YamlBodyParser]

    @describe_operation(
        "Check a PodGroup manifest, JSON or YAML, against every rule of minMember and minSubGroup.",
        body=MANIFEST,
        answer=ValidationAnswer,
        excluded_statuses=[404],
    )
    def post(self, request: Request) -> Response:
        return Response(validation_body(request.data))


class PodGroupPlan(View):
    """The next steps of a PodGroup with its present pods: status 400 for structural faults; other violations are
    listed."""

    parser_classes = [YamlBodyParser]

    @describe_operation(
        "Show the next steps of a PodGroup with its present pods: the next attempt, and the order of giving up.",
        body=object_with(
            {"podgroup": MANIFEST, "pods": nullable(array_of(_POD)), "room": nullable(_ROOM)}, required=["podgroup"]
        ),
        answer=PlanAnswer,
        excluded_statuses=[404],
    )
    def post(self, request: Request) -> Response:
        return Response(plan_body(request.data, WEB_BOUNDS))
