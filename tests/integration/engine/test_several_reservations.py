"""Start reservations of several pools on one backend: none waits for another."""

from __future__ import annotations

import pytest
from django.db import connection

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.models import Backend
from scheduling.models import StartReservation
from scheduling.services.simulated.reconcile import Scope, reconcile_backend
from tests.integration.engine.conftest import Cluster
from tests.integration.engine.test_start_reservations import GANG, entry_of, reserve_a_whole_node, wait_since
from tests.support import world

pytestmark = pytest.mark.django_db


def join_one_cohort() -> None:
    world.apply_change(PutCohort(name="o", body={"parent": None, "quotas": []}))
    for name in "ab":
        world.apply_change(PatchPool(name=name, patch={"cohort": "o"}))


def test_two_gangs_of_all_nodes_do_not_hold_each_other(db: None) -> None:
    """Two pools of one cohort; in each a LOW gang of all nodes has waited for hours behind a small job."""
    cluster = Cluster({"n1": 8, "n2": 8}, {"a": 8, "b": 8})
    join_one_cohort()
    cluster.submit("small", "a", "LOW", gpus=2)
    cluster.reconcile()
    for pool in "ab":
        cluster.submit(f"big{pool}", pool, "LOW", file=GANG.replace("big", f"big{pool}"))
        wait_since(f"big{pool}", 4 if pool == "a" else 3)
    cluster.reconcile()
    assert [row.group.workflow.spec_name for row in StartReservation.objects.all()] == ["biga"]
    assert entry_of(cluster, "bigb")["reservation"] is None
    cluster.end("small")
    assert ("start", "biga") in cluster.reconcile()
    cluster.assert_running("biga")
    cluster.end("biga")
    cluster.reconcile()
    cluster.assert_running("bigb")


def test_a_guest_returns_reserved_nodes(db: None) -> None:
    """LOW work of another pool uses them, and the reserved gang takes them back once nothing else is in its way. The
    time at which the nodes were chosen is a part of the row, so that a later cycle knows the guest."""
    cluster = reserve_a_whole_node()
    assert StartReservation.objects.get().placed_at is not None
    cluster.submit("guest", "b", "LOW", gpus=4)
    assert cluster.reconcile() == [("start", "guest")]
    cluster.end("firm")
    assert cluster.reconcile() == [("preempt", "guest"), ("start", "big")]
    cluster.assert_running("big")


def test_rows_of_an_older_version_hold_each_other_no_longer(db: None) -> None:
    """Two reservations that lack quota, as the last version left them: the first cycle keeps one."""
    cluster = Cluster({"n1": 8, "n2": 8}, {"a": 8, "b": 8})
    join_one_cohort()
    for pool in "ab":
        cluster.submit(f"big{pool}", pool, "LOW", file=GANG.replace("big", f"big{pool}"))
        wait_since(f"big{pool}", 3)
    with world.triggers_off(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_startreservation (group_id, backend_id, since, nodes) "
            "SELECT uuid, %s, now() - interval '1 hour', NULL FROM scheduling_group",
            [Backend.objects.get().pk],
        )
    cluster.reconcile()
    cluster.assert_running("biga")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("share", ["own", "beyond"])
def test_new_low_work_passes_a_low_reservation_only_inside_its_fair_share(db: None, share: str) -> None:
    """Also where new work is tried alone: without the work that waits in `c`, the share of `b` would be 4 of 8."""
    cluster = Cluster({"n1": 8}, {"a": 0, "b": 0, "c": 0})
    cluster.submit("runs", "a", "LOW", gpus=4)
    cluster.reconcile()
    for pool in "ac":
        cluster.submit(f"big{pool}", pool, "LOW", gpus=8)
        wait_since(f"big{pool}", 3 if pool == "a" else 0)
    cluster.reconcile()
    assert [row.group.workflow.spec_name for row in StartReservation.objects.all()] == ["biga"]
    cluster.submit("new", "b", "LOW", gpus=2 if share == "own" else 4)
    reconcile_backend(cluster.backend.pk, scope=Scope.HINT)
    cluster.assert_running("runs", *(["new"] if share == "own" else []))
    assert cluster.reconcile() == []
