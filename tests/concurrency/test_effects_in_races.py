"""A preview is compared with what came true only if nothing else was committed, also while its change waited."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction

from pools.locking import lock_pool_tree
from pools.models import Pool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.models import ShownEffect, Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.workflows.user_actions import cancel_workflow, cancel_workflows
from tests.integration.engine.conftest import Cluster
from tests.support import world
from tests.support.threads import run_concurrently

QUOTA = {"configs_dict": {"resources": {"gpu": {"guarantee": 16}}}}


@pytest.fixture
def cluster(ledger: None) -> Cluster:
    """16 GPUs. With a quota of 16, `wants` of pool `a` would take the place of `low` of pool `b`."""
    cluster = Cluster({"n1": 8, "n2": 8}, {"a": 8, "b": 0})
    for name, pool, priority in (("low", "b", "LOW"), ("has", "a", "NORMAL"), ("wants", "a", "NORMAL")):
        cluster.submit(name, pool, priority, gpus=8)
    cluster.submit("other", "b", "LOW", gpus=8)
    cluster.reconcile()
    cluster.assert_running("low", "has")
    return cluster


def cancel(name: str) -> None:
    cancel_workflow(CancelWorkflow(name=Workflow.objects.get(spec_name=name).name), actor=world.admin_actor())


def cancel_of_another_pool() -> None:
    (outcome,) = run_concurrently([lambda: cancel("other")])
    assert outcome is None


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        (lambda: cancel("wants"), ("withdrawn", "changed")),
        (cancel_of_another_pool, ("withdrawn", "changed")),
        (lambda: None, ("kept", "")),
    ],
    ids=["the holder of its lock", "a bystander", "nobody"],
)
def test_what_is_committed_while_the_change_waits_is_seen(
    cluster: Cluster, meanwhile: Callable[[], None], expected: tuple[str, str]
) -> None:
    assert patch(cluster, "?dry_run=true") == 200
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            lock_pool_tree(Pool.objects.get(name="a").pk)
            confirmed = threads.submit(confirm, cluster)
            wait_until_it_waits()
            meanwhile()
        assert confirmed.result(60) == 200
    reconcile_backend(cluster.backend.pk)
    assert list(ShownEffect.objects.values_list("outcome", "reason")) == [expected]


def test_two_people_who_cancel_the_same_work_end_each_once(cluster: Cluster) -> None:
    """Of two pools, in opposite orders: neither waits for the other in a circle, and one of them has ended each."""
    names, actor = list(Workflow.objects.order_by("name").values_list("name", flat=True)), world.admin_actor()
    found = run_concurrently(
        [lambda: cancel_workflows(names, actor=actor), lambda: cancel_workflows(names[::-1], actor=actor)]
    )
    for name in names:
        refusals = [each[name] for each in found if isinstance(each, dict)]
        assert sorted(map(bool, refusals)) == [False, True], (name, found)
    assert set(Workflow.objects.values_list("status", flat=True)) == {"FAILED_CANCELED"}


def patch(cluster: Cluster, query: str = "") -> int:
    return cluster.admin.patch(f"/api/configs/pool/a{query}", QUOTA, content_type="application/json").status_code


def confirm(cluster: Cluster) -> int:
    """The same with a connection of its own."""
    try:
        return patch(cluster)
    finally:
        connections.close_all()


def wait_until_it_waits() -> None:
    """Until another session waits for the row of a pool."""
    deadline = time.monotonic() + 30
    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            if cursor.fetchone()[0]:
                return
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.002)
