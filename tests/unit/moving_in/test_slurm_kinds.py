"""Slurm's types of GPU as flavors: where limits name them and the nodes say which has which."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.options import GuaranteeFrom
from scheduling.moving_in.result import ImportResult, PartOutcome
from tests.support.imports import body, imported, pool, told

TOP = "Cluster - 'tux'\nParent - 'root'\n"
NODES = "NodeName=a[1-2] Gres=gpu:A100:8\nNodeName=v1 Gres=gpu:v100:4\n"
DUMP = f"""{TOP}Account - 'sci':GrpTRES=gres/gpu:a100=12:Fairshare=2
Account - 'ops':GrpTRES=gres/gpu=6
Parent - 'sci'
Account - 'bio':GrpTRES=gres/gpu:a100=8,gres/gpu:v100=2
Account - 'chem'
"""


def resources(result: ImportResult, name: str) -> dict[str, Any]:
    """The amounts of a pool."""
    found: dict[str, Any] = pool(result, name)["resources"]
    return found


def test_types_are_flavors_of_the_cluster_the_pools_and_the_cohorts() -> None:
    result = imported("slurm", DUMP, NODES, guarantee=GuaranteeFrom.LIMIT)
    backend = body(result, OwnedKind.BACKEND, "imported")
    assert [each["name"] for each in backend["flavors"]] == ["a100", "v100"]
    assert backend["nodes"][0]["labels"] == backend["flavors"][0]["node_labels"]
    assert not any("platform" in node for node in backend["nodes"])
    assert "platforms" not in pool(result, "bio")
    assert list(resources(result, "bio")["flavors"].items()) == [
        ("a100", {"guarantee": 8, "maximum": 8}), ("v100", {"guarantee": 2, "maximum": 2})
    ]  # fmt: skip
    assert resources(result, "chem") == {"flavors": {"a100": {"guarantee": 0}, "v100": {"guarantee": 0}}}
    assert body(result, OwnedKind.COHORT, "sci")["quotas"] == [
        {"flavor": "a100", "resource": "gpu", "nominal": 0, "borrowing_limit": 4},
        {"flavor": "v100", "resource": "gpu", "nominal": 0},
    ]
    assert [row["nominal"] for row in body(result, OwnedKind.COHORT, "tux")["quotas"]] == [8, 2]
    assert "the flavors have the label" in told(result, PartOutcome.TO_DECIDE)


def test_a_total_over_several_types_is_one_of_each_and_no_quota() -> None:
    result = imported("slurm", DUMP, NODES, guarantee=GuaranteeFrom.LIMIT)
    assert resources(result, "ops")["flavors"] == {
        "a100": {"guarantee": 0, "maximum": 6}, "v100": {"guarantee": 0, "maximum": 6}
    }  # fmt: skip
    assert "a ceiling of 6 over several flavors has no counterpart" in told(result, PartOutcome.TO_DECIDE)


@pytest.mark.parametrize(
    ("limit", "maxima", "quotas", "is_told"),
    [
        ("gres/gpu=10,gres/gpu:a100=8,gres/gpu:v100=2", [8, 2], [8, 2], False),
        ("gres/gpu=9,gres/gpu:a100=8,gres/gpu:v100=2", [8, 2], [0, 0], True),
        ("gres/gpu=4,gres/gpu:a100=8,gres/gpu:v100=0", [4, 0], [0, 0], True),
        ("gres/gpu:v100=0", [None, 0], [0, 0], False),
        ("gres/gpu=20,gres/gpu:a100=8", [8, None], [8, 0], False),
        ("gres/gpu:a100=-1", [None, None], [0, 0], False),
    ],
)
def test_a_total_beside_its_types(limit: str, maxima: list[int | None], quotas: list[int], is_told: bool) -> None:
    dump = f"{TOP}Account - 'bio':GrpTRES={limit}\nAccount - 'x':GrpTRES=gres/gpu:a100=1\n"
    result = imported("slurm", dump, NODES, guarantee=GuaranteeFrom.LIMIT)
    rows = list(resources(result, "bio")["flavors"].values())
    assert [row.get("maximum") for row in rows] == maxima
    assert [row["guarantee"] for row in rows] == quotas
    assert ("over several flavors" in told(result, PartOutcome.TO_DECIDE)) == is_told


def test_subpools_have_quotas_by_flavor() -> None:
    result = imported("slurm", DUMP, NODES, depth=1, guarantee=GuaranteeFrom.LIMIT)
    nothing = {"a100": 0, "v100": 0}
    assert pool(result, "sci")["subpools"] == {"bio": {"a100": 8, "v100": 0}, "chem": nothing}
    assert "the ceilings of v100 of its subpools are above 0" in told(result, PartOutcome.TO_DECIDE)


def test_one_type_needs_no_flavor() -> None:
    dump = f"{TOP}Account - 'bio':GrpTRES=gres/gpu=8,gres/gpu:a100=4\n"
    result = imported("slurm", dump, "NodeName=a[1-2] Gres=gpu:a100:8\n")
    assert resources(result, "bio") == {"gpu": {"guarantee": 0, "maximum": 4, "weight": 1}}
    assert "flavors" not in body(result, OwnedKind.BACKEND, "imported")
    assert "gres/gpu:a100: all nodes have GPUs of this type" in told(result, PartOutcome.BECAME)


def test_types_that_no_node_tells_are_named() -> None:
    dump = f"{TOP}Account - 'bio':GrpTRES=gres/gpu:a100=4\n"
    for nodes in ((), ("NodeName=n Gres=gpu:4\n",)):
        result = imported("slurm", dump, *nodes)
        assert resources(result, "bio") == {"gpu": {"guarantee": 0, "maximum": 4, "weight": 1}}
        assert "gres/gpu:a100: the nodes of the files do not tell" in told(result, PartOutcome.NO_COUNTERPART)
    result = imported("slurm", f"{dump}Account - 'x':GrpTRES=gres/gpu:h200=4\n", NODES)
    assert "gres/gpu:h200: no node of the files has" in told(result, PartOutcome.NO_COUNTERPART)


def test_a_feature_is_the_type_of_gpus_without_one() -> None:
    dump = f"{TOP}Account - 'bio':GrpTRES=gres/gpu:a100=4\n"
    nodes = (
        "NodeName=n1 Gres=gpu:4 Features=nvlink,A100\nNodeName=n2 Gres=gpu:2 Feature=v100\n"
        "NodeName=n3 Gres=gpu:v100:2 AvailableFeatures=a100\n"
    )
    result = imported("slurm", dump, nodes)
    assert list(resources(result, "bio")["flavors"]) == ["a100", "default", "v100"]
    assert "the feature a100 is the type of its GPUs" in told(result, PartOutcome.BECAME)
    assert "nodes with 2 GPUs have no type" in told(result, PartOutcome.TO_DECIDE)


def test_the_flavors_of_a_cluster_that_is_here_are_given_by_hand() -> None:
    result = imported("slurm", DUMP, NODES, writes_backend=False)
    assert "give the cluster imported these flavors" in told(result, PartOutcome.TO_DECIDE)
