"""The flavors of a backend: what a node is, and what a configuration may say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pools.domain.configuration.backend_config import parse_backend
from pools.domain.configuration.flavors import (
    FLAVOR_NAME_PATTERN,
    Flavor,
    find_unreachable,
    flavor_of_labels,
    flavors_from_text,
    flavors_of,
    flavors_text,
)
from pools.domain.values.amounts import DEFAULT_FLAVOR

H100 = {"name": "h100", "node_labels": {"nvidia.com/gpu.product": "NVIDIA-H100"}}
A100 = {"name": "a100", "node_labels": {"nvidia.com/gpu.product": "NVIDIA-A100", "zone": "b"}}
FAST = {"name": "fast", "node_labels": {"zone": "b"}}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-H100"}, ("h100", ("h100",))),
        ({"nvidia.com/gpu.product": "NVIDIA-A100", "zone": "b", "more": "x"}, ("a100", ("a100", "fast"))),
        ({"nvidia.com/gpu.product": "NVIDIA-A100"}, ("default", ())),
        ({"nvidia.com/gpu.product": "NVIDIA-H100", "zone": "b"}, ("h100", ("h100", "fast"))),
        ({}, ("default", ())),
    ],
)
def test_a_node_has_the_first_flavor_that_matches(labels: dict[str, str], expected: tuple[str, tuple]) -> None:
    assert flavor_of_labels(labels, flavors_of([H100, A100, FAST])) == expected


def test_without_flavors_every_node_is_the_default() -> None:
    assert flavor_of_labels({"zone": "b"}, ()) == (DEFAULT_FLAVOR, ())


def test_a_flavor_that_an_earlier_one_hides_is_found() -> None:
    assert list(find_unreachable(flavors_of([H100, A100, FAST]))) == []
    rows = [FAST, A100, H100, FAST | {"name": "slow"}]
    assert list(find_unreachable(flavors_of(rows))) == [("a100", "fast"), ("slow", "fast")]


def test_the_lines_of_the_form_come_back() -> None:
    assert flavors_from_text(flavors_text(flavors_of([H100, A100]))) == [H100, A100]
    assert flavors_from_text("\n  \n") == []


def _flavor(name: Any = "h100", labels: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "node_labels": {"zone": "b"} if labels is None else labels, **more}


LABELS = "flavors[0].node_labels"
WRONG: list[tuple[str, Any, str, str]] = [
    ("no list", {"h100": {}}, "flavors", "bad_value"),
    ("a text in it", ["h100"], "flavors", "bad_value"),
    ("no name", [{"node_labels": {"zone": "b"}}], "flavors[0].name", "missing"),
    ("an empty name", [_flavor("")], "flavors[0].name", "missing"),
    ("the reserved name", [_flavor("default")], "flavors[0].name", "bad_name"),
    ("a slash in the name", [_flavor("h100/gpu")], "flavors[0].name", "bad_name"),
    ("a space in the name", [_flavor("h 100")], "flavors[0].name", "bad_name"),
    ("a name that ends in a dot", [_flavor("h100.")], "flavors[0].name", "bad_name"),
    ("a long name", [_flavor("h" * 64)], "flavors[0].name", "bad_name"),
    ("a name twice", [_flavor(), _flavor()], "flavors[1].name", "duplicate_name"),
    ("no labels", [{"name": "h100"}], LABELS, "missing"),
    ("an empty object", [_flavor(labels={})], LABELS, "missing"),
    ("labels in a list", [_flavor(labels=["zone"])], LABELS, "bad_value"),
    ("a number as a value", [_flavor(labels={"zone": 3})], f"{LABELS}.zone", "bad_value"),
    ("a value that no node can have", [_flavor(labels={"zone": "a b"})], f"{LABELS}.zone", "bad_value"),
    ("a long value", [_flavor(labels={"zone": "a" * 64})], f"{LABELS}.zone", "bad_value"),
    ("a key with two slashes", [_flavor(labels={"a/b/c": "1"})], f"{LABELS}.a/b/c", "bad_name"),
    ("too many labels", [_flavor(labels={f"k{n}": "" for n in range(65)})], LABELS, "too_many"),
    ("too many flavors", [_flavor(f"f{n}") for n in range(65)], "flavors", "too_many"),
    ("an unknown key", [_flavor(quota=4)], "flavors[0].quota", "unknown_key"),
]


@pytest.mark.parametrize(("given", "path", "code"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
@pytest.mark.parametrize("kind", ["simulated", "kubernetes"])
def test_what_is_wrong_is_named_with_its_place(given: Any, path: str, code: str, kind: str) -> None:
    body = {"type": kind, "flavors": given} | ({"access": "in_cluster"} if kind == "kubernetes" else {})
    _, faults = parse_backend("sim", body)
    assert [(fault.path, fault.code) for fault in faults] == [(path, code)]


def test_the_labels_of_a_node_are_checked_the_same_way() -> None:
    node = {"name": "n1", "gpus": 8, "labels": {"zone": "a b"}}
    _, faults = parse_backend("sim", {"nodes": [node]})
    assert [(fault.path, fault.code) for fault in faults] == [("nodes[0].labels.zone", "bad_value")]
    spec, faults = parse_backend("sim", {"nodes": [node | {"labels": {"zone": "", "x.org/a": "B_1"}}]})
    assert (faults, spec.nodes and dict(spec.nodes[0].labels)) == ([], {"zone": "", "x.org/a": "B_1"})


def test_a_good_name_is_one_for_the_database_too() -> None:
    for name in ("h100", "H100-80GB", "a.b_c", "1", "h" * 63):
        spec, faults = parse_backend("sim", {"flavors": [_flavor(name)]})
        assert (faults, spec.flavors) == ([], (Flavor(name, {"zone": "b"}),))
        assert re.search(FLAVOR_NAME_PATTERN, name)
