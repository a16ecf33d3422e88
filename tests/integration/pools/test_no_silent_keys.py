"""Every key that a pool, a platform, a backend or a cohort takes has an effect, is refused, or warns by its name
(docs/values.md, "Fields without an effect")."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.pools import PutPool
from pools.domain.configuration import (
    backend_config,
    cluster_config,
    cohort_config,
    platforms,
    pool_config,
    pool_fields,
    pool_flavors,
)
from pools.domain.errors import BadInput
from tests.support import world
from tests.support.world import ModuleData

pytestmark = pytest.mark.django_db

READINGS = {
    "version", "versions", "warnings", "reactivated", "last_heartbeat", "used", "available", "resource_usage",
    "created_at", "updated_at", "active", "condition", "inactive_since",
}  # fmt: skip
"""What answers measure. An answer that is sent back has older ones, so another value means nothing."""

POOL = {"backend": "sim", "resources": {"gpu": {"guarantee": 4}}}
POOL_EFFECTS = {
    "description", "backend", "enable_maintenance", "default_platform",
    *(each for each in pool_fields.EDITABLE_KEYS if each.endswith("_timeout")),
    "default_exit_actions", "resources", "cohort", "borrowing_limit", "lending_limit", "topology_keys",
    pool_fields.GPU_NAMESPACE, pool_fields.APPROVAL_ABOVE, pool_fields.HOLD_AFTER, "platforms",
    "common_default_variables", *pool_flavors.SWITCHES,
}  # fmt: skip
"""Read by admission, scheduling, the cluster or the parser of files; each has tests of its own."""
POOL_VALUES: dict[str, Any] = {
    "download_type": "download", "common_resource_validations": ["a"], "common_pod_template": ["a"],
    "common_group_templates": ["a"], "name": "other", "status": "OFFLINE", "archived": True, "parent_pool": "x",
    "subpool_name": "x", "subpool_state": "ACTIVE", "gpu_quota": 3, "parsed_pod_template": {"spec": {}},
}  # fmt: skip
PLATFORM_EFFECTS = {"description", *platforms.FLAG_KEYS, "allowed_mounts", *platforms.GPU_CAPACITY_KEYS}
PLATFORM_VALUES: dict[str, Any] = {
    "resource_validations": ["a"], "override_pod_template": ["a"], "default_variables": {"a": 1}, "name": "other",
    "tolerations": [{"key": "x"}], "labels": {"a": "b"}, "default_mounts": ["/x"], "parsed_pod_template": {"spec": {}},
}  # fmt: skip
BACKEND_EFFECTS = {*backend_config._KNOWN, *backend_config.SIMULATED_KEYS, *cluster_config.KEYS}
BACKEND_VALUES: dict[str, Any] = {
    "name": "other", "pools": ["x"], "status": "ONLINE", "server": "https://other", "credential_mark": "x",
    "auto_end": False, "reserve_after": 5, "ageing": 5, "victims": "least_lost",
    "nodes": [{"name": "n", "gpus": 1}],
}  # fmt: skip
COHORT_VALUES: dict[str, Any] = {"name": "other", "explicit": False, "cohorts": ["x"], "pools": ["x"]}
CLUSTER = {"type": "kubernetes", "access": "in_cluster"}


@pytest.fixture(autouse=True, scope="module")
def _backend(module_data: ModuleData) -> None:
    with module_data():
        world.make_backend()
        world.admin_actor()
        world.apply_change(PutPool(name="old", body=POOL))


def said(command: ChangeCommand) -> list[str]:
    """The warnings of a change, or the refused paths. The change is undone."""
    point = transaction.savepoint()
    try:
        return list(world.apply_change(command, actor=world.admin_actor()).warnings)
    except BadInput as refusal:
        return [violation.path for violation in refusal.details]
    finally:
        transaction.savepoint_rollback(point)


def test_pools_and_their_platforms() -> None:
    assert said(PutPool(name="old", body=POOL)) == []
    for key, value in POOL_VALUES.items():
        for name in ("old", "new"):
            texts = said(PutPool(name=name, body={**POOL, key: value}))
            assert any(key in text for text in texts) or (name == "new" and key == "status"), (name, key, texts)
    for key, value in PLATFORM_VALUES.items():
        texts = said(PutPool(name="new", body={**POOL, "platforms": {"a": {key: value}}}))
        assert any(f"platforms.a.{key}" in text for text in texts), (key, texts)


def test_backends_and_cohorts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    for key, value in BACKEND_VALUES.items():
        kinds = [CLUSTER] if key in backend_config.SIMULATED_KEYS else [CLUSTER, {"type": "simulated"}]
        for kind in kinds:
            texts = said(PutBackend(name="b", body={**kind, key: value}))
            assert any(key in text for text in texts), (kind, key, texts)
    for key, value in COHORT_VALUES.items():
        texts = said(PutCohort(name="c", body={key: value}))
        assert any(key in text for text in texts), (key, texts)


def test_every_known_key_is_in_one_of_the_lists() -> None:
    assert {*pool_fields.EDITABLE_KEYS, *pool_config.ANSWER_KEYS} == {
        *POOL_EFFECTS, *(key for key in POOL_VALUES if not key.startswith("parsed_")),
        *(READINGS & pool_config.ANSWER_KEYS),
    }  # fmt: skip
    assert {*platforms.KEYS, *platforms.ANSWER_KEYS} == {
        *PLATFORM_EFFECTS, *(key for key in PLATFORM_VALUES if not key.startswith("parsed_")),
    }  # fmt: skip
    known = {*BACKEND_EFFECTS, *backend_config.ANSWER_KEYS, *cluster_config.ANSWER_KEYS}
    assert known == {*BACKEND_EFFECTS, *BACKEND_VALUES, "version", "warnings"}
    assert {*COHORT_VALUES, *(READINGS & cohort_config.ANSWER_KEYS)} == cohort_config.ANSWER_KEYS


def test_an_answer_that_is_sent_back_warns_of_nothing(admin: Any) -> None:
    for path in ("/api/configs/backend/sim", "/api/configs/pool/p", "/api/configs/cohort/c"):
        if "pool" in path:
            admin("PUT", path, POOL)
        if "cohort" in path:
            admin("PUT", path, {})
        body = admin("GET", path).body
        assert admin("PUT", path, body).body["warnings"] == []
