"""Races about GPU quota, between threads and between processes: each fails without the lock and passes with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from pools.database.transactions import database_time
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, CommitWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.errors import Busy, Conflict
from pools.domain.gpu_quota.workers import GpuWorker
from pools.domain.people.roles import SYSTEM
from pools.models import GpuAllocation, GpuUsage
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
from pools.services.gpu_quota import gpu_allocations
from pools.services.gpu_quota.gpu_allocations import adjust
from pools.services.gpu_quota.gpu_rebuild import PodWorker, rebuild_gpu_usage
from scheduling.services.verify import verify
from tests.support import world
from tests.support.children import popen_of
from tests.support.kube_server import wait_for
from tests.support.preloading import start_program
from tests.support.races import Rendezvous
from tests.support.services import Services
from tests.support.stack import LOCK_TIMEOUT_MS
from tests.support.threads import run_concurrently
from tests.unit.gpu_quota.builders import make_amounts

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

GATE = 0x6A7E
TEN = GpuWorker(make_amounts(10))


@pytest.fixture
def cap_of_fifty() -> None:
    """A cap of 50 TFLOPS, and a usage row, so that no request waits for its creation."""
    world.apply_change(PutGpuQuota(namespace="ns", spec={"total": {"requests": {"tflops": "50"}}}))


def request_ten(name: str) -> Any:
    return world.apply_change(
        AllocateWorker(namespace="ns", id=name, request=TEN.request, limit=TEN.limit, count=TEN.count)
    )


def used_tflops() -> int:
    return int(GpuUsage.objects.get(pk="ns").requests_tflops)


def retry_while_busy(operation: Callable[[], Any]) -> Any:
    """Repeat the operation after a timeout of a lock, as clients do."""
    for _ in range(50):
        with suppress(Busy):
            return operation()
    return operation()


def read_without_lock(namespace: str, worker: str) -> tuple[GpuNamespace, GpuAllocation | None]:
    newest = GpuAllocation.objects.filter(namespace=namespace, name=worker).order_by("-id").first()
    return read_namespaces([namespace])[namespace], newest


def remove_namespace_lock(patch: pytest.MonkeyPatch) -> None:
    """Let services read a namespace without its lock."""

    patch.setattr(gpu_allocations, "lock_namespace_and_worker", read_without_lock)


class TestSixRequestsOfTenOnFifty:
    def test_without_the_lock_the_cap_is_exceeded(self, cap_of_fifty: None, monkeypatch: pytest.MonkeyPatch) -> None:
        remove_namespace_lock(monkeypatch)
        Rendezvous(6, seconds=20).after_call(monkeypatch, gpu_allocations, "lock_namespace_and_worker")
        results = run_concurrently([lambda name=f"w{n}": request_ten(name) for n in range(6)])  # type: ignore[misc]
        assert all(isinstance(result, GpuAllocation) for result in results)
        assert used_tflops() == 60

    def test_with_the_lock_five_threads_succeed(self, cap_of_fifty: None, monkeypatch: pytest.MonkeyPatch) -> None:
        results = run_concurrently([lambda name=f"w{n}": request_ten(name) for n in range(6)])  # type: ignore[misc]
        (refused,) = [result for result in results if isinstance(result, Exception)]
        assert isinstance(refused, Conflict)
        assert refused.details[0].as_dict()["used"] == "50"
        assert used_tflops() == 50

    def test_without_the_lock_six_processes_exceed_the_cap(
        self, cap_of_fifty: None, template: Services, tmp_path: Path
    ) -> None:
        assert _six_processes(template, "unlocked", tmp_path / "said") == ["committed"] * 6
        assert used_tflops() == 60

    def test_with_the_lock_five_processes_succeed(self, cap_of_fifty: None, template: Services, tmp_path: Path) -> None:
        assert _six_processes(template, "locked", tmp_path / "said") == ["committed"] * 5 + ["total.max.tflops.request"]
        assert used_tflops() == 50


class TestTwoWorkersThatGrow:
    """Both hold 10 of 50; one of the two may grow to 40."""

    @pytest.fixture(autouse=True)
    def two_workers(self, cap_of_fifty: None) -> None:
        request_ten("a")
        request_ten("b")

    def grow_both(self) -> list[Any]:
        body = {"request": {"tflops": "40"}}
        operations = [
            lambda n=name: adjust(AdjustWorker.from_json({"namespace": "ns", "id": n, **body}), actor=SYSTEM)
            for name in "ab"
        ]  # type: ignore[misc]
        return run_concurrently(operations)

    def test_without_the_lock_both_grow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remove_namespace_lock(monkeypatch)
        Rendezvous(2, seconds=20).after_call(monkeypatch, gpu_allocations, "lock_namespace_and_worker")
        assert all(isinstance(result, GpuAllocation) for result in self.grow_both())
        assert used_tflops() == 80

    def test_with_the_lock_one_grows(self) -> None:
        (refused,) = [result for result in self.grow_both() if isinstance(result, Exception)]
        assert isinstance(refused, Conflict)
        assert refused.details[0].as_dict()["used"] == "50"
        assert used_tflops() == 50


def test_the_same_id_twice_at_once_is_one_allocation(cap_of_fifty: None) -> None:
    first, second = run_concurrently([lambda: request_ten("w"), lambda: request_ten("w")])
    assert isinstance(first, GpuAllocation)
    assert isinstance(second, GpuAllocation)
    assert first.pk == second.pk
    assert used_tflops() == 10


def test_the_same_id_twice_without_the_lock_violates_the_constraint(
    cap_of_fifty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_namespace_lock(monkeypatch)
    Rendezvous(2, seconds=20).after_call(monkeypatch, gpu_allocations, "lock_namespace_and_worker")
    results = run_concurrently([lambda: request_ten("w"), lambda: request_ten("w")])
    (refused,) = [result for result in results if isinstance(result, Exception)]
    assert isinstance(refused, Conflict)
    assert refused.details[0].code == "gpu_allocation_live_once"
    assert used_tflops() == 10


def test_commit_against_release(cap_of_fifty: None) -> None:
    """One of the two is first; no worker is counted twice and none stays counted."""
    for number in range(5):
        name = f"w{number}"
        world.apply_change(
            AllocateWorker(namespace="ns", id=name, request=TEN.request, limit=TEN.limit, count=TEN.count, assume=True)
        )
        run_concurrently(
            [
                lambda name=name: world.apply_change(CommitWorker(namespace="ns", id=name)),  # type: ignore[misc]
                lambda name=name: world.apply_change(ReleaseWorker(namespace="ns", id=name)),  # type: ignore[misc]
            ]
        )
    row = GpuUsage.objects.get(pk="ns")
    assert (row.requests_tflops, row.assumed_requests_tflops, row.workers, row.assumed_workers) == (0, 0, 0, 0)


def test_a_rebuild_allocates_nothing_twice(cap_of_fifty: None) -> None:
    """While usage is rebuilt from pods again and again, others allocate and release: the cap is never exceeded, and in
    the end the counters are the sums of the rows."""
    cluster = world.make_backend("k").pk
    pods = [PodWorker("ns", f"pod{number}", "", TEN, cluster) for number in range(2)]
    rebuild_gpu_usage(pods, {cluster: database_time()})
    seen: list[int] = []

    def keep_rebuilding() -> None:
        for _ in range(10):
            retry_while_busy(lambda: rebuild_gpu_usage(pods, {cluster: database_time()}))
            seen.append(used_tflops())

    def allocate_and_release(who: int) -> None:
        for number in range(10):
            name = f"w{who}-{number}"
            try:
                retry_while_busy(lambda name=name: request_ten(name))  # type: ignore[misc]
            except Conflict:
                continue
            seen.append(used_tflops())
            retry_while_busy(lambda name=name: world.apply_change(ReleaseWorker(namespace="ns", id=name)))  # type: ignore[misc]

    outcome = run_concurrently([keep_rebuilding, *(lambda who=who: allocate_and_release(who) for who in range(4))])  # type: ignore[misc]
    assert outcome == [None] * 5
    assert max(seen) <= 50
    assert used_tflops() == 20
    assert verify() == []


def _six_processes(template: Services, mode: str, output: Path) -> list[str]:
    """The answers to six processes that request 10 each at the same time."""
    address = template.database_url(connection.settings_dict["NAME"])
    gates = [GATE, GATE + 1]
    with connection.cursor() as cursor:
        for gate in gates:
            cursor.execute("SELECT pg_advisory_lock(%s)", [gate])
        names = [f"w{number}" for number in range(6)]
        children = start_program(
            "tests.concurrency.gpu_process", str(GATE), "ns", "10", mode, *names, address=address, output=output,
            OSMO_LOCK_TIMEOUT_MS=str(5 * LOCK_TIMEOUT_MS),  # six processes may be slow to pass one row
        )  # fmt: skip
        try:
            for gate, word in zip(gates, ("ready", "read"), strict=True):
                if gate == GATE or mode == "unlocked":
                    wait_for(lambda word=word: output.read_text().split().count(word) == 6, description=word)  # type: ignore[misc]
                cursor.execute("SELECT pg_advisory_unlock(%s)", [gate])
            popen_of(children).wait(200)
        finally:
            children.kill_group()
    return sorted(word for word in output.read_text().split() if word not in ("ready", "read"))
