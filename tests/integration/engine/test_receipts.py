"""The receipts of attempts that something else ended, as the scheduler of a simulated backend writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from osmo_admin.monitoring.work_metrics import _collect_lost as collect_lost
from pools.database.transactions import database_time
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.people.roles import SYSTEM
from pools.services.configuration.subpools import resize_subpool
from scheduling.models import Interruption, Receipt, Task, Workflow
from scheduling.services.receipts.past_receipts import write_past_receipts
from scheduling.services.verify import verify
from tests.support import world

Make = Callable[..., Any]
pytestmark = pytest.mark.django_db


def only_interruption() -> Interruption:
    """The one that was written."""
    return Interruption.objects.select_related("for_workflow", "workflow").get()


def numbers_of(row: Interruption) -> dict[str, Any]:
    """(quota, used, share) of both queues."""
    return {side: (each["pool"], each["quota"], each["used"], each["share"]) for side, each in row.numbers.items()}


def spared_of(row: Interruption) -> list[tuple[str, int, str]]:
    """(gang, GPUs, why) of the work that could have gone too."""
    return [(each["gang"], each["gpus"], each["by"]) for each in row.spared]


def test_a_preemption_names_the_rule_the_numbers_and_who_else_could_have_gone(cluster: Make) -> None:
    sim = cluster({"n": 4}, pool=4)
    for name in ("old", "young"):
        sim.submit(name, "pool", "LOW", gpus=2)
    sim.reconcile()
    sim.submit("urgent", "pool", gpus=1)
    assert sim.reconcile() == [("preempt", "young"), ("start", "urgent")]
    row = only_interruption()
    assert (row.cause, row.workflow.name, row.for_workflow.name) == ("priority", "young-1", "urgent-1")
    assert numbers_of(row) == {"loser": ("pool", 4, 4, 4), "taker": ("pool", 4, 4, 4)}
    assert spared_of(row) == [("old-1", 2, "age")]
    (receipt,) = row.receipts.select_related("task")
    task = receipt.task
    assert (task.retry_id, task.end_time, receipt.gpus, receipt.lost_since) == (0, row.time, 2, task.start_time)
    assert receipt.lost_gpu_ms == 2 * ((task.end_time - task.start_time) // timedelta(milliseconds=1))


def test_a_reclaim_is_told_from_a_fair_share(cluster: Make) -> None:
    sim = cluster({"n": 4}, one=2, two=2)
    sim.submit("kept", "one", "LOW", gpus=2)
    sim.submit("lent", "one", "LOW", gpus=2)
    sim.reconcile()
    sim.submit("mine", "two", gpus=2)
    assert sim.reconcile() == [("reclaim", "lent"), ("start", "mine")]
    row = only_interruption()
    assert (row.cause, row.for_workflow.name) == ("reclaim", "mine-1")
    assert numbers_of(row) == {"loser": ("one", 2, 4, 2), "taker": ("two", 2, 0, 2)}
    assert spared_of(row) == [("kept-1", 2, "age")]


def test_a_share_of_what_no_quota_covers(cluster: Make) -> None:
    sim = cluster({"n": 8}, one=2, two=2)
    for name in ("a", "b", "c", "d"):
        sim.submit(name, "one", "LOW", gpus=2)
    sim.reconcile()
    for name in ("e", "f"):
        sim.submit(name, "two", "LOW", gpus=2)
    sim.reconcile()
    causes = dict(Interruption.objects.values_list("for_workflow__spec_name", "cause"))
    assert causes == {"e": "reclaim", "f": "fair_share"}


def test_a_lowered_quota_is_the_reason_of_a_reclaim_of_work_that_it_covered(cluster: Make) -> None:
    sim = cluster({"n": 4}, team={"": 4, "a": 4, "b": 0})
    sim.submit("low", "team--a", "LOW", gpus=4)
    sim.reconcile()
    for short, quota in (("a", 1), ("b", 3)):
        resize_subpool(ResizeSubpool(parent="team", subpool_name=short, quota=quota), actor=SYSTEM)
    sim.submit("mine", "team--b", gpus=3)
    assert sim.reconcile() == [("reclaim", "low"), ("start", "mine")]
    row = only_interruption()
    assert (row.cause, row.numbers["quota_at_start"], row.numbers["loser"]["quota"]) == ("lowered_quota", 4, 1)


def test_work_that_moves_is_told_for_whom(cluster: Make) -> None:
    sim = cluster({"n1": 2, "n2": 2}, pool=4)
    for name in ("a", "b", "c"):
        sim.submit(name, "pool", "LOW")
    sim.reconcile()
    by_node: dict[str, list[str]] = {}
    for task in Task.objects.select_related("group__workflow"):
        by_node.setdefault(task.node_name, []).append(task.group.workflow.spec_name)
    whole = next(names for names in by_node.values() if len(names) == 2)
    sim.end(whole[0])
    sim.submit("big", "pool", "LOW", gpus=2)
    steps = sim.reconcile()
    assert [action for action, _ in steps] == ["move", "start"]
    row = only_interruption()
    assert (row.cause, row.for_workflow.spec_name, row.receipts.count()) == ("consolidation", "big", 1)


def test_a_person_who_cancels_the_work_of_another_leaves_a_receipt_and_an_owner_none(cluster: Make) -> None:
    sim = cluster({"n": 4}, pool=4)
    rae = sim.client("rae", "osmo-pool-user")
    for name in ("one", "two"):
        sim.submit(name, "pool", by=rae)
    sim.reconcile()
    for name, by in (("one", rae), ("two", sim.admin)):
        answer = by.post(
            f"/api/workflow/{name}-1/cancel?message=the%20node%20is%20needed", "{}", content_type="application/json"
        )
        assert answer.status_code == 200, answer.content
    row = only_interruption()
    assert (row.cause, row.by_user, row.note, row.workflow.name) == ("person", "root", "the node is needed", "two-1")
    assert verify() == []


def test_work_that_ends_by_itself_has_no_receipt(cluster: Make) -> None:
    sim = cluster({"n": 4}, pool=4)
    for name, status in (("one", "COMPLETED"), ("two", "FAILED")):
        sim.submit(name, "pool")
        sim.reconcile()
        sim.end(name, status)
    assert not Receipt.objects.exists()
    assert verify() == []


def test_only_the_work_since_the_last_checkpoint_is_lost(cluster: Make) -> None:
    sim = cluster({"n": 2}, pool=2)
    file = world.workflow_file("low", 2).replace(
        "  name: low\n", "  name: low\n  labels: {osmo/checkpoint-every: 10m}\n"
    )
    assert "checkpoint-every" in file
    sim.submit("low", "pool", "LOW", file=file)
    sim.reconcile()
    began = database_time() - timedelta(minutes=25)
    Task.objects.update(start_time=began)
    sim.submit("urgent", "pool")
    sim.reconcile()
    receipt = Receipt.objects.get()
    assert receipt.lost_since == began + timedelta(minutes=20)
    assert 2 * 300_000 <= receipt.lost_gpu_ms < 2 * 400_000


def test_receipts_of_attempts_from_before_there_were_receipts(cluster: Make) -> None:
    sim = cluster({"n": 2}, pool=2)
    sim.submit("low", "pool", "LOW", gpus=2)
    sim.reconcile()
    sim.submit("urgent", "pool")
    sim.reconcile()
    lost = Receipt.objects.get().lost_gpu_ms
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE scheduling_receipt DISABLE TRIGGER USER")
        cursor.execute("ALTER TABLE scheduling_interruption DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM scheduling_receipt")
        cursor.execute("DELETE FROM scheduling_interruption")
    assert [each.code for each in verify()] == ["receipt"]
    write_past_receipts()
    row = only_interruption()
    assert (row.cause, row.for_workflow.name, Receipt.objects.get().lost_gpu_ms) == ("priority", "urgent-1", lost)
    assert verify() == []
    write_past_receipts()
    assert Interruption.objects.count() == 1


class TestUsage:
    """What was lost, in the record of use and the metrics, is the sum of the receipts."""

    def lose(self, cluster: Make) -> Any:
        """Work of pool `one` is reclaimed for `two`, preempted in its own queue, and cancelled by another person."""
        sim = cluster({"n": 6}, one=4, two=2)
        ann = sim.client("ann", "osmo-one-user")
        for name in ("a", "b", "c"):
            sim.submit(name, "one", "LOW", gpus=2, by=ann)
        sim.reconcile()
        began = database_time() - timedelta(minutes=90, seconds=7)
        Task.objects.update(start_time=began)
        sim.submit("mine", "two", gpus=2)
        sim.reconcile()
        sim.submit("urgent", "one", "HIGH", gpus=2, by=ann)
        sim.reconcile()
        sim.admin.post("/api/workflow/a-1/cancel", "{}", content_type="application/json")
        causes = Interruption.objects.values_list("cause", flat=True)
        assert sorted(causes) == ["person", "priority", "reclaim"]
        return sim

    def test_every_division_adds_up_to_the_receipts(self, cluster: Make) -> None:
        sim = self.lose(cluster)
        whole = sum(Receipt.objects.values_list("lost_gpu_ms", flat=True)) / 1000
        assert whole > 3 * 2 * 90 * 60
        for by in ("pool", "subpool", "cohort", "user", "priority", "backend", "workflow"):
            answer = sim.get(f"/api/usage?by={by}&bucket=hour")
            assert sum(row["lost_gpu_s"] for row in answer["rows"]) == pytest.approx(whole), by
            assert answer["totals"]["lost_gpu_s"] == pytest.approx(whole), by
            assert sum(each["lost_gpu_s"] for each in answer["lost"]) == pytest.approx(whole), by
        takers = {(each["pool"], each["cause"], each["taker"]) for each in answer["lost"]}
        assert takers == {("one", "reclaim", "two"), ("one", "priority", "one"), ("one", "person", None)}
        metrics = {family.name: family.samples for family in collect_lost()}
        assert sum(sample.value for sample in metrics["osmo_lost_gpu_seconds"]) == pytest.approx(whole)
        assert sum(sample.value for sample in metrics["osmo_lost_attempts"]) == 3
        assert verify() == []

    def test_a_reader_of_one_pool_learns_no_taker_of_another(self, cluster: Make) -> None:
        sim = self.lose(cluster)
        own = sim.get("/api/usage?by=pool", sim.client("ann", "osmo-one-user"))
        takers = {(each["cause"], each["taker"]) for each in own["lost"]}
        assert takers == {("reclaim", "another pool"), ("priority", "one"), ("person", None)}
        assert "two" not in str(own)
        other = sim.get("/api/usage?by=pool", sim.client("bob", "osmo-two-admin"))
        assert (other["lost"], other["totals"]["lost_gpu_s"]) == ([], 0)

    def test_the_page_has_it(self, cluster: Make) -> None:
        text = self.lose(cluster).admin.get("/usage").content.decode()
        assert "Table of lost work by pool, rule and taker" in text
        assert "Reclaim of quota" in text


class TestTheDatabase:
    """Refuses an attempt without its receipt and a receipt without its attempt, by every way of writing."""

    def running(self, cluster: Make) -> Task:
        """A task that runs."""
        sim = cluster({"n": 2}, pool=2)
        sim.submit("low", "pool", "LOW")
        sim.reconcile()
        return Task.objects.select_related("group__workflow").get()

    def commit(self, write: Callable[[], object]) -> None:
        """Write, and check what the commit would check."""
        with transaction.atomic():
            write()
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    @pytest.mark.parametrize(
        "end", [("FAILED_PREEMPTED", 3006), ("COMPLETED", 3006), ("RESCHEDULED", 3001), ("FAILED_EVICTED", None)]
    )
    def test_an_end_by_something_else_needs_a_receipt(self, cluster: Make, end: tuple[str, int | None]) -> None:
        rows = Task.objects.filter(pk=self.running(cluster).pk)
        ended = {"status": end[0], "exit_code": end[1], "end_time": timezone.now()}
        with pytest.raises(IntegrityError, match="has a receipt"):
            self.commit(lambda: rows.update(**ended))

    def test_so_does_a_cancellation_by_another_person(self, cluster: Make) -> None:
        rows = Task.objects.filter(pk=self.running(cluster).pk)

        def cancel() -> None:
            rows.update(status="FAILED_CANCELED", end_time=timezone.now())
            Workflow.objects.update(cancelled_by="someone")

        with pytest.raises(IntegrityError, match="has a receipt"):
            self.commit(cancel)

    def test_a_receipt_needs_an_attempt_that_ended_then(self, cluster: Make) -> None:
        task = self.running(cluster)
        work = task.group.workflow

        def write() -> None:
            why = Interruption.objects.create(
                time=timezone.now(), cause="node", backend_id=work.root_pool.backend_id, root_pool=work.root_pool,
                pool=work.pool, workflow=work, group=task.group,
            )  # fmt: skip
            Receipt.objects.create(task=task, interruption=why, lost_since=why.time)

        with pytest.raises(IntegrityError, match="attempt that ended"):
            self.commit(write)

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM scheduling_receipt", "UPDATE scheduling_receipt SET lost_gpu_ms = 0",
            "UPDATE scheduling_interruption SET cause = 'person'",
        ],
    )  # fmt: skip
    def test_receipts_stay(self, cluster: Make, statement: str) -> None:
        sim = cluster({"n": 2}, pool=2)
        sim.submit("low", "pool", "LOW", gpus=2)
        sim.reconcile()
        sim.submit("urgent", "pool")
        sim.reconcile()
        with pytest.raises(IntegrityError, match="append-only"), connection.cursor() as cursor:
            cursor.execute(statement)

    def test_a_cause_is_one_of_the_known_ones(self, cluster: Make) -> None:
        task = self.running(cluster)
        work = task.group.workflow
        with pytest.raises(IntegrityError, match="interruption_cause"):
            Interruption.objects.create(
                time=timezone.now(), cause="bad luck", backend_id=work.root_pool.backend_id, root_pool=work.root_pool,
                pool=work.pool, workflow=work, group=task.group,
            )  # fmt: skip
