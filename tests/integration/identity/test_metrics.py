"""/metrics: for readers of the platform, or for all callers if the operator allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.conf import settings
from django.test import Client

from osmo_admin import metrics
from pools.domain.gpu_quota.workers import AllocationRequest, GpuAmounts, GpuWorker
from pools.domain.quantities import parse_quantity
from pools.domain.roles import SYSTEM
from pools.models import AccessToken, Pool
from pools.security.tokens import issue_jwt
from pools.services.access_tokens import create_token
from pools.services.gpu_allocations import allocate
from pools.services.gpu_quotas import put_gpu_quota
from pools.services.subpools import delete_subpool
from pools.services.users import create_user
from scheduling.domain.priorities import Priority
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.identity.conftest import ApiCaller
from tests.support import factories

Callers = Callable[..., ApiCaller]


def _scrape(token: AccessToken | None = None) -> tuple[int, dict[str, float]]:
    headers = {"Authorization": f"Bearer {issue_jwt(token)[0]}"} if token else {}
    response = Client().get("/metrics", headers=headers)
    lines = response.content.decode().splitlines() if response.status_code == 200 else []
    return response.status_code, {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line and not line.startswith("#")
    }


@pytest.mark.parametrize(("roles", "status"), [(("osmo-admin",), 200), (("osmo-viewer",), 200), ((), 403)])
def test_who_may(caller: Callers, roles: tuple[str, ...], status: int) -> None:
    assert _scrape(caller("bob", *roles).token)[0] == status


def test_a_pool_admin_may_not(caller: Callers) -> None:
    factories.make_pool("team")
    assert _scrape(caller("bob", "osmo-team-admin").token)[0] == 403


def test_nobody_may_not(db: None) -> None:
    assert _scrape()[0] == 401


def test_a_scraper_shows_its_access_token_as_it_is(db: None) -> None:
    create_user(actor=SYSTEM, username="prometheus", roles=["osmo-viewer"])
    secret = create_token(actor=SYSTEM, owner="prometheus", name="scrape")[1]

    def scrape(shown: str) -> int:
        return Client().get("/metrics", headers={"Authorization": f"Bearer {shown}"}).status_code

    assert (scrape(secret), scrape(secret[:-1] + "x"), scrape("")) == (200, 401, 401)


def test_nowhere_else(db: None) -> None:
    create_user(actor=SYSTEM, username="prometheus", roles=["osmo-viewer"])
    secret = create_token(actor=SYSTEM, owner="prometheus", name="scrape")[1]
    assert Client().get("/api/audit", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


def test_unless_the_operator_made_it_public(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "OSMO", replace(settings.OSMO, metrics_public=True))
    assert _scrape()[0] == 200
    assert Client().get("/metrics", headers={"Authorization": "Bearer a.b.c"}).status_code == 200


class TestLedger:
    @pytest.fixture
    def page(self, admin: ApiCaller) -> Callable[[], dict[str, float]]:
        """The metrics as of now."""
        return lambda: _scrape(admin.token)[1]

    def test_every_leaf_and_their_sum(self, page: Callable[[], dict[str, float]]) -> None:
        factories.make_pool("team", 100, a=30, b=50)
        found = page()
        quotas = {leaf: found[f'osmo_leaf_quota_gpus{{leaf="{leaf}",pool="team"}}'] for leaf in ("_shared", "a", "b")}
        assert quotas == {"_shared": 20, "a": 30, "b": 50}
        assert found['osmo_pool_guarantee_gpus{pool="team"}'] == sum(quotas.values()) == 100
        assert found["osmo_pools_left_out"] == 0

    def test_use_and_drain(self, page: Callable[[], dict[str, float]]) -> None:
        pool = factories.make_pool("team", 100, a=30)
        bob = factories.make_user("bob", "osmo-team-user")
        factories.submit_workflow(bob, "team--a", gpus=8, name="firm")
        factories.submit_workflow(bob, "team--a", gpus=4, name="loose", priority=Priority.LOW)
        assert pool.backend_id is not None
        reconcile_backend(pool.backend_id)
        delete_subpool(actor=SYSTEM, parent="team", subpool_name="a")
        found = page()

        def leaf(name: str) -> float:
            return found[f'osmo_leaf_{name}{{leaf="a",pool="team"}}']

        assert (leaf("quota_gpus"), leaf("used_gpus"), leaf("usage_gpus")) == (0, 8, 12)
        assert (leaf("available_gpus"), leaf("live_workflows"), leaf("draining")) == (-8, 2, 1)

    def test_what_is_archived_is_left_out(self, page: Callable[[], dict[str, float]]) -> None:
        factories.make_pool("team", 100, a=30)
        delete_subpool(actor=SYSTEM, parent="team", subpool_name="a")
        factories.make_pool("old", 10)
        Pool.objects.filter(name="old").update(archived=True)
        text = str(page())
        assert 'leaf="a"' not in text
        assert 'pool="old"' not in text

    def test_unlimited(self, page: Callable[[], dict[str, float]]) -> None:
        Pool.objects.create(name="free", backend=factories.make_backend())
        assert page()['osmo_leaf_quota_gpus{leaf="_shared",pool="free"}'] == float("inf")

    def test_the_page_has_an_end(self, page: Callable[[], dict[str, float]], monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("a", "b", "c"):
            factories.make_pool(name, 10)
        monkeypatch.setattr(metrics, "MAX_POOLS", 2)
        found = page()
        assert found["osmo_pools_left_out"] == 1
        assert [name for name in found if name.startswith("osmo_pool_guarantee")] == [
            'osmo_pool_guarantee_gpus{pool="a"}',
            'osmo_pool_guarantee_gpus{pool="b"}',
        ]

    def test_the_same_few_queries_however_many_pools(
        self, admin: ApiCaller, django_assert_max_num_queries: Callable[..., object]
    ) -> None:
        for number in range(8):
            factories.make_pool(f"p{number}", 10, a=1, b=2)
        with django_assert_max_num_queries(10):  # type: ignore[attr-defined]  # 5 of them are the login's
            _scrape(admin.token)


def test_several_processes_answer_together(
    admin: ApiCaller, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path_factory.mktemp("prometheus")))
    status, found = _scrape(admin.token)
    assert status == 200
    assert "osmo_pools_left_out" in found


def test_gpu_quota_of_each_namespace(caller: Callers) -> None:
    admin = caller("bob", "osmo-admin")
    put_gpu_quota(actor=SYSTEM, namespace="team-a", spec={"total": {"requests": {"tflops": "10"}}})
    worker = GpuWorker(request=GpuAmounts(tflops=parse_quantity("9.6"), vram=parse_quantity("1Gi")), count=1)
    allocate(actor=SYSTEM, namespace="team-a", request=AllocationRequest("w1", "", worker))
    _, values = _scrape(admin.token)
    assert values['osmo_gpu_quota_used{amount="requests.tflops",namespace="team-a"}'] == 9.6
    assert values['osmo_gpu_quota_used{amount="workers",namespace="team-a"}'] == 1
    assert values['osmo_gpu_quota_cap{amount="requests.tflops",namespace="team-a"}'] == 10
    assert values['osmo_gpu_quota_cap{amount="requests.vram",namespace="team-a"}'] == float("inf")
    assert values['osmo_gpu_quota_alert{namespace="team-a"}'] == 1
    assert values['osmo_gpu_quota_alerts_total{namespace="team-a"}'] == 1
