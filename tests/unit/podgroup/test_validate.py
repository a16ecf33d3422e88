"""Every rule of minimums (design, D13), each with its path and code, and all of them at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.judgement.podgroup_rules import is_structural, is_valid, read_pod_group, validate_pod_group


def manifest(*groups, **spec):
    body = dict(spec)
    if groups:
        body["subGroups"] = [dict(group) for group in groups]
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "x"}, "spec": body}


def leaf(name, member=8, parent=None):
    return {"name": name, "minMember": member, **({"parent": parent} if parent else {})}


REPLICAS = [leaf(f"prefill-{i}") for i in range(4)]
TRAINING = [
    {"name": "decode", "minSubGroup": 2},
    leaf("decode-leaders", 1, "decode"),
    leaf("decode-workers", 4, "decode"),
    {"name": "prefill", "minSubGroup": 2},
    leaf("prefill-leaders", 1, "prefill"),
    leaf("prefill-workers", 4, "prefill"),
]


def found(body):
    return [(v.path, v.code) for v in validate_pod_group(body)]


@pytest.mark.parametrize(
    "body",
    [
        manifest(*REPLICAS, minSubGroup=3),
        manifest(*TRAINING, minSubGroup=2),
        manifest(*TRAINING),
        manifest(*TRAINING, minMember=0, minSubGroup=1),
        manifest(minMember=5),
        manifest(),
        manifest({"name": "mid", "minMember": 0, "minSubGroup": 1}, leaf("a", 1, "mid")),
        manifest({"name": "mid"}, leaf("a", 1, "mid")),
        manifest(leaf("a", 1, "mid"), {"name": "mid", "parent": None}),
    ],
    ids=["inference-service", "training-job", "nil-root", "zero-is-unset", "plain", "empty", "zero-on-mid", "nil-mid",
         "child-before-parent"],
)  # fmt: skip
def test_valid(body):
    assert found(body) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            manifest(*REPLICAS, minMember=24, minSubGroup=3),
            [("spec.minSubGroup", "both_minimums"), ("spec.minMember", "inner_with_min_member")],
        ),
        (manifest(*REPLICAS, minSubGroup=5), [("spec.minSubGroup", "min_sub_group_above_children")]),
        (manifest(*REPLICAS, minSubGroup=0), [("spec.minSubGroup", "min_sub_group_not_positive")]),
        (manifest(*REPLICAS, minSubGroup=-2), [("spec.minSubGroup", "min_sub_group_not_positive")]),
        (manifest(minMember=0), [("spec.minMember", "min_member_not_positive")]),
        (manifest(minMember=-1), [("spec.minMember", "min_member_not_positive")]),
        (manifest(minSubGroup=1), [("spec.minSubGroup", "leaf_with_min_sub_group")]),
        (manifest(leaf("a", 0)), [("spec.subGroups[0].minMember", "min_member_not_positive")]),
        (manifest({"name": "a"}), [("spec.subGroups[0].minMember", "leaf_without_min_member")]),
        (
            manifest({"name": "a", "minSubGroup": 2}),
            [
                ("spec.subGroups[0].minSubGroup", "leaf_with_min_sub_group"),
                ("spec.subGroups[0].minMember", "leaf_without_min_member"),
            ],
        ),
        (
            manifest({"name": "mid", "minMember": 3}, leaf("a", 1, "mid")),
            [("spec.subGroups[0].minMember", "inner_with_min_member")],
        ),
        (
            manifest({"name": "mid", "minMember": 3, "minSubGroup": 1}, leaf("a", 1, "mid")),
            [
                ("spec.subGroups[0].minSubGroup", "both_minimums"),
                ("spec.subGroups[0].minMember", "inner_with_min_member"),
            ],
        ),
        (
            manifest({"name": "mid", "minSubGroup": 2}, leaf("a", 1, "mid")),
            [("spec.subGroups[0].minSubGroup", "min_sub_group_above_children")],
        ),
        (
            manifest({"name": "a", "minMember": 2, "minSubGroup": 0}),
            [
                ("spec.subGroups[0].minSubGroup", code)
                for code in ("both_minimums", "min_sub_group_not_positive", "leaf_with_min_sub_group")
            ],
        ),
    ],
)
def test_one_broken_rule_each(body, expected):
    assert found(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (manifest(leaf("a"), leaf("a", 0)), [("spec.subGroups[1].name", "duplicate_name")]),
        (manifest(leaf("a", 0, "no")), [("spec.subGroups[0].parent", "unknown_parent")]),
        (manifest(leaf("a", 1, "a")), [("spec.subGroups[0].parent", "cycle")]),
        (manifest(leaf("x", 1, "b"), leaf("b", 1, "c"), leaf("c", 1, "b")), [("spec.subGroups[1].parent", "cycle")]),
        (
            manifest(leaf("a"), leaf("a"), leaf("b", 1, "b"), leaf("c", 1, "no")),
            [
                ("spec.subGroups[1].name", "duplicate_name"),
                ("spec.subGroups[3].parent", "unknown_parent"),
                ("spec.subGroups[2].parent", "cycle"),
            ],
        ),
        (
            manifest(*[leaf(f"g{i}", 1, f"g{i + 1}") for i in range(3000)], leaf("g3000")),
            [("spec.subGroups[2936].parent", "bad_value")],
        ),
    ],
)
def test_structural_faults_stop_the_deeper_checks(body, expected):
    assert found(body) == expected
    assert is_structural(validate_pod_group(body))


def test_the_cycle_is_named_whole():
    (fault,) = validate_pod_group(manifest(leaf("b", 1, "c"), leaf("c", 1, "b")))
    assert "b → c → b" in fault.message


def test_min_member_with_groups_is_only_a_warning():
    violations = validate_pod_group(manifest(*REPLICAS, minMember=32))
    assert [(v.code, v.severity) for v in violations] == [("inner_with_min_member", "warning")]
    assert is_valid(violations)
    assert not is_valid(validate_pod_group(manifest(minMember=0)))


def test_all_violations_are_reported_at_once():
    body = manifest(leaf("a", 0), {"name": "mid", "minMember": 1}, {"name": "b", "parent": "mid"}, minSubGroup=9)
    assert found(body) == [
        ("spec.minSubGroup", "min_sub_group_above_children"),
        ("spec.subGroups[0].minMember", "min_member_not_positive"),
        ("spec.subGroups[1].minMember", "inner_with_min_member"),
        ("spec.subGroups[2].minMember", "leaf_without_min_member"),
    ]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (None, ""),
        ([], ""),
        ({"kind": "Pod", "spec": {}}, "kind"),
        ({}, "spec"),
        ({"spec": {"minMember": "three"}}, "spec.minMember"),
        ({"spec": {"minMember": True}}, "spec.minMember"),
        ({"spec": {"minMember": float("nan")}}, "spec.minMember"),
        ({"spec": {"minMember": 10**30}}, "spec.minMember"),
        ({"spec": {"subGroups": {"a": 1}}}, "spec.subGroups"),
        ({"spec": {"subGroups": ["a"]}}, "spec.subGroups[0]"),
        ({"spec": {"subGroups": [{"minMember": 1}]}}, "spec.subGroups[0].name"),
        ({"spec": {"subGroups": [{"name": "a", "minMember": 1, "parent": 3}]}}, "spec.subGroups[0].parent"),
    ],
)
def test_wrong_types_are_violations_too(body, path):
    assert found(body) == [(path, "bad_value")]


def test_a_minimum_of_the_wrong_type_hides_no_other_fault():
    body = manifest(leaf("a", "three"), leaf("b", 0), leaf("c", 1.5), minSubGroup=9, minMember=True)
    assert found(body) == [
        ("spec.minMember", "bad_value"),
        ("spec.subGroups[0].minMember", "bad_value"),
        ("spec.subGroups[2].minMember", "bad_value"),
        ("spec.minSubGroup", "min_sub_group_above_children"),
        ("spec.subGroups[1].minMember", "min_member_not_positive"),
    ]
    twice = manifest(leaf("a", "x"), leaf("a", 1))
    assert found(twice) == [("spec.subGroups[0].minMember", "bad_value"), ("spec.subGroups[1].name", "duplicate_name")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)
GROUP = st.fixed_dictionaries(
    {"name": st.sampled_from("abc") | JSON},
    optional={"parent": st.sampled_from("abc") | JSON, "minMember": JSON, "minSubGroup": JSON},
)
SPEC = st.fixed_dictionaries(
    {}, optional={"minMember": JSON, "minSubGroup": JSON, "subGroups": st.lists(GROUP | JSON, max_size=6) | JSON}
)


@given(st.fixed_dictionaries({"spec": SPEC | JSON}) | JSON)
def test_any_manifest_gets_an_answer(body):
    group, violations = read_pod_group(body)
    if not is_structural(violations):
        group.tree().min_pods()
