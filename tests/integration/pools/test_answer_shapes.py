"""Answers whose builders read a table, or compose text, have the keys and types of their shapes.

A type checker compares the others with their shapes.
"""

from __future__ import annotations

from typing import Any

import pytest

from osmo_admin.monitoring.health import ReadyAnswer
from pools.api.configuration.backends import BackendListAnswer
from pools.api.configuration.pool_lists import PoolListAnswer
from pools.api.configuration.pool_platforms import PlatformAnswer, PlatformListAnswer
from pools.api.configuration.pools import PoolConfigListAnswer
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.errors import ErrorAnswer
from pools.models import Backend, KubernetesSettings
from pools.representations.pool import PoolAnswer
from pools.services.changes.dry_run import EffectAnswer
from scheduling.selectors.cluster.pool_quota import PoolQuotaAnswer
from tests.integration.pools.conftest import pool_config
from tests.support.api_client import ApiClient
from tests.support.shapes import assert_has_shape
from tests.support.world import apply_change, make_subpool

CONFIG = "/api/configs/pool"
BODY = pool_config(
    100, platforms={"a": {"default_variables": {"x": 1}, "allowed_mounts": ["/x"]}}, cohort="lab", lending_limit=3,
    default_exit_actions={"FAIL": "1"}, topology_keys=[{"key": "rack", "label": "x/rack"}], hold_after=60,
)  # fmt: skip
SHAPES: list[tuple[str, str, Any, Any]] = [
    ("GET", "/api/pool?include_archived=true", None, PoolListAnswer),
    ("GET", "/api/pool_quota?include_archived=true", None, PoolQuotaAnswer),
    ("GET", CONFIG, None, PoolConfigListAnswer),
    ("GET", f"{CONFIG}?verbose=true", None, PoolConfigListAnswer),
    ("GET", f"{CONFIG}/team", None, PoolAnswer),
    ("GET", f"{CONFIG}/team?verbose=true", None, PoolAnswer),
    ("PUT", f"{CONFIG}/team", {"configs": BODY}, PoolAnswer),
    ("PUT", f"{CONFIG}/team?dry_run=true", {"configs": BODY | {"lending_limit": 1}}, EffectAnswer),
    ("PUT", f"{CONFIG}/team", {"configs": {"backend": "sim", "colour": 1}}, ErrorAnswer),
    ("GET", f"{CONFIG}/team/platform", None, PlatformListAnswer),
    ("GET", f"{CONFIG}/team/platform/a", None, PlatformAnswer),
    ("GET", "/api/configs/backend", None, BackendListAnswer),
    ("GET", "/ready", None, ReadyAnswer),
]


@pytest.fixture
def some_of_everything(sim: str, admin: ApiClient) -> None:
    """Pools with and without a quota, platforms and a cohort; subpools, one of them archived; both kinds of backend."""
    assert admin("PUT", f"{CONFIG}/team", {"configs": BODY}).status == 200
    assert admin("PUT", f"{CONFIG}/free", {"configs": {"backend": "sim"}}).status == 200
    for name in ("a", "b"):
        make_subpool("team", name, 3)
    apply_change(DeleteSubpool(parent="team", subpool_name="b"))
    cluster = Backend.objects.create(name="lab", kind=Backend.Kind.KUBERNETES)
    KubernetesSettings.objects.create(backend=cluster, access="in_cluster")


def test_answers_have_their_shapes(some_of_everything: None, admin: ApiClient) -> None:
    for method, address, body, shape in SHAPES:
        answer = admin(method, address, body)
        assert answer.body, address
        assert_has_shape(answer.body, shape)
