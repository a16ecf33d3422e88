"""/metrics: for readers of the platform, or for all callers if the operator allows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum
from django.test import Client
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from prometheus_client.parser import text_string_to_metric_families

from osmo_admin.monitoring import metrics
from pools.database import open_transactions
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.changes.tokens import CreateToken
from pools.domain.gpu_quota.workers import GpuAmounts
from pools.domain.values.quantities import parse_quantity
from pools.models import AccessToken, Pool
from pools.security.tokens import issue_jwt
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.domain.priorities import Priority
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.domain.timelines.wait_buckets import WAIT_BUCKETS
from scheduling.history.starts.background import forecast_starts
from scheduling.models import Decision, Group, PromisedStart, StartForecast, StuckGroup
from scheduling.selectors.status.work_metrics import ENDED_OUTCOMES
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.flavors import make_flavored_pool, submit_gpus


def _scrape(token: AccessToken | None = None) -> tuple[int, dict[str, float]]:
    headers = {"Authorization": f"Bearer {issue_jwt(token)[0]}"} if token else {}
    response = Client().get("/metrics", headers=headers)
    lines = response.content.decode().splitlines() if response.status_code == 200 else []
    return response.status_code, {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line and not line.startswith("#")
    }


def test_who_may(caller: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_pool("team")
    for name, roles, status in (
        ("root", ("osmo-admin",), 200), ("vera", ("osmo-viewer",), 200), ("lead", ("osmo-team-admin",), 403),
        ("nobody", (), 403),
    ):  # fmt: skip
        assert _scrape(caller(name, *roles).token)[0] == status, name
    assert _scrape()[0] == 401
    monkeypatch.setattr(settings, "OSMO", replace(settings.OSMO, metrics_public=True))
    assert _scrape()[0] == 200
    assert Client().get("/metrics", headers={"Authorization": "Bearer a.b.c"}).status_code == 200


def test_the_text_is_that_of_the_library(caller: Callers) -> None:
    world.make_pool("team", 8, a=3)
    token = caller("root", "osmo-admin").token
    assert token is not None
    text = Client().get("/metrics", headers={"Authorization": f"Bearer {issue_jwt(token)[0]}"}).content.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    quota = families["osmo_leaf_quota_gpus"]
    assert quota.type == "gauge" and quota.documentation.startswith("GPUs guaranteed to a leaf")
    written = {(each.labels["pool"], each.labels["leaf"]): each.value for each in quota.samples}
    assert written == {("team", "a"): 3.0, ("team", "_shared"): 5.0}


def test_a_scraper_shows_its_access_token_as_it_is(db: None) -> None:
    world.make_user("prometheus", "osmo-viewer")
    secret = world.apply_change(CreateToken(owner="prometheus", name="scrape"))[1]

    def scrape(shown: str) -> int:
        return Client().get("/metrics", headers={"Authorization": f"Bearer {shown}"}).status_code

    assert (scrape(secret), scrape(secret[:-1] + "x"), scrape("")) == (200, 401, 401)
    assert Client().get("/api/audit", headers={"Authorization": f"Bearer {secret}"}).status_code == 401, "nowhere else"


class TestLedger:
    @pytest.fixture
    def page(self, admin: ApiClient) -> Callable[[], dict[str, float]]:
        """The metrics as of now."""
        return lambda: _scrape(admin.token)[1]

    def test_every_leaf_and_their_sum(self, page: Callable[[], dict[str, float]]) -> None:
        world.make_pool("team", 100, a=30, b=50)
        found = page()
        quotas = {leaf: found[f'osmo_leaf_quota_gpus{{leaf="{leaf}",pool="team"}}'] for leaf in ("_shared", "a", "b")}
        assert quotas == {"_shared": 20, "a": 30, "b": 50}
        assert found['osmo_pool_guarantee_gpus{pool="team"}'] == sum(quotas.values()) == 100
        assert found["osmo_pools_left_out"] == 0

    def test_a_pool_with_flavors_has_a_sample_for_each(
        self, page: Callable[[], dict[str, float]], admin: ApiClient
    ) -> None:
        world.make_pool("plain", 8, on=world.make_backend("other"))
        before = {key for key in page() if "leaf" in key}
        make_flavored_pool()
        submit_gpus(admin.actor, 6, "h100")
        submit_gpus(admin.actor, 8, "a100", to="team")
        world.reconcile()
        for gpus, flavors in ((4, ["h100"]), (5, []), (6, [])):
            submit_gpus(admin.actor, gpus, *flavors)
        found = page()
        leaf = {
            (flavor, name): found[f'osmo_leaf_{name}{{flavor="{flavor}",leaf="a",pool="team"}}']
            for flavor in ("h100", "a100")
            for name in ("quota_gpus", "used_gpus", "usage_gpus", "available_gpus")
        }
        assert [leaf["h100", name] for name in ("quota_gpus", "used_gpus", "available_gpus")] == [8, 6, 2]
        assert [leaf["a100", name] for name in ("quota_gpus", "usage_gpus", "available_gpus")] == [8, 0, 8]
        assert found['osmo_leaf_used_gpus{flavor="a100",leaf="_shared",pool="team"}'] == 8
        assert found['osmo_pool_guarantee_gpus{flavor="a100",pool="team"}'] == 32
        assert found['osmo_leaf_live_workflows{leaf="a",pool="team"}'] == 4
        assert 'osmo_leaf_quota_gpus{leaf="a",pool="team"}' not in found, "the sum of the flavors is that of the leaf"
        waiting = 'osmo_waiting_{}{{flavor="{}",leaf="a",pool="team",priority="NORMAL"}}'
        assert found[waiting.format("gpus", "h100")] == 4
        assert (found[waiting.format("gangs", "several")], found[waiting.format("gpus", "several")]) == (2, 11)
        assert {key for key in found if 'pool="plain"' in key and "leaf" in key} == {
            key for key in before if 'pool="plain"' in key
        }

    def test_use_and_drain(self, page: Callable[[], dict[str, float]]) -> None:
        pool = world.make_pool("team", 100, a=30)
        bob = world.make_user("bob", "osmo-team-user")
        world.submit_workflow(bob, "team--a", gpus=8, name="firm")
        world.submit_workflow(bob, "team--a", gpus=4, name="loose", priority=Priority.LOW)
        assert pool.backend_id is not None
        reconcile_backend(pool.backend_id)
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
        found = page()

        def leaf(name: str) -> float:
            return found[f'osmo_leaf_{name}{{leaf="a",pool="team"}}']

        assert (leaf("quota_gpus"), leaf("used_gpus"), leaf("usage_gpus")) == (0, 8, 12)
        assert (leaf("available_gpus"), leaf("live_workflows"), leaf("draining")) == (-8, 2, 1)

    def test_what_is_left_out(self, page: Callable[[], dict[str, float]], monkeypatch: pytest.MonkeyPatch) -> None:
        """What is archived, and what is beyond the end of the page."""
        world.make_pool("team", 100, a=30)
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
        world.make_pool("old", 10)
        Pool.objects.filter(name="old").update(archived=True)
        Pool.objects.create(name="free", backend=world.make_backend())
        found = page()
        assert 'leaf="a"' not in str(found) and 'pool="old"' not in str(found)
        assert found['osmo_leaf_quota_gpus{leaf="_shared",pool="free"}'] == float("inf"), "unlimited"
        monkeypatch.setattr(metrics, "MAX_POOLS", 1)
        found = page()
        assert found["osmo_pools_left_out"] == 1
        guarantees = [name for name in found if name.startswith("osmo_pool_guarantee")]
        assert guarantees == ['osmo_pool_guarantee_gpus{pool="free"}']

    def test_the_same_few_queries_however_many_pools(
        self,
        admin: ApiClient,
        django_assert_max_num_queries: Callable[..., object],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # A query more where a transaction of the server lasts, which one of another test's database may.
        monkeypatch.setattr(open_transactions, "PATIENCE_SECONDS", math.inf)

        def scrape_with_pools(first: int) -> int:
            for number in range(first, first + 8):
                world.make_pool(f"p{number}", 10, a=1, b=2)
            with django_assert_max_num_queries(37) as few:  # type: ignore[attr-defined]  # 5 of them are the login's
                _scrape(admin.token)
            return len(few)

        scrape_with_pools(0)  # the first one in this process also fills caches
        assert scrape_with_pools(8) == scrape_with_pools(16)


class TestWork:
    @pytest.fixture
    def page(self, admin: ApiClient) -> Callable[[], dict[str, float]]:
        """The metrics as of now, of a pool `team` of 100 GPUs with a subpool of 30 on 200 GPUs."""
        self.pool = world.make_pool("team", 100, a=30)
        self.bob = world.make_user("bob", "osmo-team-user")
        return lambda: _scrape(admin.token)[1]

    def _run(self) -> None:
        assert self.pool.backend_id is not None
        reconcile_backend(self.pool.backend_id)

    def test_what_waits(self, page: Callable[[], dict[str, float]]) -> None:
        for name in ("one", "two", "three", "four", "five"):
            world.submit_workflow(self.bob, "team--a", gpus=8, name=name)
        self._run()
        Group.objects.filter(start_time__isnull=True).update(ready_at=timezone.now() - timedelta(hours=2))
        found, labels = page(), 'leaf="a",pool="team",priority="NORMAL"'
        assert found[f"osmo_waiting_gangs{{{labels}}}"] == 2
        assert found[f"osmo_waiting_gpus{{{labels}}}"] == 16
        assert 7_200 <= found[f"osmo_waiting_oldest_seconds{{{labels}}}"] < 7_260

    def test_how_long_started_work_had_waited(self, page: Callable[[], dict[str, float]]) -> None:
        labels = 'leaf="a",pool="team",priority="NORMAL"'
        bounds = [*(f"{float(bound)}" for bound in WAIT_BUCKETS), "+Inf"]
        names = [f'osmo_wait_seconds_bucket{{le="{bound}",{labels}}}' for bound in bounds]
        waits = [0.5, 5, 100, 100, 10**7]
        for number, seconds in enumerate(waits):
            world.submit_workflow(self.bob, "team--a", gpus=1, name=f"w{number}")
            now = timezone.now()
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE scheduling_group SET ready_at = %s, start_time = %s WHERE start_time IS NULL",
                    [now - timedelta(seconds=seconds), None],
                )
                cursor.execute("UPDATE scheduling_group SET start_time = %s WHERE start_time IS NULL", [now])
        found = page()
        assert [found[name] for name in names] == [sum(w <= float(bound) for w in waits) for bound in bounds]
        assert found[f"osmo_wait_seconds_count{{{labels}}}"] == len(waits)
        assert found[f"osmo_wait_seconds_sum{{{labels}}}"] == pytest.approx(sum(waits))

    def test_stuck_gangs_and_promised_starts(self, page: Callable[[], dict[str, float]]) -> None:
        backend = 'backend="sim"'
        ended = {each: f'osmo_promised_starts_total{{{backend},outcome="{each}"}}' for each in ENDED_OUTCOMES}
        overdue, stuck = f"osmo_promised_starts_overdue{{{backend}}}", f"osmo_stuck_gangs{{{backend}}}"
        contradicted = f"osmo_promised_starts_contradicted{{{backend}}}"
        found = page()
        assert {found[name] for name in (*ended.values(), overdue, stuck, contradicted)} == {0}
        for name in ("runs", "waits"):
            world.submit_workflow(self.bob, "team--a", gpus=20, name=name)
        self._run()
        group, now = Group.objects.get(workflow__name="waits-1"), timezone.now()
        assert self.pool.backend_id is not None
        assert group.ready_at is not None
        StuckGroup.objects.create(
            group=group, backend_id=self.pool.backend_id, gang="waits-1", kind=StuckKind.IDLE_CLUSTER, since=now
        )
        promise = PromisedStart.objects.create(
            group=group, backend_id=self.pool.backend_id, gang="waits-1", waits_since=group.ready_at, made_at=now,
            latest_start=now - timedelta(hours=1),
        )  # fmt: skip
        found = page()
        assert (found[stuck], found[overdue], found[contradicted]) == (1, 1, 0)
        promise.outcome, promise.ended_at = PromiseOutcome.BROKEN, now
        promise.save()
        found = page()
        assert (found[ended[PromiseOutcome.BROKEN]], found[ended[PromiseOutcome.KEPT]], found[overdue]) == (1, 0, 1)
        with world.triggers_off():
            promise.delete()
        assert page()[ended[PromiseOutcome.BROKEN]] == 1, "a counter outlives its rows"

    def test_promised_starts_beside_a_forecast_of_never(self, page: Callable[[], dict[str, float]]) -> None:
        """A forecast that is older than the promise counts after minutes, in which the background compared it."""
        contradicted = 'osmo_promised_starts_contradicted{backend="sim"}'
        for name in ("runs", "waits"):
            world.submit_workflow(self.bob, "team--a", gpus=20, name=name)
        self._run()
        group, now = Group.objects.get(workflow__name="waits-1"), timezone.now()
        assert self.pool.backend_id is not None
        assert group.ready_at is not None
        promise = PromisedStart.objects.create(
            group=group, backend_id=self.pool.backend_id, gang="waits-1", waits_since=group.ready_at, made_at=now,
            latest_start=now + timedelta(hours=1),
        )  # fmt: skip
        forecast = StartForecast.objects.create(
            group_id=group.pk, backend_id=self.pool.backend_id, made_at=now - timedelta(minutes=2), samples=6,
            never="It starts in none of 6 sampled futures.",
        )  # fmt: skip
        assert page()[contradicted] == 0
        StartForecast.objects.update(made_at=now + timedelta(seconds=1))
        assert page()[contradicted] == 1
        StartForecast.objects.update(made_at=now - timedelta(minutes=20))
        with world.triggers_off():
            PromisedStart.objects.filter(pk=promise.pk).update(made_at=now - timedelta(minutes=10))
        assert page()[contradicted] == 1
        StartForecast.objects.filter(pk=forecast.pk).update(never="")
        assert page()[contradicted] == 0

    def test_how_good_forecasts_of_starts_were(self, page: Callable[[], dict[str, float]]) -> None:
        names = "osmo_forecast_coverage", "osmo_forecast_pinball"
        assert not page().keys() & set(names)  # no gang has a score yet
        now = timezone.now()
        common = {"backend_id": self.pool.backend_id, "made_at": now, "samples": 6, "first_made_at": now}
        for wait, scored in ((30.0, now), (130.0, now), (None, now), (30.0, None)):  # never started; not scored
            StartForecast.objects.create(
                group_id=uuid4(), first_waits=[10.0, 20.0, 100.0], wait=wait, scored_at=scored, **common
            )
        found = page()
        assert found["osmo_forecast_coverage"] == 0.5
        # Of 30 s: 0.1 * 20, 0.5 * 10, 0.1 * 70; of 130 s: 0.1 * 120, 0.5 * 110, 0.9 * 30; a third of each sum.
        assert found["osmo_forecast_pinball"] == pytest.approx((14 + 94) / 3 / 2)

    def test_forecasts_are_scored_on_the_page_after_the_start(self, page: Callable[[], dict[str, float]]) -> None:
        page()
        first = world.submit_workflow(self.bob, "team--a", gpus=28, name="first")
        self._run()
        world.submit_workflow(self.bob, "team--a", gpus=8, name="second")
        self._run()
        forecast_starts()
        world.apply_change(CancelWorkflow(name=first.name), actor=self.bob)
        self._run()
        forecast_starts()
        assert page()["osmo_forecast_coverage"] in {0.0, 1.0}

    def test_decisions_by_action(self, page: Callable[[], dict[str, float]]) -> None:
        for number in range(25):
            world.submit_workflow(self.bob, "team", gpus=8, name=f"loose{number}", priority=Priority.LOW)
        self._run()
        for number in range(3):
            world.submit_workflow(self.bob, "team--a", gpus=8, name=f"firm{number}")
        self._run()
        found = page()

        def decided(leaf: str, action: str) -> tuple[float, float]:
            labels = f'action="{action}",leaf="{leaf}",pool="team"'
            return found[f"osmo_decisions_total{{{labels}}}"], found[f"osmo_decision_gpus_total{{{labels}}}"]

        rows = Decision.objects.values_list("action", "pool__subpool_name").annotate(Count("pk"), Sum("gpus"))
        assert {(action, leaf or "_shared"): (count, gpus) for action, leaf, count, gpus in rows.order_by()} == {
            (action, leaf): decided(leaf, action)
            for action, leaf in (("start", "_shared"), ("start", "a"), ("reclaim", "_shared"))
        }

    def test_background_jobs(self, page: Callable[[], dict[str, float]]) -> None:
        job = PeriodicTask.objects.get(name="Find silent clusters")
        PeriodicTask.objects.filter(pk=job.pk).update(last_run_at=timezone.now() - timedelta(minutes=7))
        found = page()
        assert 420 <= found[f'osmo_job_seconds_since_run{{name="{job.name}"}}'] < 450
        assert found[f'osmo_job_interval_seconds{{name="{job.name}"}}'] > 0

    def test_capacity_and_promises(self, page: Callable[[], dict[str, float]]) -> None:
        assert self.pool.backend is not None
        found, name = page(), self.pool.backend.name
        gpus = sum(self.pool.backend.nodes.values_list("gpus", flat=True))
        assert found[f'osmo_backend_capacity_gpus{{backend="{name}"}}'] == gpus > 0
        assert found[f'osmo_backend_promised_gpus{{backend="{name}"}}'] == 100

    def test_names_of_kai(self, page: Callable[[], dict[str, float]]) -> None:
        world.submit_workflow(self.bob, "team--a", gpus=8, name="firm")
        self._run()
        found = page()
        assert self.pool.backend is not None
        top = f"osmo-pool-{self.pool.backend.namespace}-team"
        values = {
            queue: tuple(found[f'kai_queue_{name}{{queue_name="{queue}"}}'] for name in _KAI_NAMES)
            for queue in (top, f"{top}--a", f"{top}---shared")
        }
        assert values == {top: (100, 8, 8), f"{top}--a": (30, 8, 8), f"{top}---shared": (70, 0, 0)}


_KAI_NAMES = ("deserved_gpus", "allocated_gpus", "fair_share_gpu")


def test_several_processes_answer_together(
    admin: ApiClient, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path_factory.mktemp("prometheus")))
    status, found = _scrape(admin.token)
    assert status == 200
    assert "osmo_pools_left_out" in found


def test_gpu_quota_of_each_namespace(caller: Callers) -> None:
    admin = caller("bob", "osmo-admin")
    world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "10"}}}))
    request = GpuAmounts(tflops=parse_quantity("9.6"), vram=parse_quantity("1Gi"))
    world.apply_change(AllocateWorker(namespace="team-a", id="w1", request=request))
    _, values = _scrape(admin.token)
    here = 'namespace="team-a"'
    assert values[f'osmo_gpu_quota_used{{amount="requests.tflops",{here}}}'] == 9.6
    assert values[f'osmo_gpu_quota_used{{amount="workers",{here}}}'] == 1
    assert values[f'osmo_gpu_quota_cap{{amount="requests.tflops",{here}}}'] == 10
    assert values[f'osmo_gpu_quota_cap{{amount="requests.vram",{here}}}'] == float("inf")
    assert (values[f"osmo_gpu_quota_alert{{{here}}}"], values[f"osmo_gpu_quota_alerts_total{{{here}}}"]) == (1, 1)
