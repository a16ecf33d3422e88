"""The editable JSON of a pool: its meaning, and every fault in it at once."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.configuration.pool_config import PoolSettings, editable_body, parse_pool
from pools.domain.configuration.pool_fields import EDITABLE_KEYS
from pools.domain.configuration.pool_flavors import SWITCHES


def pool(**keys: Any) -> dict[str, Any]:
    return {"backend": "sim", **keys}


def test_the_smallest_configuration_has_a_platform_and_no_limits() -> None:
    settings, faults = parse_pool({"backend": "sim"})
    assert not faults
    assert settings == PoolSettings("sim")
    body = editable_body(settings)
    assert set(body) == set(EDITABLE_KEYS) - set(SWITCHES)
    assert body["resources"] == {}
    assert list(body["platforms"]) == ["default"]
    assert body["default_platform"] == "default"


@pytest.mark.parametrize(
    "body",
    [
        pool(),
        pool(resources={"gpu": {"guarantee": 100, "maximum": -1, "weight": 1}}),
        pool(resources={"gpu": None}, description="The team", enable_maintenance=True),
        pool(platforms={"a100": {"host_network_allowed": True, "allowed_mounts": ["/data"]}}, default_platform="a100"),
        pool(platforms={"default": {}, "h100": {"default_variables": {"X": 1, "Y": "z", "Z": True}}}),
        pool(default_exec_timeout="2h", max_exec_timeout="1d", default_queue_timeout="90s", max_queue_timeout="90"),
        pool(default_exit_actions={"RESCHEDULE": "3006,1-10"}, topology_keys=[{"key": "rack", "label": "x/rack"}]),
        pool(common_default_variables={"A": "b"}, common_pod_template=["t"], download_type="download"),
    ],
    ids=",".join,
)
def test_writing_back_the_read_configuration_changes_nothing(body: dict[str, Any]) -> None:
    settings, faults = parse_pool(body)
    assert not faults
    assert parse_pool(editable_body(settings)) == (settings, [])


def test_keys_that_answers_add_may_come_back_and_say_nothing() -> None:
    plain, _ = parse_pool(pool())
    added = {
        "name": "x",
        "status": "ONLINE",
        "parent_pool": None,
        "subpool_state": None,
        "last_heartbeat": "now",
        "parsed_pod_template": {},
        "version": 3,
        "archived": False,
        "warnings": [],
        "platforms": {
            "default": {"tolerations": [], "labels": {}, "default_mounts": ["/x"], "parsed_pod_template": {}}
        },
    }
    assert parse_pool(pool(**added)) == (plain, [])


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({}, "backend", "missing"),
        ({"backend": ""}, "backend", "missing"),
        ({"backend": 5}, "backend", "bad_value"),
        (pool(gpus=3), "gpus", "unknown_key"),
        (pool(colour="org"), "colour", "unknown_key"),
        (pool(description=5), "description", "bad_value"),
        (pool(enable_maintenance="yes"), "enable_maintenance", "bad_value"),
        (pool(enable_maintenance=1), "enable_maintenance", "bad_value"),
        (pool(download_type="upload"), "download_type", "bad_value"),
        (pool(resources=[]), "resources", "bad_value"),
        (pool(resources={"cpu": {}}), "resources.cpu", "unknown_key"),
        (pool(resources={"gpu": 5}), "resources.gpu", "bad_value"),
        (pool(resources={"gpu": {"quota": 5}}), "resources.gpu.quota", "unknown_key"),
        (pool(resources={"gpu": {"guarantee": "100"}}), "resources.gpu.guarantee", "bad_value"),
        (pool(resources={"gpu": {"guarantee": 1.5}}), "resources.gpu.guarantee", "bad_value"),
        (pool(resources={"gpu": {"guarantee": True}}), "resources.gpu.guarantee", "bad_value"),
        (pool(resources={"gpu": {"guarantee": -2}}), "resources.gpu.guarantee", "negative_quota"),
        (pool(resources={"gpu": {"guarantee": 2**31}}), "resources.gpu.guarantee", "too_large"),
        (pool(resources={"gpu": {"maximum": -2}}), "resources.gpu.maximum", "negative_quota"),
        (pool(resources={"gpu": {"weight": -1}}), "resources.gpu.weight", "bad_value"),
        (
            pool(resources={"gpu": {"guarantee": 10, "maximum": 9}}),
            "resources.gpu.maximum",
            "maximum_below_guarantee",
        ),
        (pool(platforms=["x"]), "platforms", "bad_value"),
        (pool(platforms={"x": 1}), "platforms.x", "bad_value"),
        (pool(platforms={"x/y": {}}), "platforms.x/y", "bad_name"),
        (pool(platforms={"x": {"host_network_allowed": "no"}}), "platforms.x.host_network_allowed", "bad_value"),
        (pool(platforms={"x": {"allowed_mounts": "/a"}}), "platforms.x.allowed_mounts", "bad_value"),
        (pool(platforms={"x": {"allowed_mounts": [1]}}), "platforms.x.allowed_mounts", "bad_value"),
        (pool(platforms={"x": {"gpu": 1}}), "platforms.x.gpu", "unknown_key"),
        (pool(platforms={"x": {"default_variables": {"A": []}}}), "platforms.x.default_variables.A", "bad_value"),
        (pool(default_platform="x"), "default_platform", "unknown_platform"),
        (pool(default_platform="default", platforms={"x": {}}), "default_platform", "unknown_platform"),
        (pool(default_exec_timeout="soon"), "default_exec_timeout", "bad_value"),
        (pool(max_queue_timeout=True), "max_queue_timeout", "bad_value"),
        (pool(default_exec_timeout="2h", max_exec_timeout="1h"), "default_exec_timeout", "default_above_maximum"),
        (pool(default_exit_actions={"FAIL": "x"}), "default_exit_actions.FAIL", "bad_value"),
        (pool(default_exit_actions={"RETRY": "1"}), "default_exit_actions.RETRY", "unknown_key"),
        (pool(topology_keys={}), "topology_keys", "bad_value"),
        (pool(topology_keys=[{"key": "a"}]), "topology_keys[0].label", "missing"),
        (pool(topology_keys=[{"key": "a", "label": "b", "c": 1}]), "topology_keys[0].c", "unknown_key"),
        (
            pool(topology_keys=[{"key": "a", "label": "b"}, {"key": "a", "label": "c"}]),
            "topology_keys[1].key",
            "duplicate_name",
        ),
        (pool(common_default_variables={"A": {}}), "common_default_variables.A", "bad_value"),
        (pool(common_pod_template="t"), "common_pod_template", "bad_value"),
    ],
)
def test_each_fault_has_its_path(body: dict[str, Any], path: str, code: str) -> None:
    _, faults = parse_pool(body)
    assert [(fault.path, fault.code) for fault in faults] == [(path, code)]
    assert path in faults[0].message or path == "backend"


def test_all_faults_come_at_once_with_the_place_of_the_pool_before_them() -> None:
    body = {"resources": {"gpu": {"guarantee": -5, "weight": -1}}, "colour": "red"}
    _, faults = parse_pool(body, path="team")
    assert {fault.path for fault in faults} == {
        "team.backend",
        "team.colour",
        "team.resources.gpu.guarantee",
        "team.resources.gpu.weight",
    }


@pytest.mark.parametrize("limit", [0, -1, 100])
def test_zero_and_unlimited_are_quotas(limit: int) -> None:
    settings, faults = parse_pool(pool(resources={"gpu": {"guarantee": limit, "maximum": limit, "weight": 0}}))
    assert not faults
    assert (settings.guarantee, settings.maximum, settings.weight) == (limit, limit, 0)
