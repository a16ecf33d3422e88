"""The messages of a preview."""

from __future__ import annotations

from typing import Any

from pools.domain.change_effects import consequence_messages, node_effects
from pools.domain.names import REMAINDER_LABEL


def _tree_state(quota: int, shared: tuple[int, int], **subpools: tuple[str, int, int]) -> dict[str, Any]:
    """`shared` is (quota, used); a subpool (state, quota, used)."""
    return {
        "pool": "team",
        "quota": quota,
        "shared": {"quota": shared[0], "used": shared[1], "available": shared[0] - shared[1]},
        "subpools": [
            {"subpool_name": name, "subpool_state": state, "quota": given, "used": used, "available": given - used}
            for name, (state, given, used) in subpools.items()
        ],
    }


def test_a_new_subpool_and_the_remainder() -> None:
    before = _tree_state(100, (100, 90))
    after = _tree_state(100, (70, 90), a=("ACTIVE", 30, 0))
    nodes = node_effects(before, after)
    assert [(node.label, node.quota_before, node.quota_after, node.is_changed) for node in nodes] == [
        ("team", 100, 100, False),
        (REMAINDER_LABEL, 100, 70, True),
        ("a", None, 30, True),
    ]
    assert consequence_messages(nodes) == (
        (
            "The shared remainder of team keeps 90 GPUs of HIGH and NORMAL work on a quota of 70: nothing is stopped, "
            "20 GPUs drain as that work ends, and new work there waits until then."
        ),
        "The quota of team--a is 30 GPUs from now on.",
    )


def test_a_decrease_without_consequences_has_no_message() -> None:
    nodes = node_effects(_tree_state(10, (2, 0), a=("ACTIVE", 8, 1)), _tree_state(10, (6, 0), a=("ACTIVE", 4, 1)))
    assert consequence_messages(nodes) == ()


def test_deleting() -> None:
    before = _tree_state(10, (2, 0), a=("ACTIVE", 8, 1))
    drains = node_effects(before, _tree_state(10, (10, 0), a=("DELETING", 0, 1)))
    assert consequence_messages(drains, draining=1, cancelled=2) == (
        "2 workflows that have not started are cancelled.",
        (
            "1 workflow on team--a keeps running. The subpool accepts no new work and cannot be changed; it is "
            "archived when the last one has ended."
        ),
    )
    archived = node_effects(before, _tree_state(10, (10, 0)))
    assert archived[2].state_after == "ARCHIVED"
    assert consequence_messages(archived) == (
        "team--a has no active work, so it is archived at once. It can be recreated later.",
    )
    assert consequence_messages(archived, cancelled=1) == (
        "1 workflow that has not started is cancelled.",
        "team--a has no other active work, so it is archived at once. It can be recreated later.",
    )


def test_a_pool_that_does_not_exist_yet() -> None:
    nodes = node_effects(None, _tree_state(64, (64, 0)))
    assert [(node.label, node.quota_before, node.quota_after) for node in nodes] == [
        ("team", None, 64),
        (REMAINDER_LABEL, None, 64),
    ]
