"""The PodGroup endpoints: the examples of docs/elastic-gangs.md, the codes, and the right to call them."""

from __future__ import annotations

import json
from typing import Any

from pools.models import IdempotencyRecord
from tests.integration.podgroups.conftest import PostPodGroup

INFERENCE = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: inference-service
spec:
  minSubGroup: 3     # Need 3 out of 4 replicas
  subGroups:
    - name: prefill-0
      minMember: 8
    - name: prefill-1
      minMember: 8
    - name: prefill-2
      minMember: 8
    - name: prefill-3
      minMember: 8
"""
TRAINING = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "training-job"},
    "spec": {
        "minSubGroup": 2,
        "subGroups": [
            {"name": "decode", "minSubGroup": 2},
            {"name": "decode-leaders", "parent": "decode", "minMember": 1},
            {"name": "decode-workers", "parent": "decode", "minMember": 4},
            {"name": "prefill", "minSubGroup": 2},
            {"name": "prefill-leaders", "parent": "prefill", "minMember": 1},
            {"name": "prefill-workers", "parent": "prefill", "minMember": 4},
        ],
    },
}
BOTH = ("validate", "plan")


def spec(*groups: dict[str, Any], **own: Any) -> dict[str, Any]:
    return {"spec": {**own, **({"subGroups": list(groups)} if groups else {})}}


def test_nobody_gets_no_answer(anonymous: PostPodGroup) -> None:
    for which in BOTH:
        for body in (INFERENCE, "{", ""):
            status, answer = anonymous(which, body)
            assert (status, answer["error_code"]) == (401, "USER")


def test_the_examples_of_the_seed_are_valid_whatever_the_content_type_says(post: PostPodGroup) -> None:
    for body in (INFERENCE, json.dumps(TRAINING)):
        for kind in (
            "application/yaml", "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "",
        ):  # fmt: skip
            assert post("validate", body, kind) == (200, {"valid": True, "violations": []}), kind


def test_a_broken_rule_is_an_answer_with_path_and_code(post: PostPodGroup) -> None:
    """`tests/unit/podgroup` has all rules."""
    for manifest, path, code in (
        (spec({"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}), "subGroups[1].name", "duplicate_name"),
        (spec(minMember="three"), "minMember", "bad_value"),
    ):
        status, answer = post("validate", json.dumps(manifest))
        assert (status, answer["valid"]) == (200, False)
        first = answer["violations"][0]
        assert first.keys() == {"path", "code", "message", "severity"}
        assert (first["path"], first["code"], first["severity"]) == (f"spec.{path}", code, "error")


def test_a_warning_leaves_it_valid(post: PostPodGroup) -> None:
    status, answer = post("validate", INFERENCE.replace("minSubGroup: 3 ", "minMember: 32 "))
    assert (status, answer["valid"]) == (200, True)
    assert [(each["code"], each["severity"]) for each in answer["violations"]] == [("inner_with_min_member", "warning")]


def test_a_plan_in_json_has_everything(post: PostPodGroup) -> None:
    status, answer = post("plan", json.dumps({"podgroup": TRAINING}))
    assert status == 200
    groups = answer.pop("sub_groups")
    assert answer == {
        "ready": False,
        "satisfied": False,
        "stale": False,
        "threshold": 2,
        "count": 0,
        "next": [],
        "to_evict": [],
        "give_up_order": [],
        "non_preemptible_pods": 10,
        "violations": [],
    }
    assert [(group["name"], group["parent"]) for group in groups] == [
        ("decode", None),
        ("decode-leaders", "decode"),
        ("decode-workers", "decode"),
        ("prefill", None),
        ("prefill-leaders", "prefill"),
        ("prefill-workers", "prefill"),
    ]
    assert all(
        group.keys() == {"name", "parent", "threshold", "count", "ready", "satisfied", "required"} for group in groups
    )


def test_a_plan_in_yaml_asks_for_three_replicas_of_four(post: PostPodGroup) -> None:
    pods = "".join(
        f"  - {{name: p{group}-{number}, sub_group: prefill-{group}, state: {'Running' if group < 3 else 'Pending'}}}\n"
        for group in range(4)
        for number in range(8)
    )
    manifest = "".join(f"  {line}\n" for line in INFERENCE.splitlines())
    status, answer = post("plan", f"podgroup:\n{manifest}pods:\n{pods}")
    assert (status, answer["satisfied"], answer["count"]) == (200, True, 3)
    assert answer["next"] == [f"p3-{number}" for number in range(8)]
    assert [len(step) for step in answer["give_up_order"]] == [24]


def test_a_plan_lists_what_is_no_fault_of_the_structure(post: PostPodGroup) -> None:
    body = {"podgroup": spec(minMember=0), "pods": [{"name": "p", "state": "Pending"}]}
    status, answer = post("plan", json.dumps(body))
    assert (status, answer["next"], answer["satisfied"]) == (200, ["p"], True)
    assert [(each["path"], each["code"], each["severity"]) for each in answer["violations"]] == [
        ("spec.minMember", "min_member_not_positive", "error")
    ]


def test_a_plan_of_a_broken_structure_is_refused(post: PostPodGroup) -> None:
    cases: tuple[tuple[Any, str, str], ...] = (
        ({"podgroup": spec({"name": "a", "parent": "a"})}, "spec.subGroups[0].parent", "cycle"),
        ({"podgroup": TRAINING, "pods": [{"name": "p", "sub_group": "decode"}]}, "pods[0].sub_group", "unknown_name"),
        ({"podgroup": TRAINING, "pod": []}, "pod", "unknown_key"),
        ({"pods": []}, "", "bad_value"),
        ([], "", "bad_value"),
    )
    for body, path, code in cases:
        status, answer = post("plan", json.dumps(body))
        assert (status, answer["error_code"], answer["workflow_id"]) == (400, "USER", None)
        assert [(each["path"], each["code"]) for each in answer["details"]] == [(path, code)]


def test_a_key_is_allowed_and_stores_nothing(post: PostPodGroup) -> None:
    for which, body in (("validate", INFERENCE), ("plan", json.dumps({"podgroup": TRAINING}))):
        first = post(which, body, idempotency_key="k")
        assert first[0] == 200
        assert post(which, body, idempotency_key="k") == first
        assert post(which, body + "\n", idempotency_key="k") == first
    assert not IdempotencyRecord.objects.exists()
