"""The tree of a gang as a row stores it: the read tree equals the written one; and its least amount."""

from __future__ import annotations

import json

import pytest

from scheduling.domain.gang import ROOT, SubGroup, tree_from_json, tree_to_json
from scheduling.domain.judgement.podgroup_rules import read_pod_group
from tests.unit.podgroup.test_validate import REPLICAS, TRAINING, manifest

TREES = {
    "inference-service": manifest(*REPLICAS, minSubGroup=3),
    "training-job": manifest(*TRAINING, minSubGroup=2),
    "all children": manifest(*REPLICAS),
    "one leaf": manifest(minMember=4),
    "one leaf, no minimum": manifest(),
    "an ignored minimum": manifest(*REPLICAS, minMember=32),
}


@pytest.mark.parametrize("name", TREES)
def test_a_row_returns_the_tree_that_it_was_written_from(name):
    group, _ = read_pod_group(TREES[name])
    plain = json.loads(json.dumps(tree_to_json(group.min_member, group.min_sub_group, group.groups)))
    back, tree = tree_from_json(plain, 0), group.tree()
    assert (back.names, back.parents, back.thresholds) == (tree.names, tree.parents, tree.thresholds)


def test_absent_fields_are_not_written():
    groups = [SubGroup("a", None, 2), SubGroup("b", "c", 1), SubGroup("c", None, 0, 1)]
    assert tree_to_json(32, None, groups) == {
        "sub_groups": [
            {"name": "a", "min_member": 2},
            {"name": "b", "parent": "c", "min_member": 1},
            {"name": "c", "min_sub_group": 1},
        ]
    }
    assert tree_to_json(4, None, []) == {"min_member": 4}


def test_without_a_tree_all_pods_are_the_minimum():
    tree = tree_from_json(None, 5)
    assert (tree.is_single_leaf, tree.thresholds) == (True, [5])
    assert tree.leaf_of("") == ROOT


def test_a_pod_finds_its_leaf_by_name():
    tree = tree_from_json({"sub_groups": [{"name": "a", "min_member": 1}, {"name": "default", "min_member": 1}]}, 0)
    assert [tree.leaf_of("a"), tree.leaf_of("default")] == [1, 2]


@pytest.mark.parametrize(
    ("name", "amounts", "least"),
    [
        ("inference-service", {1: 1, 2: 1, 3: 1, 4: 1}, 24),
        ("inference-service", {1: 8, 2: 1, 3: 1, 4: 1}, 24),
        ("inference-service", {1: 0, 2: 4, 3: 2, 4: 1}, 24),
        ("training-job", {2: 1, 3: 1, 5: 1, 6: 1}, 10),
        ("training-job", {3: 8, 6: 8}, 64),
        ("all children", {1: 1, 2: 1, 3: 1, 4: 1}, 32),
        ("one leaf", {0: 2}, 8),
    ],
)
def test_the_least_is_the_cheapest_choice_that_holds_the_minimum(name, amounts, least):
    group, _ = read_pod_group(TREES[name])
    assert group.tree().min_amount(amounts) == least
