"""Start reservations of a live backend: made by reconciliations, kept as rows, shown to those who wait."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from pools.domain.people.roles import SYSTEM
from pools.models import Backend
from scheduling.domain.start_words import start_about_sentence
from scheduling.models import Group, StartForecast, StartReservation, Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.services.simulated.reconcile import Scope, reconcile_backend
from tests.integration.engine.conftest import Cluster
from tests.support import world

pytestmark = pytest.mark.django_db


def wait_since(name: str, hours: float) -> None:
    """Let a workflow have waited for this number of hours."""
    since = timedelta(hours=hours)
    with world.triggers_off():
        work = Workflow.objects.get(spec_name=name)
        Workflow.objects.filter(pk=work.pk).update(submit_time=work.submit_time - since)
        for group in Group.objects.filter(workflow=work):
            Group.objects.filter(pk=group.pk).update(ready_at=group.ready_at - since)


def reserve_a_whole_node() -> Cluster:
    """A cluster where `big` of pool a has reserved the one node, of which half is free next to `firm`; b is empty."""
    cluster = Cluster({"n1": 8}, {"a": 12, "b": 8})
    cluster.submit("firm", "a", gpus=4)
    cluster.reconcile()
    wait_since("firm", 5)
    cluster.submit("big", "a", gpus=8)
    wait_since("big", 2)
    cluster.reconcile()
    return cluster


GANG = """
workflow:
  name: big
  groups:
  - name: train
    tasks:
    - {name: one, lead: true, image: busybox, command: [sleep], resource: large}
    - {name: two, image: busybox, command: [sleep], resource: large}
  resources:
    large: {gpu: 8, cpu: 1, memory: 1Gi, storage: 1Gi}
"""


def busy_cluster() -> Cluster:
    """Two nodes of 8; four jobs of 2 GPUs on each, and a gang of 8+8 that waits for two hours."""
    cluster = Cluster({"n1": 8, "n2": 8}, {"team": 16})
    for n in range(8):
        cluster.submit(f"s{n}", "team", gpus=2)
    cluster.reconcile()
    for n in range(8):
        wait_since(f"s{n}", 3)
    cluster.submit("big", "team", file=GANG)
    wait_since("big", 2)
    return cluster


@pytest.fixture(scope="module")
def cluster(module_data: world.ModuleData) -> Cluster:
    with module_data():
        return busy_cluster()


TWO_GROUPS = """
workflow:
  name: both
  groups:
  - name: small
    tasks:
    - {name: one, lead: true, image: busybox, command: [sleep], resource: half}
  - name: large
    tasks:
    - {name: two, lead: true, image: busybox, command: [sleep], resource: whole}
  resources:
    half: {gpu: 4, cpu: 1, memory: 1Gi, storage: 1Gi}
    whole: {gpu: 8, cpu: 1, memory: 1Gi, storage: 1Gi}
"""


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_has_a_reservation_is_stored_and_repeated() -> None:
    cluster = Cluster({"n1": 8}, {"team": 16})
    cluster.submit("other", "team", gpus=4)
    cluster.submit("both", "team", file=TWO_GROUPS)
    cluster.reconcile()
    wait_since("both", 2)
    cluster.reconcile()
    request = ("/api/workflow/both-1/end", {"status": "COMPLETED", "group": "small"})
    key = {"Idempotency-Key": "once"}
    first = cluster.admin.post(*request, content_type="application/json", headers=key)
    assert first.status_code == 200, first.content
    (waiting,) = [each["waiting"] for each in first.json()["groups"] if each["waiting"]]
    assert waiting["reservation"]["nodes"] == {"n1": 8}
    again = cluster.admin.post(*request, content_type="application/json", headers=key)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (first.json(), "true")


def entry_of(cluster: Cluster, name: str) -> dict[str, Any]:
    (entry,) = cluster.get(f"/api/queue?workflow={name}-1")["entries"]
    return entry


def test_a_stream_of_small_work_does_not_pass_a_large_gang_any_more(cluster: Cluster) -> None:
    cluster.reconcile()
    row = StartReservation.objects.get()
    assert row.group.workflow.spec_name == "big"
    for n in range(8):
        cluster.end(f"s{n}")
        cluster.submit(f"later{n}", "team", gpus=2)
        reconcile_backend(cluster.backend.pk, scope=Scope.HINT)
        cluster.reconcile()
    cluster.assert_running("big")
    assert not StartReservation.objects.exists()


def test_without_the_setting_it_is_passed_forever(cluster: Cluster) -> None:
    Backend.objects.update(reserve_after=None, ageing=None)
    for n in range(8):
        cluster.end(f"s{n}")
        cluster.submit(f"later{n}", "team", gpus=2)
        cluster.reconcile()
    cluster.assert_running(*(f"later{n}" for n in range(8)))
    assert not StartReservation.objects.exists()


def test_the_reservation_is_reported_with_those_that_passed(cluster: Cluster) -> None:
    Backend.objects.update(reserve_after=None)
    cluster.end("s0")
    cluster.submit("later", "team", gpus=2)
    cluster.reconcile()
    assert entry_of(cluster, "big")["reservation"] is None
    Backend.objects.update(reserve_after=3600)
    cluster.reconcile()
    reservation = entry_of(cluster, "big")["reservation"]
    assert reservation["passed_by"] == 1
    assert reservation["message"] == "1 later gang has started before it. GPUs are kept for it on n1 and n2."
    assert (reservation["latest_start"], reservation["is_certain"]) == (None, False)
    assert reservation["nodes"] == {"n1": 8, "n2": 8}


def test_work_that_is_held_back_has_the_reason(cluster: Cluster) -> None:
    cluster.end("s0")
    cluster.submit("later", "team", gpus=2, priority="LOW")
    cluster.submit("held", "team", gpus=2)
    cluster.reconcile()
    cluster.assert_running(*(f"s{n}" for n in range(1, 8)), "later")
    for n in range(1, 8):
        cluster.end(f"s{n}")
    entry = entry_of(cluster, "held")
    assert entry["reason"]["code"] == "held_back"
    assert entry["unblock_needs_all"] is False
    assert any("big-1" in line for line in entry["unblock"])


@pytest.mark.django_db(transaction=True)
def test_the_fast_path_for_new_work_respects_a_reservation() -> None:
    cluster = busy_cluster()
    cluster.reconcile()
    cluster.end("s0")
    cluster.reconcile()
    cluster.submit("later", "team", gpus=2)
    assert reconcile_backend(cluster.backend.pk, scope=Scope.HINT)["steps"] == []


def test_a_reservation_goes_when_its_gang_is_cancelled(cluster: Cluster) -> None:
    cluster.reconcile()
    assert StartReservation.objects.exists()
    answer = cluster.admin.post("/api/workflow/big-1/cancel", "{}", content_type="application/json")
    assert answer.status_code == 200
    cluster.reconcile()
    assert not StartReservation.objects.exists()


def test_a_time_limit_gives_the_latest_start(cluster: Cluster) -> None:
    with world.triggers_off(), connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_workflow SET exec_timeout = interval '3 hours' WHERE spec_name LIKE 's%'")
    cluster.reconcile()
    reservation = entry_of(cluster, "big")["reservation"]
    ends = max(Workflow.objects.filter(spec_name__startswith="s").values_list("start_time", flat=True))
    assert reservation["is_certain"] is True
    difference = datetime.fromisoformat(reservation["latest_start"]) - (ends + timedelta(hours=3))
    assert abs(difference) < timedelta(seconds=1), "it is in whole seconds"
    keep_forecast("big", minutes=(60, 120, 600))
    start, reservation = entry_of(cluster, "big")["start"], entry_of(cluster, "big")["reservation"]
    assert start["p10"] < start["p50"] < reservation["latest_start"]
    assert start["p90"] == reservation["latest_start"], "the forecast says nothing later than the certain latest start"
    (gang,), _ = list_waiting_gangs(SYSTEM, workflows=["big-1"], limit=1)
    assert gang.start_times is not None
    assert gang.start_times.latest == gang.reservation.latest_start
    assert start_about_sentence(gang.start_times, timezone.now()).endswith(" at the latest.")


@pytest.mark.django_db(transaction=True)
def test_a_reservation_keeps_the_time_at_which_its_nodes_were_chosen() -> None:
    cluster = Cluster({"n1": 8, "n2": 8}, {"team": 16, "other": 16})
    for n in range(4):
        cluster.submit(f"s{n}", "team", gpus=2)
        cluster.submit(f"o{n}", "other", gpus=2)
    cluster.reconcile()
    cluster.submit("big", "team", file=GANG)
    wait_since("big", 2)
    cluster.reconcile()
    row = StartReservation.objects.get()
    assert (row.nodes, row.placed_at) == (None, None), "the quota is in use"
    StartReservation.objects.update(since=row.since - timedelta(hours=1))
    for n in range(4):
        cluster.end(f"s{n}")
    cluster.reconcile()
    placed = StartReservation.objects.get()
    assert placed.nodes is not None
    assert placed.placed_at is not None
    StartReservation.objects.update(placed_at=placed.placed_at - timedelta(minutes=7))
    cluster.end("o0")
    cluster.reconcile()
    kept = StartReservation.objects.get()
    assert (kept.since, kept.placed_at) == (row.since - timedelta(hours=1), placed.placed_at - timedelta(minutes=7))


def test_an_expected_start_is_told_apart_from_the_forecast(cluster: Cluster) -> None:
    with world.triggers_off():
        for work in Workflow.objects.filter(spec_name__startswith="s"):
            Workflow.objects.filter(pk=work.pk).update(simulated_runtime=timedelta(hours=4))
    cluster.reconcile()
    reservation = entry_of(cluster, "big")["reservation"]
    assert reservation["is_certain"] is False
    keep_forecast("big", minutes=(60, 120, 600))
    reservation = entry_of(cluster, "big")["reservation"]
    assert entry_of(cluster, "big")["start"]["p90"] > reservation["latest_start"], "a guess does not bound the forecast"
    (gang,), _ = list_waiting_gangs(SYSTEM, workflows=["big-1"], limit=1)
    assert gang.start_times is not None
    assert gang.start_times.latest is None, "a guess is not said beside the forecast"


def keep_forecast(name: str, *, minutes: tuple[int, int, int]) -> None:
    """A forecast of the only group of a workflow: this number of minutes from now for the three quantiles."""
    backend, now = Backend.objects.get(), timezone.now()
    p10, p50, p90 = (now + timedelta(minutes=each) for each in minutes)
    group = Group.objects.get(workflow__spec_name=name)
    StartForecast.objects.create(
        group_id=group.pk, backend_id=backend.pk, made_at=now, samples=12, p10=p10, p50=p50, p90=p90
    )
