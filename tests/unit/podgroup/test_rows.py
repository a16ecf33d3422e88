"""The rows of a tree: needed, present, optional."""

from __future__ import annotations

from scheduling.domain.gang_tree_rows import gang_tree_rows
from scheduling.domain.judgement.podgroup_rules import read_pod_group
from tests.unit.podgroup.test_validate import REPLICAS, TRAINING, leaf, manifest


def rows(body, active=(), pods=()):
    group, _ = read_pod_group(body)
    tree = group.tree()
    by_leaf = {tree.leaf_of(name): count for name, count in dict(active).items()}
    have = {tree.leaf_of(name): count for name, count in dict(pods).items()}
    return gang_tree_rows(tree, "gang", by_leaf, have)


def test_a_fresh_inference_service_can_do_without_its_last_replica():
    found = rows(manifest(*REPLICAS, minSubGroup=3), pods={f"prefill-{i}": 8 for i in range(4)})
    assert [(row.name, row.threshold, row.count, row.size, row.optional, row.spare) for row in found] == [
        ("gang", 3, 0, 4, False, 1),
        ("prefill-0", 8, 0, 8, False, 0),
        ("prefill-1", 8, 0, 8, False, 0),
        ("prefill-2", 8, 0, 8, False, 0),
        ("prefill-3", 8, 0, 8, True, 0),
    ]


def test_the_replica_that_could_not_be_placed_is_the_optional_one():
    body = manifest(*REPLICAS, minSubGroup=3)
    found = rows(body, active={"prefill-0": 5, "prefill-1": 8, "prefill-2": 8, "prefill-3": 8})
    assert [(row.name, row.satisfied, row.optional) for row in found] == [
        ("gang", True, False),
        ("prefill-0", False, True),
        ("prefill-1", True, False),
        ("prefill-2", True, False),
        ("prefill-3", True, False),
    ]
    assert found[0].count == 3


def test_when_all_run_the_one_that_would_be_given_up_first_is_optional():
    body = manifest(leaf("a", 2), leaf("b", 2), leaf("c", 2), minSubGroup=2)
    found = rows(body, active={"a": 4, "b": 2, "c": 2}, pods={"a": 4, "b": 2, "c": 2})
    assert [(row.name, row.optional, row.spare) for row in found[1:]] == [
        ("a", True, 2), ("b", False, 0), ("c", False, 0),
    ]  # fmt: skip


def test_each_row_is_below_its_parent():
    found = rows(manifest(*TRAINING, minSubGroup=2), active={"decode-leaders": 1, "decode-workers": 4})
    assert [(row.level, row.name, row.parent, row.leaf, row.count, row.threshold) for row in found] == [
        (0, "gang", None, False, 1, 2),
        (1, "decode", None, False, 2, 2),
        (2, "decode-leaders", "decode", True, 1, 1),
        (2, "decode-workers", "decode", True, 4, 4),
        (1, "prefill", None, False, 0, 2),
        (2, "prefill-leaders", "prefill", True, 0, 1),
        (2, "prefill-workers", "prefill", True, 0, 4),
    ]
    assert not any(row.optional for row in found)


def test_a_child_may_be_written_before_its_parent():
    found = rows(manifest(leaf("a", 1, "mid"), {"name": "mid"}, leaf("b", 1)))
    assert [row.name for row in found] == ["gang", "mid", "a", "b"]


def test_one_leaf_is_one_row():
    (row,) = rows(manifest(minMember=2), active={"": 3}, pods={"": 5})
    assert (row.name, row.leaf, row.threshold, row.count, row.size, row.spare) == ("gang", True, 2, 3, 5, 3)
    assert row.satisfied
