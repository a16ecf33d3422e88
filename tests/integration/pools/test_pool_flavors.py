"""Quotas by flavor over HTTP: what a pool and its subpools may have, and what is said of anything else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool, ResizeSubpools
from pools.domain.errors import BadInput
from pools.models import Pool
from pools.selectors.quotas.pool_balance import read_balance
from pools.services.configuration.subpools import end_temporary_quotas
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.world import ModuleData

POOL = "/api/configs/pool/team"
SUBPOOL = f"{POOL}/subpool"
FLAVORS = [{"name": name, "node_labels": {"gpu": name}} for name in ("h100", "a100", "l40")]
QUOTAS = {"h100": {"guarantee": 16, "maximum": 24}, "a100": {"guarantee": 48}}


@pytest.fixture(scope="module")
def kinds_once(sim_once: str, module_data: ModuleData) -> str:
    with module_data():
        world.apply_change(PutBackend(name="sim", body={"flavors": FLAVORS}))
    return sim_once


@pytest.fixture
def kinds(kinds_once: str, db: None) -> str:
    """The backend with three flavors."""
    return kinds_once


@pytest.fixture
def team(kinds: str, admin: ApiClient) -> ApiClient:
    """A pool of 16 h100 and 48 a100 GPUs with the subpools a (4 and 8) and b (8 and 0)."""
    assert admin("PUT", POOL, {"backend": "sim", "resources": {"flavors": QUOTAS}}).status == 200
    assert admin("POST", SUBPOOL, {"subpool_name": "a", "quotas": {"h100": 4, "a100": 8}}).status == 200
    assert admin("POST", SUBPOOL, {"subpool_name": "b", "quotas": {"h100": 8}}).status == 200
    return admin


def by_flavor(name: str = "team") -> dict[str, tuple[Any, ...]]:
    """(guarantee, allocated, shared) of each flavor."""
    balance = read_balance(Pool.objects.get(name=name))
    return {flavor: (kind.guarantee, kind.allocated, kind.unallocated) for flavor, kind in balance.kinds.items()}


def faults(answer: Any) -> list[tuple[str, str]]:
    return [(each["path"], each["code"]) for each in answer.body["details"]]


def test_a_subpool_without_quotas_is_told_the_flavors_and_the_form(team: ApiClient, admin: ApiClient) -> None:
    needed = (
        "quota is missing. Pool team has quotas of 2 flavors (h100, a100): say how many GPUs of each, as quotas "
        '{"h100": GPUS, "a100": GPUS}.'
    )
    for method, path, body in (("POST", SUBPOOL, {"subpool_name": "c"}), ("PATCH", f"{SUBPOOL}/a", {})):
        answer = team(method, path, body)
        assert (answer.status, faults(answer)) == (400, [("quota", "missing")])
        assert answer.body["details"][0]["message"] == needed
    admin("PUT", "/api/configs/pool/plain", {"backend": "sim", "resources": {"gpu": {"guarantee": 8}}})
    answer = admin("POST", "/api/configs/pool/plain/subpool", {"subpool_name": "c"})
    assert (answer.status, answer.body["details"][0]["message"]) == (400, "quota is missing.")


def test_a_pool_keeps_its_flavors_in_order_and_has_their_sums(kinds: str, admin: ApiClient) -> None:
    answer = admin("PUT", POOL, {"backend": "sim", "resources": {"flavors": QUOTAS}})
    assert list(answer.body["resources"]["flavors"].items()) == list(QUOTAS.items())
    assert answer.body["resources"]["gpu"] == {"guarantee": 64, "maximum": -1, "weight": 1}
    assert (answer.body["when_can_borrow"], answer.body["when_can_preempt"]) == ("borrow", "next")
    again = admin("PUT", POOL, answer.body)
    assert (again.headers["ETag"], list(again.body["resources"]["flavors"])) == (
        answer.headers["ETag"],
        ["h100", "a100"],
    )
    turned = {**answer.body, "resources": {"flavors": dict(reversed(QUOTAS.items()))}, "when_can_borrow": "next"}
    changed = admin("PUT", POOL, turned)
    assert (list(changed.body["resources"]["flavors"]), changed.body["when_can_borrow"]) == (["a100", "h100"], "next")
    assert Pool.objects.get(name="team").config["when_can_borrow"] == "next"
    rows = [{"flavor": "h100", "guarantee": 1, "maximum": 2}, {"flavor": "a100", "guarantee": 2, "maximum": 3}]
    listed = admin("PUT", POOL, {"backend": "sim", "resources": {"flavors": rows}})
    assert listed.body["resources"]["gpu"]["maximum"] == 5


def flavors(**quotas: Any) -> dict[str, Any]:
    return {"backend": "sim", "resources": {"flavors": {name: {"guarantee": gpus} for name, gpus in quotas.items()}}}


AT = "resources.flavors"
WRONG_POOLS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "an unknown flavor": (flavors(b200=4), [(f"{AT}.b200", "unknown_flavor")]),
    "a number": ({"backend": "sim", "resources": {"flavors": 5}}, [(AT, "bad_value")]),
    "a number for a flavor": ({"backend": "sim", "resources": {"flavors": {"h100": 5}}}, [(f"{AT}.h100", "bad_value")]),
    "no number": ({"backend": "sim", "resources": {"flavors": {"h100": {}}}}, [(f"{AT}.h100.guarantee", "missing")]),
    "a negative quota": (flavors(h100=-1), [(f"{AT}.h100.guarantee", "negative_quota")]),
    "a text": (flavors(h100="8"), [(f"{AT}.h100.guarantee", "bad_value")]),
    "a percentage": (flavors(h100="25%"), [(f"{AT}.h100.guarantee", "bad_value")]),
    "half a GPU": (flavors(h100=7.5), [(f"{AT}.h100.guarantee", "bad_value")]),
    "too much": (flavors(h100=2**31), [(f"{AT}.h100.guarantee", "too_large")]),
    "a name twice": (
        {"backend": "sim", "resources": {"flavors": [{"flavor": "h100", "guarantee": 1}] * 2}},
        [(f"{AT}[1]", "duplicate")],
    ),
    "a bad name": (flavors(**{"h/100": 4}), [(f"{AT}.h/100", "bad_name"), (f"{AT}.h/100", "unknown_flavor")]),
    "a maximum below": (
        {"backend": "sim", "resources": {"flavors": {"h100": {"guarantee": 4, "maximum": 3}}}},
        [(f"{AT}.h100.maximum", "maximum_below_guarantee")],
    ),
    "an unknown key": (
        {"backend": "sim", "resources": {"flavors": {"h100": {"guarantee": 4, "weight": 3}}}},
        [(f"{AT}.h100.weight", "unknown_key")],
    ),
    "another sum": (
        {"backend": "sim", "resources": {"gpu": {"guarantee": 10}, "flavors": QUOTAS}},
        [("resources.gpu.guarantee", "sum_differs")],
    ),
    "another maximum": (
        {"backend": "sim", "resources": {"gpu": {"maximum": 80}, "flavors": QUOTAS}},
        [("resources.gpu.maximum", "sum_differs")],
    ),
    "a limit without a cohort": (
        {"backend": "sim", "resources": {"flavors": {"h100": {"guarantee": 4, "lending_limit": 2}}}},
        [(f"{AT}.h100.lending_limit", "limit_without_parent")],
    ),
    "a limit for all flavors": (
        {"backend": "sim", "cohort": "org", "lending_limit": 2, "resources": {"flavors": QUOTAS}},
        [("lending_limit", "flavor_needed")],
    ),
    "an unknown word": ({**flavors(h100=4), "when_can_borrow": "maybe"}, [("when_can_borrow", "bad_value")]),
    "a switch without flavors": (pool_config(4) | {"when_can_preempt": "preempt"}, [("when_can_preempt", "bad_value")]),
}


def test_what_is_wrong_with_a_pool_is_named(kinds: str, admin: ApiClient) -> None:
    for name, (body, found) in WRONG_POOLS.items():
        answer = admin("PUT", POOL, body)
        assert (answer.status, faults(answer)) == (400, found), name
        if name == "another sum":
            (fault,) = answer.body["details"]
            assert (fault["given"], fault["sum"]) == (10, 64)
            assert "10" in fault["message"] and "64" in fault["message"]
    assert not Pool.objects.exists()


def test_shared_and_subpools_are_the_quota_of_each_flavor(team: ApiClient) -> None:
    assert by_flavor() == {"h100": (16, 12, 4), "a100": (48, 8, 40)}
    tree = team("GET", SUBPOOL).body
    assert (tree["quota"], tree["unallocated"]) == (64, 44)
    assert [(each["flavor"], each["quota"]) for each in tree["flavors"]] == [("h100", 16), ("a100", 48)]
    assert [(each["flavor"], each["quota"]) for each in tree["shared"]["flavors"]] == [("h100", 4), ("a100", 40)]
    a, b = tree["subpools"]
    assert (a["quota"], a["quotas"], b["quota"], b["quotas"]) == (
        12, {"h100": 4, "a100": 8}, 8, {"h100": 8, "a100": 0},
    )  # fmt: skip
    assert team("GET", f"{SUBPOOL}/b").body["quotas"] == {"h100": 8, "a100": 0}


WRONG_SUBPOOLS: dict[str, tuple[dict[str, Any], list[tuple[str, str]], dict[str, Any]]] = {
    "nothing": ({}, [("quota", "missing")], {}),
    "a quota alone": ({"quota": 4}, [("quota", "flavor_needed")], {"flavors": ["h100", "a100"]}),
    "a percentage alone": ({"quota": "25%"}, [("quota", "flavor_needed")], {}),
    "a list": ({"quotas": ["h100"]}, [("quotas", "bad_value")], {}),
    "a number by flavor": ({"quotas": 4}, [("quotas", "bad_value")], {}),
    "an unknown flavor": ({"quotas": {"l40": 1}}, [("quotas.l40", "unknown_flavor")], {"flavors": ["h100", "a100"]}),
    "a negative one": ({"quotas": {"h100": -1}}, [("quotas.h100", "negative_quota")], {}),
    "a bad percentage": ({"quotas": {"h100": "25%%"}}, [("quotas.h100", "bad_quota")], {}),
    "a word": ({"quotas": {"h100": "all"}}, [("quotas.h100", "bad_quota")], {}),
    "null": ({"quotas": {"h100": None}}, [("quotas.h100", "bad_quota")], {}),
    "more than is free": (
        {"quotas": {"h100": 5, "a100": 1}},
        [("quotas.h100", "quota_exceeds_parent")],
        {"requested": 5, "limit": 16, "free": 4, "flavor": "h100"},
    ),
    "two faults": (
        {"quotas": {"h100": 5, "a100": 41}},
        [("quotas.h100", "quota_exceeds_parent"), ("quotas.a100", "quota_exceeds_parent")],
        {},
    ),
    "both, and they differ": (
        {"quota": 9, "quotas": {"h100": 1, "a100": 1}}, [("quota", "sum_differs")], {"given": 9, "sum": 2},
    ),
}  # fmt: skip


def test_what_is_wrong_with_a_subpool_is_named(team: ApiClient) -> None:
    before = by_flavor()
    for name, (body, found, numbers) in WRONG_SUBPOOLS.items():
        answer = team("POST", SUBPOOL, {"subpool_name": "c", **body})
        assert (answer.status, faults(answer)) == (400, found), name
        assert numbers.items() <= answer.body["details"][0].items(), name
    assert by_flavor() == before


def test_one_flavor_needs_no_name(kinds: str, admin: ApiClient) -> None:
    admin("PUT", POOL, flavors(h100=10))
    answer = admin("POST", SUBPOOL, {"subpool_name": "a", "quota": "25%"})
    assert (answer.body["quota"], answer.body["quotas"]) == (2, {"h100": 2})
    assert answer.body["warnings"] == [
        "h100: 25% of 10 is 2.5: quotas are whole GPUs, so 2 was taken; the rest stays unallocated."
    ]


def test_percentages_are_rounded_by_flavor(team: ApiClient) -> None:
    answer = team("PATCH", f"{SUBPOOL}/a", {"quotas": {"h100": "20%", "a100": "33%"}})
    assert answer.body["quotas"] == {"h100": 3, "a100": 15}
    assert [each.partition(":")[0] for each in answer.body["warnings"]] == ["h100", "a100"]
    assert by_flavor() == {"h100": (16, 11, 5), "a100": (48, 15, 33)}
    kept = team("PATCH", f"{SUBPOOL}/a", {"quotas": {"a100": 10}}).body
    assert kept["quotas"] == {"h100": 3, "a100": 10}, "a flavor that is left out keeps what it has"
    assert team("PATCH", f"{SUBPOOL}/a", {"quota": 13, "quotas": {"h100": 3, "a100": 10}}).status == 200, "their sum"
    patched = team("PATCH", POOL, {"resources": {"flavors": {"a100": {"guarantee": 50}}}}).body["resources"]
    assert (patched["gpu"]["guarantee"], list(patched["flavors"])) == (66, ["h100", "a100"])


def test_quotas_of_several_are_checked_together(team: ApiClient) -> None:
    assert team("GET", "/api/configs/subpool_quotas").body["quotas"] == {
        "team--a": {"h100": 4, "a100": 8},
        "team--b": {"h100": 8, "a100": 0},
    }
    quotas = {"team--a": {"h100": 12, "a100": 0}, "team--b": {"h100": 0, "a100": 48}}
    world.apply_change(ResizeSubpools(quotas=quotas))
    assert by_flavor() == {"h100": (16, 12, 4), "a100": (48, 48, 0)}
    with pytest.raises(BadInput) as refusal:
        world.apply_change(ResizeSubpools(quotas={"team--a": {"h100": 17}, "team--b": {"a100": 49}}))
    assert [(each.code, dict(each.numbers)["flavor"]) for each in refusal.value.violations] == [
        ("quota_exceeds_parent", "h100"),
        ("quota_exceeds_parent", "a100"),
    ]
    with pytest.raises(BadInput) as refusal:
        world.apply_change(ResizeSubpools(quotas={"team--a": 4, "team--b": {"l40": 1}}))
    assert [(each.path, each.code) for each in refusal.value.violations] == [
        ("quotas.team--a", "flavor_needed"),
        ("quotas.team--b.l40", "unknown_flavor"),
    ]


def test_a_temporary_quota_is_a_raise_of_each_flavor(team: ApiClient) -> None:
    until = timezone.now() + timedelta(days=1)
    for a100 in (20, 8):  # the sum grows, or falls
        cut = ResizeSubpool(parent="team", subpool_name="a", quotas={"h100": 3, "a100": a100}, until=until)
        with pytest.raises(BadInput) as error:
            world.apply_change(cut)
        (fault,) = error.value.violations
        assert (fault.path, fault.code, dict(fault.numbers)["lasting"]) == ("quotas.h100", "temporary_cut", 4)
    world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quotas={"a100": 20}, until=until))
    body = team("GET", f"{SUBPOOL}/a").body
    assert (body["quotas"], body["quotas_after"], body["quota_after"]) == (
        {"h100": 4, "a100": 20}, {"h100": 4, "a100": 8}, 12,
    )  # fmt: skip
    world.check_deferred_constraints()
    Pool.objects.filter(name="team--a").update(quota_until=timezone.now() - timedelta(seconds=1))
    assert end_temporary_quotas() == 1
    assert by_flavor() == {"h100": (16, 12, 4), "a100": (48, 8, 40)}
    assert Pool.objects.get(name="team--a").flavors_after == []
    world.check_deferred_constraints()


def test_an_archived_subpool_gives_its_flavors_back_and_comes_again_with_others(team: ApiClient) -> None:
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    assert by_flavor() == {"h100": (16, 8, 8), "a100": (48, 0, 48)}
    body = team("GET", f"{SUBPOOL}/a").body
    assert (body["quotas"], body["last_quotas"]) == ({"h100": 0, "a100": 0}, {"h100": 4, "a100": 8})
    assert team("POST", SUBPOOL, {"subpool_name": "a", "quotas": {"a100": 5}}).body["quotas"] == {"h100": 0, "a100": 5}
    world.check_deferred_constraints()


def test_a_pool_begins_to_have_flavors_with_the_quotas_of_its_subpools(kinds: str, admin: ApiClient) -> None:
    admin("PUT", POOL, pool_config(20))
    admin("POST", SUBPOOL, {"subpool_name": "a", "quota": 6})
    small = {"resources": {"flavors": {"h100": {"guarantee": 5}, "a100": {"guarantee": 15}}}}
    answer = admin("PATCH", POOL, small)
    assert faults(answer) == [(f"{AT}.h100.guarantee", "guarantee_below_slices")]
    answer = admin("PATCH", POOL, {"resources": {"flavors": {"h100": {"guarantee": 8}, "a100": {"guarantee": 15}}}})
    assert answer.status == 200
    assert "The quotas of team--a are of the flavor h100 now." in answer.body["warnings"]
    assert answer.body["resources"]["gpu"]["guarantee"] == 23
    assert by_flavor() == {"h100": (8, 6, 2), "a100": (15, 0, 15)}
    world.check_deferred_constraints()
    gone = admin("PATCH", POOL, {"resources": {"flavors": {"$action": "delete"}, "gpu": {"guarantee": 7}}})
    assert (gone.status, gone.body["resources"]) == (200, {"gpu": {"guarantee": 7, "maximum": -1, "weight": 1}})
    assert (by_flavor(), Pool.objects.get(name="team--a").flavors) == ({}, [])
    world.check_deferred_constraints()


def test_a_flavor_goes_only_when_nothing_has_it(team: ApiClient) -> None:
    only = {"backend": "sim", "resources": {"flavors": {"h100": {"guarantee": 16}}}}
    answer = team("PUT", POOL, only)
    assert (answer.status, faults(answer)) == (400, [(f"{AT}.a100", "in_use")])
    assert "its subpools have 8 GPUs of it" in answer.body["message"]
    team("PATCH", f"{SUBPOOL}/a", {"quotas": {"a100": 0}})
    assert team("PUT", POOL, only).status == 200
    answer = team("PATCH", POOL, {"resources": {"flavors": {"h100": {"guarantee": 11}}}})
    assert faults(answer) == [(f"{AT}.h100.guarantee", "guarantee_below_slices")]
    assert "11 is below the 12 h100 GPUs" in answer.body["message"]


def test_a_flavor_in_use_stays_with_its_backend(team: ApiClient) -> None:
    answer = team("PUT", "/api/configs/backend/sim", {"flavors": FLAVORS[2:]})
    assert (answer.status, [(each["flavor"], each["pools"]) for each in answer.body["details"]]) == (
        409,
        [("a100", 1), ("h100", 1)],
    )
    assert "(team)" in answer.body["message"]
    assert team("PUT", "/api/configs/backend/sim", {"flavors": FLAVORS[:2]}).status == 200


def test_gpus_that_move_between_flavors_need_an_approval_too(team: ApiClient, caller: Callers) -> None:
    world.apply_change(PatchPool(name="team", patch={"approval_above": 2}))
    boss = caller("tina", "osmo-team-admin")
    answer = boss("PATCH", f"{SUBPOOL}/a", {"quotas": {"h100": 1, "a100": 11}})
    assert (answer.status, {each["amount"] for each in answer.body["details"]}) == (
        409, {"quota of h100", "quota of a100"},
    )  # fmt: skip
    asked = boss("PATCH", f"{SUBPOOL}/a", {"quotas": {"h100": "7%", "a100": 11}}, query={"request_approval": True})
    assert asked.status == 202
    assert team("POST", f"/api/configs/approval/{asked.body['id']}/approve", {}).status == 200
    assert team("GET", f"{SUBPOOL}/a").body["quotas"] == {"h100": 1, "a100": 11}


def test_a_requested_order_of_flavors_is_kept(team: ApiClient, caller: Callers) -> None:
    world.apply_change(PatchPool(name="team", patch={"approval_above": 2}))
    names = ("l40", "h100", "a100")
    body = flavors(**dict(zip(names, (8, 16, 48), strict=True))) | {"approval_above": 2}
    asked = caller("chef", "osmo-admin")("PUT", POOL, body, query={"request_approval": True})
    assert asked.status == 202
    assert team("POST", f"/api/configs/approval/{asked.body['id']}/approve", {}).status == 200
    assert list(team("GET", POOL).body["resources"]["flavors"]) == list(names)


def test_a_cohort_row_of_a_flavor_binds_its_pools(team: ApiClient) -> None:
    world.apply_change(PutCohort(name="org", body={"quotas": [{"flavor": "h100", "resource": "gpu", "nominal": 4}]}))
    limited = {name: {**row, "borrowing_limit": 2} for name, row in QUOTAS.items()}
    assert team("PATCH", POOL, {"cohort": "org", "resources": {"flavors": limited}}).status == 200
    world.check_deferred_constraints()
    nodes = {each["name"]: each for each in team("GET", "/api/quota_tree", query={"root": "org"}).body["nodes"]}
    rows = {row["flavor"]: row for row in nodes["org"]["quotas"]}
    assert rows["h100"]["subtree_quota"] == 20
    assert nodes["team"]["quotas"][0]["flavor"] in {"default", "h100", "a100"}


def test_a_researcher_of_another_pool_learns_nothing(team: ApiClient, caller: Callers) -> None:
    world.make_pool("other", 4, on=Pool.objects.get(name="team").backend)
    stranger = caller("eve", "osmo-other-user")
    for method, address in (("GET", SUBPOOL), ("GET", POOL), ("PATCH", f"{SUBPOOL}/a")):
        answer = stranger(method, address, {"quotas": {"h100": 1}} if method == "PATCH" else None)
        assert answer.status in {403, 404}
        assert "h100" not in str(answer.body)
