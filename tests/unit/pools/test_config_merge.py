"""The recursive merge of PATCH, as OSMO's clients send it (design, O8)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pools.domain.configuration.config_merge import merge_patch

NOW = {
    "description": "old",
    "resources": {"gpu": {"guarantee": 100, "weight": 1}},
    "mounts": ["/a", "/b"],
    "keys": [{"key": "rack", "label": "x"}, {"key": "zone", "label": "y"}],
}


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({}, {}),
        ({"description": "new"}, {"description": "new"}),
        ({"description": None}, {"description": None}),
        ({"more": 1}, {"more": 1}),
        ({"resources": {"gpu": {"guarantee": 50}}}, {"resources": {"gpu": {"guarantee": 50, "weight": 1}}}),
        ({"resources": {"gpu": {"weight": {"$action": "delete"}}}}, {"resources": {"gpu": {"guarantee": 100}}}),
        ({"resources": {"gpu": {"$action": "replace", "guarantee": 1}}}, {"resources": {"gpu": {"guarantee": 1}}}),
        ({"resources": {"gpu": {"$action": "delete"}}}, {"resources": {}}),
        ({"resources": 5}, {"resources": 5}),
        ({"description": {"a": {"b": 1}}}, {"description": {"a": {"b": 1}}}),
        ({"mounts": ["/c"]}, {"mounts": ["/c"]}),
        ({"mounts": []}, {"mounts": []}),
        ({"keys": []}, {"keys": []}),
        ({"keys": [{"key": "row", "label": "z"}]}, {"keys": [*NOW["keys"], {"key": "row", "label": "z"}]}),
        ({"keys": [{"$index": 1, "label": "w"}]}, {"keys": [NOW["keys"][0], {"key": "zone", "label": "w"}]}),
        ({"keys": [{"$index": 0, "$action": "delete"}]}, {"keys": [NOW["keys"][1]]}),
        ({"keys": [{"$index": 0, "$action": "replace", "key": "n"}]}, {"keys": [{"key": "n"}, NOW["keys"][1]]}),
        (
            {"keys": [{"$index": 0, "$action": "delete"}, {"$index": 1, "label": "w"}, {"key": "new"}]},
            {"keys": [{"key": "zone", "label": "w"}, {"key": "new"}]},
        ),
        ({"new": [{"a": 1}]}, {"new": [{"a": 1}]}),
        ({"gone": {"$action": "delete"}}, {}),
    ],
    ids=str,
)
def test_merge(patch: dict[str, Any], changed: dict[str, Any]) -> None:
    before = copy.deepcopy(NOW)
    assert merge_patch(NOW, patch) == ({**NOW, **changed}, [])
    assert before == NOW, "what is merged into is not touched"


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"$action": "delete"}, ""),
        ({"resources": {"$action": "drop"}}, "resources.$action"),
        ({"resources": {"$index": 0}}, "resources.$index"),
        ({"keys": [{"$index": 2}]}, "keys[0].$index"),
        ({"keys": [{"$index": -1}]}, "keys[0].$index"),
        ({"keys": [{"$index": "0"}]}, "keys[0].$index"),
        ({"keys": [{"$index": True}]}, "keys[0].$index"),
        ({"keys": [{"$index": [0]}]}, "keys[0].$index"),
        ({"keys": [{"$index": 0}, {"$index": 0, "label": "b"}]}, "keys[1].$index"),
        ({"new": [{"$index": 0}]}, "new[0].$index"),
    ],
    ids=str,
)
def test_a_patch_that_means_nothing_is_refused_with_its_place(patch: dict[str, Any], path: str) -> None:
    _, faults = merge_patch(NOW, patch)
    assert [(fault.path, fault.code) for fault in faults] == [(path, "bad_value")]


def test_depth_has_a_limit() -> None:
    patch: dict[str, Any] = {}
    for _ in range(500):
        patch = {"a": patch}
    _, faults = merge_patch({}, patch)
    assert [fault.code for fault in faults] == ["bad_value"]
