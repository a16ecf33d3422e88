"""Raw SQL with all triggers on cannot truncate, delete or falsify what the ledger keeps. Every table is in one of the
lists below: a new one fails the first test until it is."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from pools.domain.changes.backends import DeleteBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import DeletePool, PutPool
from pools.domain.changes.tokens import CreateToken
from pools.models import FlavorUsage, GpuUsage, LeafUsage, LiveWork, Pool, Reservation
from pools.models.triggers import NeverDeletedTrigger
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.models import Group, PromisedStart, SchedulerDifference, ShownEffect, Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world

pytestmark = pytest.mark.django_db

MAY_BE_TRUNCATED = {
    "pools_user_user_permissions": "Django's own, which we do not use",
    "pools_idempotencyrecord": "answers kept for a day; a lost one makes a repeat a new request",
    "pools_clientlogin": "clients that wait for consent, for minutes; a lost one begins again",
    "pools_noticeprogress": "up to where notices were made; without it they begin anew, with the present",
    "pools_secretkeycheck": "by which processes compare their keys, made again by the next preparation",
    "pools_lastbackup": "when the last backup was made; the next one writes it again",
    "pools_savedview": "names that people give to their own filters, not a part of the ledger",
    "pools_gpuusagesample": "samples for charts, deleted by age",
    "scheduling_startreservation": "of the last cycle; the next one decides it again",
    "scheduling_stuckgroup": "found by the last cycle; the next one finds it again",
    "scheduling_backendschedulingstate": "result of the last cycle, computed again",
    "scheduling_clusterstate": "observed, written again by the agent",
    "scheduling_nodestate": "observed, written again by the agent",
    "scheduling_queuesync": "observed, written again by the sync",
    "scheduling_queuedrift": "observed, written again by the sync",
    "scheduling_beatlease": "a lease of seconds",
    "scheduling_gpucontrollerlease": "a lease of a minute",
    "scheduling_bypass": "a bounded list of attempts, observed again",
    "scheduling_unmarkedreviews": "numbers of reviews by strangers, counted again",
    "scheduling_historyreplay": "answers to people's questions about the past, not a part of the ledger",
    "scheduling_backendusageday": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_backendusagehour": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_leafusageday": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_leafusagehour": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_poolusageday": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_poolusagehour": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_workusageday": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_workusagehour": "sums of use, computed again by osmo-admin usage rebuild",
    "scheduling_usageprogress": "how far the sums of use are computed; without it they are computed again",
    "scheduling_lateusage": "marks of late writes; a rebuild needs none",
    "scheduling_quotaspan": "derived from the audit trail, again by osmo-admin usage rebuild",
    "scheduling_nodespan": "derived from the audit trail, again by osmo-admin usage rebuild",
    "scheduling_offlinespan": "derived from the audit trail and from the state of nodes",
}
MAY_BE_DELETED = MAY_BE_TRUNCATED | {
    "pools_configurationowner": "the trigger of the audit trail records it; the object is the admins' again",
    "pools_accesstoken": "a service deletes tokens; the trigger of the audit trail records it",
    "pools_notice": "old ones are deleted by age; what they reported is in the audit trail",
    "pools_inboxnotice": "old news is deleted by age; what it told is in the audit trail",
    "pools_inboxread": "a mark of one person; it goes with its news",
    "pools_noticecondition": "a condition that has ended; the trigger of the audit trail records it",
    "pools_noticetarget": "a service removes targets; the trigger of the audit trail records it",
    "pools_roleassignment": "a service revokes roles; the trigger of the audit trail records it",
    "pools_signonidentity": "a service unlinks accounts; the trigger of the audit trail records it",
    "pools_gpuquota": "a service deletes quotas; the trigger of the audit trail records it",
    "pools_cohort": "an unused one; a pool or cohort that names it keeps it by its foreign key",
    "pools_node": "a service removes nodes; the trigger of the audit trail records it",
    "pools_kubernetessettings": "deleted with its backend; the trigger of the audit trail records it",
    "scheduling_suspectnode": "deleted with its node; the trigger of the audit trail records its beginning and its end",
    "scheduling_observedwork": "deleted with its backend; the workflows that it marks stay",
    "scheduling_queueguard": "deleted with its backend; the trigger of the audit trail records it",
    "scheduling_webhookinstallation": "deleted with its backend; the trigger of the audit trail records it",
    "scheduling_startforecast": "it is made anew every minute, and counts for nothing",
    "scheduling_refusedfile": "a file that can be applied again; the trigger of the audit trail records it",
    "scheduling_waitcausechange": "old ones are deleted; without it work counts as waiting for its turn",
    "scheduling_schedulingcycle": "old ones are deleted; without it a replay says since when it is exact",
    "scheduling_decisioncount": "numbers for metrics; a deleted count begins at 0 again",
    "scheduling_jobfailurecount": "numbers of the page of jobs; a deleted count begins at 0 again",
    "scheduling_lostcount": "numbers for metrics; a deleted count begins at 0 again",
    "scheduling_promisecount": "numbers for metrics; a deleted count begins at 0 again",
    "scheduling_startcount": "numbers for metrics; a deleted count begins at 0 again",
    "scheduling_workflowconfig": "the trigger of the audit trail records it; the defaults apply again",
}
# Rows that follow from others: no statement but that of a trigger may write them.
DERIVED = {
    "pools_leafusage": "used = used + 1",
    "pools_flavorusage": "used = used + 1",
    "pools_livework": "workflows = workflows + 1",
    "pools_gpuusage": "workers = workers + 1",
    "pools_changetoken": "stamp = gen_random_uuid()",
    "pools_auditentry": "actor = 'somebody else'",
}
COUNTERS = [
    f"UPDATE {model._meta.db_table} SET {field.column} = {field.column} + 1"
    for model in (LeafUsage, FlavorUsage, LiveWork, GpuUsage)
    for field in model._meta.concrete_fields
    if isinstance(field, (models.IntegerField, models.DecimalField)) and field.column != "revision"
]
OURS = sorted(
    model._meta.db_table
    for app in ("pools", "scheduling")
    for model in apps.get_app_config(app).get_models(include_auto_created=True)
    if not model._meta.proxy
)


NEVER_DELETED = {
    model._meta.db_table
    for model in apps.get_models()
    if any(isinstance(each, NeverDeletedTrigger) for each in getattr(model._meta, "triggers", ()))
}


@pytest.fixture(scope="module")
def filled(module_data: world.ModuleData) -> None:
    """At least one row in every table whose rows must stay."""
    with module_data():
        admin = world.admin_actor()
        world.apply_change(PutCohort(name="corp", body={"quotas": []}))
        root = world.make_pool("team", 100, a=30)
        world.apply_change(PutPool(name="plain", body={"backend": "sim", "resources": {"gpu": {"guarantee": 4}}}))
        world.submit_workflow(admin, "team--a", 8, name="runs")
        world.submit_workflow(admin, "team--a", 8, name="taken")
        assert root.backend_id is not None
        reconcile_backend(root.backend_id)
        world.submit_workflow(admin, "team--a", 8, name="ended")
        world.apply_change(CancelWorkflow(name="ended-1"), actor=admin)
        world.apply_change(CancelWorkflow(name="taken-1"), actor=world.make_user("other", "osmo-admin"))
        world.apply_change(PutGpuQuota(namespace="ns", spec={"total": {"maxWorkers": 9}}))
        world.apply_change(AllocateWorker(namespace="ns", id="w1"), actor=admin)
        world.apply_change(CreateToken(owner=admin.username, name="laptop"), actor=admin)
        Pool.objects.filter(pk=root.pk).update(config={"approval_above": 10})
        Reservation.objects.filter(workflow_name="runs-1").update(by_flavor={"h100": [8, 8]})
        world.request_quota(admin, "team", "a", 90)
        now = timezone.now()
        PromisedStart.objects.create(
            group=Group.objects.get(workflow__name="runs-1"), backend_id=1, gang="runs-1", waits_since=now, made_at=now,
            latest_start=now,
        )  # fmt: skip
        ShownEffect.objects.create(backend_id=1, title="x", shown_at=now, made_at=now, tokens={}, lost=[], started=[])
        SchedulerDifference.objects.create(
            backend_id=root.backend_id,
            pool=root,
            workflow=Workflow.objects.get(name="runs-1"),
            time=now,
            kind="started",
            gpus=1,
        )
        world.check_deferred_constraints()


def run_at_commit(*statements: str) -> None:
    """Run statements in a transaction up to the checks of its commit, then undo them."""
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        transaction.set_rollback(True)


def refusal(*statements: str) -> str:
    with pytest.raises(IntegrityError) as refused:
        run_at_commit(*statements)
    return str(refused.value)


def test_each_exemption_names_a_table_of_ours() -> None:
    assert {*MAY_BE_TRUNCATED, *MAY_BE_DELETED, *DERIVED} <= set(OURS)
    assert all({**MAY_BE_TRUNCATED, **MAY_BE_DELETED}.values())


@pytest.mark.parametrize("table", [name for name in OURS if name not in MAY_BE_TRUNCATED])
def test_truncate_is_refused(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgtype & 32 > 0", [table])
        assert cursor.fetchall(), f"{table} has no trigger against TRUNCATE"
    assert "cannot be truncated: the ledger keeps its history." in refusal(f"TRUNCATE {table} CASCADE")


def test_delete_is_refused(filled: None) -> None:
    for table in sorted(set(OURS) - set(MAY_BE_DELETED)):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() != (0,), f"{table} is empty, so its refusal is not tested"
        message = refusal(f"DELETE FROM {table}")
        assert "keeps its history" in message or table not in NEVER_DELETED, (table, message)


@pytest.mark.parametrize(("table", "change"), DERIVED.items(), ids=DERIVED)
def test_what_follows_from_other_rows_is_not_written_by_hand(filled: None, table: str, change: str) -> None:
    assert refusal(f"UPDATE {table} SET {change}")
    assert refusal(f"DELETE FROM {table}")
    copy = f"CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM {table}"
    back = f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM kept"
    for statements in ((copy, f"DELETE FROM {table}", f"UPDATE kept SET {change}", back), (copy, back)):
        message = refusal(*statements)
        assert "duplicate key" not in message, "refused before the key is looked at"


@pytest.mark.parametrize("statement", COUNTERS)
def test_no_counter_can_be_set(filled: None, statement: str) -> None:
    assert "it cannot be edited" in refusal(statement) or "they cannot be edited" in refusal(statement)


def test_a_new_namespace_begins_with_nothing() -> None:
    columns = "namespace, requests_tflops, requests_vram, limits_tflops, limits_vram, workers, " + ", ".join(
        f"assumed_{name}" for name in ("requests_tflops", "requests_vram", "limits_tflops", "limits_vram", "workers")
    )
    insert = f"INSERT INTO pools_gpuusage ({columns}, families, revision) VALUES ('fresh', {{}}, 'DDDD', 0)"
    run_at_commit(insert.format(", ".join("0" * 10)))
    for place in range(10):
        numbers = ["0"] * 10
        numbers[place] = "1"
        assert "it cannot be edited" in refusal(insert.format(", ".join(numbers)))


def test_a_recount_sets_the_sums_whatever_it_is_asked_for(filled: None) -> None:
    before = GpuUsage.objects.values().get(pk="ns")
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('osmo.recount', 'on', true)")
        cursor.execute("UPDATE pools_gpuusage SET workers = 99, assumed_limits_vram = 5, requests_tflops = 7")
        cursor.execute("SELECT set_config('osmo.recount', 'off', true)")
    assert GpuUsage.objects.values().get(pk="ns") == before


def test_a_reservation_stays_while_its_work_is_active(filled: None) -> None:
    message = refusal("DELETE FROM pools_reservation WHERE workflow_name = 'runs-1'")
    assert "Workflow runs-1 is active and keeps its reservation." in message


def test_a_live_worker_is_released_before_it_is_deleted(filled: None) -> None:
    assert "Allocation w1 is not released" in refusal("DELETE FROM pools_gpuallocation")
    run_at_commit("UPDATE pools_gpuallocation SET state = 'released'", "DELETE FROM pools_gpuallocation")


STATUSES = {
    "end without its release": ("runs-1", "COMPLETED", "has ended"),
    "back to life": ("ended-1", "RUNNING", "and stays so"),
    "another end": ("ended-1", "COMPLETED", "and stays so"),
    "a status of requests": ("runs-1", "WAITING", "cannot become"),
    "no status": ("runs-1", "DONE", "cannot become DONE"),
}


@pytest.mark.parametrize(("name", "status", "reason"), STATUSES.values(), ids=STATUSES)
def test_a_status_changes_along_the_allowed_ways(filled: None, name: str, status: str, reason: str) -> None:
    assert reason in refusal(f"UPDATE scheduling_workflow SET status = '{status}' WHERE name = '{name}'")


def test_active_work_may_wait_again(filled: None) -> None:
    run_at_commit("UPDATE scheduling_workflow SET status = 'PENDING' WHERE name = 'runs-1'")


def test_a_revision_keeps_its_content(filled: None) -> None:
    assert "cannot change, except its tags" in refusal("UPDATE pools_configrevision SET audit_id = 1")
    run_at_commit("UPDATE pools_configrevision SET tags = '[\"good\"]'")


def test_numbers_of_names_only_grow(filled: None) -> None:
    assert "only grow" in refusal("UPDATE scheduling_workflowname SET last_number = 0")


class TestOurOwnPaths:
    """What the services delete, they still delete."""

    def test_an_unused_pool(self) -> None:
        world.make_pool("unused", 4)
        assert world.apply_change(DeletePool(name="unused")) is None
        world.check_deferred_constraints()
        assert not LeafUsage.objects.filter(pool__name="unused").exists()
        assert not Pool.objects.filter(name="unused").exists()

    def test_a_backend_with_pods(self) -> None:
        """Its pods are released first; the counters of their namespaces follow."""
        backend = world.make_backend("gone")
        row: Any = world.apply_change(AllocateWorker(namespace="pods", id="pod"))
        with world.triggers_off():
            type(row).objects.filter(pk=row.pk).update(source="pod", backend=backend)
        assert GpuUsage.objects.get(pk="pods").workers == 1
        world.apply_change(DeleteBackend(name="gone"))
        world.check_deferred_constraints()
        assert GpuUsage.objects.get(pk="pods").workers == 0
        assert not type(row).objects.filter(pk=row.pk).exists()

    def test_an_ended_workflow_has_no_reservation(self, filled: None) -> None:
        assert Workflow.objects.get(name="ended-1").status == "FAILED_CANCELED"
