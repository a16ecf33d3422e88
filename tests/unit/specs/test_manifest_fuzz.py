"""PodGroup manifests of every kind, valid or not: one answer each, and the three readers agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.gang import ROOT, tree_from_json
from scheduling.domain.judgement.podgroup_plan import plan_pod_group
from scheduling.domain.judgement.podgroup_rules import is_valid, validate_pod_group
from scheduling.specs import SpecRules, parse
from tests.unit.specs.sample_files import assert_consistent

GROUPS = "kind: PodGroup\nmetadata: {name: x}\nspec:\n  subGroups:\n"
LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


def head(**annotations: str) -> str:
    named = ", ".join(f"osmo/{name}: {value}" for name, value in annotations.items())
    return f"kind: PodGroup\nmetadata: {{name: x, annotations: {{{named}}}}}\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("kind: PodGroup\na0: &a0 [x, x]\n" + LAUGHS, "too_many_values", id="billion laughs"),
        pytest.param("kind: PodGroup\nspec: " + "{a: " * 100_000, "too_deep", id="deep maps"),
        pytest.param(head() + "spec: {minMember: " + "9" * 500_000 + "}", "bad_value", id="500,000 digits"),
        pytest.param(head() + "spec: {minMember: 1e999999999}", "bad_value", id="a huge exponent"),
        pytest.param(head() + "spec: {minMember: .inf}", "bad_value", id="infinity"),
        pytest.param(head() + "spec: {minMember: !!python/name:os.system }", "unknown_tag", id="a tag"),
        pytest.param(head() + "spec: {minMember: 1, minMember: 2}", "duplicate_key", id="a key twice"),
        pytest.param("kind: PodGroup\n" * 50_000, "too_many_values", id="a key 50,000 times"),
        pytest.param(head() + "spec: &a {subGroups: [*a]}", "unknown_anchor", id="inside itself"),
        pytest.param(head(pods="'" + "{a: " * 100_000 + "'") + "spec: {}", "too_deep", id="a bomb in quotes"),
        pytest.param(
            head(pods="{" + ", ".join(f"g{n}: 1" for n in range(15_000)) + "}") + "spec: {}", "unknown_name",
            id="an annotation of 15,000 SubGroups",
        ),
        pytest.param(
            head(**{f"g{n}": "1" for n in range(20_000)}) + "spec: {}", "unknown_key", id="20,000 annotations"
        ),
        pytest.param(
            GROUPS + "".join(f"  - {{name: g{n}, minMember: 1}}\n" for n in range(9000)), "too_many_tasks", id="a star"
        ),
        pytest.param(
            GROUPS + "".join(f"  - {{name: g{n}, parent: g{n + 1}}}\n" for n in range(9000)) + "  - {name: g9000}\n",
            "bad_value",
            id="a chain",
        ),
        pytest.param(
            GROUPS + "".join(f"  - {{name: g{n}, parent: g{(n + 1) % 9000}}}\n" for n in range(9000)), "cycle",
            id="a circle",
        ),
        pytest.param(
            GROUPS + "".join(f"  - {{name: g{n}, parent: h{n}}}\n" for n in range(9000)), "unknown_parent",
            id="orphans",
        ),
        pytest.param(head() + "spec: {subGroups: [{name: " + "n" * 500_000 + "}]}", "bad_name", id="a long name"),
    ],
)  # fmt: skip
def test_hostile_manifests_get_a_message(text: str, code: str) -> None:
    parsed = parse(text)
    assert_consistent(parsed)
    assert code in {fault.code for fault in parsed.violations}
    assert len(parsed.violations) <= 101


ODD = (
    st.none() | st.booleans() | st.integers(-2, 40) | st.integers() | st.floats() | st.text(max_size=4)
    | st.lists(st.integers(0, 3), max_size=2) | st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=2)
)  # fmt: skip
COUNT = st.integers(1, 4) | ODD
NAME = st.sampled_from(["a", "b", "c", "d", "A", "a-b"]) | ODD
SUB_GROUP = st.fixed_dictionaries(
    {"name": NAME},
    optional={"parent": st.sampled_from(["a", "b", "c"]) | ODD, "minMember": COUNT, "minSubGroup": COUNT, "x": ODD},
)
FOR_EACH = COUNT | st.dictionaries(st.sampled_from(["a", "b", "default"]), COUNT, max_size=3)
ANNOTATIONS = st.dictionaries(
    st.sampled_from([f"osmo/{name}" for name in ("pods", "gpus-per-pod", "image", "command", "platform", "pod")]),
    FOR_EACH | FOR_EACH.map(json.dumps),
    max_size=3,
)
MANIFEST = st.fixed_dictionaries(
    {
        "kind": st.just("PodGroup"),
        "metadata": st.fixed_dictionaries(
            {"name": st.just("x") | NAME}, optional={"annotations": ANNOTATIONS | ODD, "labels": ODD}
        )
        | ODD,
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "minMember": COUNT,
                "minSubGroup": COUNT,
                "subGroups": st.lists(SUB_GROUP | ODD, max_size=5) | ODD,
                "priorityClassName": st.just("osmo-low") | ODD,
            },
        )
        | ODD,
    },
    optional={"apiVersion": ODD, "status": ODD, "workflow": ODD},
)


@st.composite
def valid_manifests(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest without a fault: a tree of up to seven SubGroups, some of them elastic."""
    parents = [draw(st.sampled_from([None, *range(number)])) for number in range(draw(st.integers(0, 7)))]
    roots = parents.count(None)
    groups: list[dict[str, Any]] = []
    pods, gpus = {}, {}
    for number, parent in enumerate(parents):
        group: dict[str, Any] = {"name": f"g{number}"} | ({} if parent is None else {"parent": f"g{parent}"})
        children = parents.count(number)
        if children:
            group |= draw(st.just({}) | st.fixed_dictionaries({"minSubGroup": st.integers(1, children)}))
        else:
            group["minMember"] = draw(st.integers(1, 4))
            pods[group["name"]] = group["minMember"] + draw(st.integers(0, 3))
            gpus[group["name"]] = draw(st.integers(0, 8))
        groups.append(group)
    own = st.integers(1, roots).map(lambda least: {"minSubGroup": least}) if roots else st.just({"minMember": 3})
    annotations = {"osmo/pods": json.dumps(pods), "osmo/gpus-per-pod": gpus} if pods else {"osmo/gpus-per-pod": 2}
    return {
        "kind": "PodGroup",
        "metadata": {"name": "x", "annotations": annotations},
        "spec": {**draw(st.just({}) | own), "subGroups": draw(st.permutations(groups))},
    }


@given(MANIFEST)
def test_any_manifest_gets_an_answer(manifest: dict[str, Any]) -> None:
    parsed = parse(json.dumps(manifest), rules=SpecRules(max_pods=100))
    assert_consistent(parsed)
    assert parsed.spec is None or is_valid(validate_pod_group(manifest))


@given(valid_manifests())
def test_a_valid_manifest_is_accepted_by_all_readers(manifest: dict[str, Any]) -> None:
    parsed = parse(json.dumps(manifest))
    assert parsed.violations == ()
    assert parsed.spec is not None
    assert validate_pod_group(manifest) == []
    (gang,) = parsed.spec.groups
    tree = tree_from_json(gang.gang, 0)
    pods = [0] * len(tree.names)
    for task in gang.tasks:
        pods[tree.leaf_of(task.sub_group)] += 1
    assert tree.is_satisfied(pods)
    assert 0 <= gang.gpus <= sum(task.gpu for task in gang.tasks)
    assert len({task.name for task in gang.tasks}) == len(gang.tasks)
    waiting = [{"name": task.name, "sub_group": task.sub_group or None, "state": "Pending"} for task in gang.tasks]
    answer = plan_pod_group({"podgroup": manifest, "pods": waiting})
    assert (answer["ready"], answer["non_preemptible_pods"]) == (True, tree.min_pods(ROOT))
    assert len(answer["next"]) == tree.min_pods(ROOT)


@given(st.text("{}[]&*a:-?!%'\"|>#, \n\tkindPodGroup0.e", max_size=80))
def test_any_text_with_the_kind_pod_group_gets_an_answer(text: str) -> None:
    assert_consistent(parse("kind: PodGroup\n" + text))
