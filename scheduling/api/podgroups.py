"""PodGroups without submitting them: their rules, and what they would do next (api.md, "Waiting and what-if")."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import BOOLEAN, TEXT, WHOLE, array, documented, fields, nullable
from pools.api.views import View
from scheduling.api.yaml_bodies import YAMLParser
from scheduling.domain.podgroup_plan import STATES
from scheduling.scenario.bounds import WEB
from scheduling.scenario.podgroup_files import planned, validation

_MINIMUMS = {"minMember": nullable(WHOLE), "minSubGroup": nullable(WHOLE)}
_SUB_GROUP = fields({"name": TEXT, "parent": nullable(TEXT), **_MINIMUMS}, required=["name"], more=True)
_SPEC = fields({**_MINIMUMS, "subGroups": nullable(array(_SUB_GROUP))}, required=[], more=True)
MANIFEST = fields(
    {"apiVersion": TEXT, "kind": {"type": "string", "enum": ["PodGroup"]}, "spec": _SPEC}, required=["spec"], more=True
)
_POD = fields(
    {"name": TEXT, "sub_group": nullable(TEXT), "state": {"type": "string", "enum": list(STATES)}}, required=["name"]
)
_VIOLATIONS = array(
    fields({"path": TEXT, "code": TEXT, "message": TEXT, "severity": {"type": "string", "enum": ["error", "warning"]}})
)
_PROGRESS = {"ready": BOOLEAN, "satisfied": BOOLEAN, "threshold": WHOLE, "count": WHOLE}
PLAN = fields(
    {
        **_PROGRESS,
        "sub_groups": array(fields({"name": TEXT, "parent": nullable(TEXT), **_PROGRESS, "required": BOOLEAN})),
        "next": array(TEXT),
        "give_up_order": array(array(TEXT)),
        "non_preemptible_pods": WHOLE,
        "violations": _VIOLATIONS,
    }
)


class PodGroupValidation(View):
    """Check a manifest against every rule. 200 for valid and invalid ones; 400 only for what cannot be read."""

    parser_classes = [YAMLParser]

    @documented(
        "Check a PodGroup manifest, JSON or YAML, against every rule of minMember and minSubGroup.",
        body=MANIFEST,
        answer=fields({"valid": BOOLEAN, "violations": _VIOLATIONS}),
        unlike=[404],
    )
    def post(self, request: Request) -> Response:
        manifest = request.data
        return self.once(lambda: Response(validation(manifest)))


class PodGroupPlan(View):
    """What a PodGroup does next with the pods it has. 400 for structural faults; other violations are listed."""

    parser_classes = [YAMLParser]

    @documented(
        "Tell what a PodGroup does next with the pods it has: the next attempt, and the order of giving up.",
        body=fields({"podgroup": MANIFEST, "pods": nullable(array(_POD))}, required=["podgroup"]),
        answer=PLAN,
        unlike=[404],
    )
    def post(self, request: Request) -> Response:
        body = request.data
        return self.once(lambda: Response(planned(body, WEB)))
