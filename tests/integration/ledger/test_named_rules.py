"""Raw SQL meets each constraint by its name, also where no service could break it, and each change of an audited
table has its entry. All of them cost many seconds, so `make test` runs a few."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.tokens import CreateToken
from pools.models import (
    AuditEntry,
    ConfigRevision,
    GpuAllocation,
    IdempotencyRecord,
    InboxNotice,
    InboxRead,
    Node,
    Notice,
    NoticeCondition,
    NoticeTarget,
    SavedView,
    SignOnIdentity,
    User,
)
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.models import (
    BeatLease,
    Bypass,
    ClusterState,
    GpuControllerLease,
    Group,
    HistoryReplay,
    NodeState,
    PromiseCount,
    PromisedStart,
    QueueDrift,
    QueueGuard,
    QueueSync,
    RefusedFile,
    SchedulerDifference,
    ShownEffect,
    StartReservation,
    StuckGroup,
    SuspectNode,
    UsageProgress,
    WebhookInstallation,
    WorkflowConfig,
)
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.agent_harness import kubernetes_backend

pytestmark = pytest.mark.django_db

NAME = "name = 'Bad_Name'"
DECISION = (
    "time, backend_id, root_pool_id, pool_id, workflow_id, group_id, tasks, nodes, gpus, message,"
    " message_without_beneficiary"
)
DECIDED = f"INSERT INTO scheduling_decision ({DECISION}, action) SELECT {DECISION},"
UNPROTECTED = "SET LOCAL session_replication_role = replica;"  # triggers forbid the change before the constraint can
CHECKS = {
    "removed_user_is_inactive": "UPDATE pools_user SET is_removed = true, is_active = true",
    "backend_name_rule": f"UPDATE pools_backend SET {NAME}",
    "backend_namespace_rule": "UPDATE pools_backend SET namespace = 'Bad_Name'",
    "backend_victims_rule": "UPDATE pools_backend SET victims = 'oldest'",
    "backend_degraded_rule": "UPDATE pools_backend SET degraded = 'luck'",
    "node_shares_what_it_advertises": "UPDATE pools_node SET physical_gpus = 4",
    "suspect_after_several": "UPDATE scheduling_suspectnode SET failures = 1",
    "offline_request_is_offline": "UPDATE pools_backend SET offline_requested = true, offline = false",
    "cluster_has_one_credential": "UPDATE pools_kubernetessettings SET kubeconfig_file = 'x', sealed_kubeconfig = 'x'",
    "cluster_mode_known": "UPDATE pools_kubernetessettings SET mode = 'watch'",
    "cohort_name_rule": f"UPDATE pools_cohort SET {NAME}",
    "cohort_weight": "UPDATE pools_cohort SET weight = -1",
    "cohort_named_is_bare": "UPDATE pools_cohort SET explicit = false, weight = 2",
    "pool_limits_need_cohort": "UPDATE pools_pool SET borrowing_limit = 1 WHERE name = 'team'",
    "pool_no_negative_limit": "UPDATE pools_pool SET borrowing_limit = -1 WHERE name = 'lender'",
    "pool_lends_what_it_has": "UPDATE pools_pool SET lending_limit = 99 WHERE name = 'lender'",
    "pool_archived_has_no_cohort": "UPDATE pools_pool SET archived = true WHERE name = 'lender'",
    "temporary_quota_is_a_raise": "UPDATE pools_pool SET quota_after = 99, quota_until = now() WHERE name = 'team--a'",
    "deadline_is_of_a_drain": "UPDATE pools_pool SET drain_by = now() WHERE name = 'team--a'",
    "flavor_usage_never_negative": f"{UNPROTECTED} INSERT INTO pools_flavorusage (pool_id, flavor, used, total_usage,"
    " committed) SELECT id, 'h100', -1, 0, 0 FROM pools_pool",
    "usage_never_negative": f"{UNPROTECTED} UPDATE pools_leafusage SET used = -1",
    "one_usage_progress": "UPDATE scheduling_usageprogress SET id = 2",
    "gpu_quota_namespace_rule": "UPDATE pools_gpuquota SET namespace = 'Bad_Name'",
    "workflow_config_is_one_row": "UPDATE scheduling_workflowconfig SET id = 2",
    "drain_interval_range": "UPDATE scheduling_workflowconfig SET subpool_drain_interval_minutes = 0",
    "max_retry_range": "UPDATE scheduling_workflowconfig SET max_retry_per_task = 101",
    "decision_names_for_whom": f"{DECIDED} 'move' FROM scheduling_decision LIMIT 1",
    "cycle_planned_something": f"{UNPROTECTED} UPDATE scheduling_schedulingcycle SET units = 0",
    "guard_mode_known": "UPDATE scheduling_queueguard SET mode = 'x'",
    "webhook_has_one_address": "UPDATE scheduling_webhookinstallation SET url = '', service = ''",
    "agent_lease_is_complete": "UPDATE scheduling_clusterstate SET lease_expires_at = now()",
    "sync_lease_is_complete": "UPDATE scheduling_queuesync SET lease_expires_at = now()",
    "replay_ends_with_its_status": "UPDATE scheduling_historyreplay SET ended_at = now()",
    "replay_answer_when_completed": "UPDATE scheduling_historyreplay SET answer = '{}'",
    "beat_lease_is_complete": "UPDATE scheduling_beatlease SET lease_expires_at = now()",
    "gpu_controller_lease_is_complete": "UPDATE scheduling_gpucontrollerlease SET lease_expires_at = now()",
    "placed_with_its_nodes": "UPDATE scheduling_startreservation SET placed_at = now()",
    "stuck_kind_known": "UPDATE scheduling_stuckgroup SET kind = 'x'",
    "effect_ends_truly": "UPDATE scheduling_showneffect SET outcome = 'kept', ended_at = now(), found_lost = '[1]'",
    "difference_kind_known": "INSERT INTO scheduling_schedulerdifference (time, kind, backend_id, pool_id, workflow_id,"
    " gpus, rule, message, instead) SELECT time, 'x', backend_id, pool_id, workflow_id, gpus, rule, message, instead"
    " FROM scheduling_schedulerdifference",
    "promise_ends_truly": "UPDATE scheduling_promisedstart SET outcome = 'broken', ended_at = latest_start",
}
UNIQUE = {
    "role_once_per_user": "pools_roleassignment",
    "token_name_once_per_owner": "pools_accesstoken",
    "saved_view_name_once": "pools_savedview",
    "subject_once_per_issuer": "pools_signonidentity",
    "revision_once_per_type": "pools_configrevision",
    "idempotency_key_once": "pools_idempotencyrecord",
    "gpu_allocation_live_once": "pools_gpuallocation",
    "node_unique_in_backend": "pools_node",
    "notice_once_per_target": "pools_notice",
    "notice_condition_once": "pools_noticecondition",
    "inbox_news_once": "pools_inboxnotice",
    "inbox_read_once": "pools_inboxread",
    "group_name_once_per_workflow": "scheduling_group",
    "task_attempt_once": "scheduling_task",
    "bypass_once_per_caller": "scheduling_bypass",
    "drift_open_once": "scheduling_queuedrift",
    "one_replay_of_a_user": "scheduling_historyreplay",
    "one_cycle_at_a_time": "scheduling_schedulingcycle",
    "promise_open_once": "scheduling_promisedstart",
    "promise_count_once": "scheduling_promisecount",
}
AUDITED = {
    "pools_user": "is_active = NOT is_active",
    "pools_roleassignment": "assigned_by = 'x'",
    "pools_accesstoken": "description = 'x'",
    "pools_signonidentity": "username = 'x'",
    "pools_backend": "offline = NOT offline",
    "pools_node": "gpus = gpus + 1",
    "pools_cohort": "weight = 7",
    "pools_pool": "maximum = 99 WHERE name = 'team'",
    "pools_kubernetessettings": "server = 'x'",
    "pools_gpuquota": "source = 'x'",
    "pools_gpuallocation": "workload = 'x'",
    "pools_noticetarget": "is_enabled = NOT is_enabled",
    "pools_noticecondition": "message = 'x'",
    "scheduling_workflow": "cancelled_by = 'x'",
    "scheduling_workflowconfig": "max_retry_per_task = 7",
    "scheduling_refusedfile": "faults = 9",
    "scheduling_queueguard": "mode = 'off'",
    "scheduling_suspectnode": "failures = failures + 1",
    "scheduling_webhookinstallation": "repair = 'x'",
}
HISTORY = {
    "scheduling_workflow:never_deleted": "DELETE FROM scheduling_workflow",
    "scheduling_group:never_deleted": "DELETE FROM scheduling_group",
    "scheduling_waitspan:append_only": "UPDATE scheduling_waitspan SET gpus = 1",
    "scheduling_schedulingcycle:append_only": "UPDATE scheduling_schedulingcycle SET units = 9",
    "scheduling_schedulerdifference:append_only": "UPDATE scheduling_schedulerdifference SET gpus = 9",
    "scheduling_showneffect:effect_stands": "UPDATE scheduling_showneffect SET lost = '[1]'",
    "scheduling_promisedstart:promise_stands": "UPDATE scheduling_promisedstart SET latest_start = 'infinity'",
}
NOTED = "SELECT current_setting('osmo.changes', true)"
TOKENS = "SELECT array_agg(stamp ORDER BY stamp) FROM pools_changetoken"
COUNTED = "SELECT sum(used), sum(total_usage) FROM pools_leafusage"
GPU_WORKERS = "SELECT sum(workers + assumed_workers) FROM pools_gpuusage"
WAITS = "SELECT count(*) FROM scheduling_waitspan"
LATE = "SELECT count(*) FROM scheduling_lateusage"
PROMISES = "SELECT sum(count) FROM scheduling_promisecount"
ENTRIES = "SELECT count(*) FROM pools_auditentry"
CAPACITY = "SELECT count(*) FROM scheduling_quotaspan"
START_AGAIN = """UPDATE scheduling_group SET start_time = NULL, ready_at = now();
    UPDATE scheduling_group SET start_time = now()"""
OFFLINE = "SELECT count(*) FROM scheduling_offlinespan"
PREEMPTION = f"{DECIDED} 'preempt' FROM scheduling_decision LIMIT 1"
QUOTA_OF_A_POOL = 'UPDATE pools_gpuquota SET spec = spec || \'{"total": {"maxWorkers": 8}}\''
ANOTHER_GROUP = """
    INSERT INTO scheduling_group (uuid, workflow_id, name, position, upstream, status, gpus, failure_message)
    SELECT gen_random_uuid(), workflow_id, 'another', 9, '[]', 'COMPLETED', 0, '' FROM scheduling_group LIMIT 1"""
ANOTHER_TASK = """
    CREATE TEMP TABLE another ON COMMIT DROP AS SELECT * FROM scheduling_task LIMIT 1;
    UPDATE another SET uuid = gen_random_uuid(), retry_id = 99;
    INSERT INTO scheduling_task SELECT * FROM another"""
EFFECTS = {
    "pools_pool:move_tokens": ("UPDATE pools_pool SET maximum = 99 WHERE name = 'team'", NOTED),
    "pools_cohort:move_tokens": ("UPDATE pools_cohort SET weight = 7", NOTED),
    "pools_backend:move_tokens": ("UPDATE pools_backend SET description = 'x'", NOTED),
    "pools_node:move_tokens": ("UPDATE pools_node SET gpus = gpus + 1", NOTED),
    "pools_kubernetessettings:move_tokens": ("UPDATE pools_kubernetessettings SET server = 'x'", NOTED),
    "pools_gpuquota:move_tokens": (QUOTA_OF_A_POOL, NOTED),
    "pools_gpuusage:move_tokens": ("UPDATE pools_gpuallocation SET state = 'released'", NOTED),
    "scheduling_nodestate:record_offline": ("UPDATE scheduling_nodestate SET ready = false", OFFLINE),
    "scheduling_group:move_tokens_of_changed": ("UPDATE scheduling_group SET status = 'COMPLETED'", NOTED),
    "pools_leafusage:move_tokens": ("UPDATE pools_reservation SET needed_gpus = 99", TOKENS),
    "scheduling_nodestate:move_tokens": ("UPDATE scheduling_nodestate SET ready = false", TOKENS),
    "scheduling_startreservation:move_tokens": ("DELETE FROM scheduling_startreservation", TOKENS),
    "scheduling_task:move_tokens_of_changed": ("UPDATE scheduling_task SET pod_ip = 'x'", TOKENS),
    "scheduling_workflow:move_tokens_of_changed": ("UPDATE scheduling_workflow SET cancelled_by = 'x'", TOKENS),
    "scheduling_group:move_tokens_of_new": (ANOTHER_GROUP, TOKENS),
    "scheduling_task:move_tokens_of_new": (ANOTHER_TASK, TOKENS),
    "pools_reservation:count_update": ("UPDATE pools_reservation SET priority = 'LOW'", COUNTED),
    "pools_auditentry:record_capacity": ("UPDATE pools_pool SET guarantee = 99 WHERE name = 'team'", CAPACITY),
    "scheduling_task:record_late": ("UPDATE scheduling_task SET start_time = now() - interval '3 hours'", LATE),
    "scheduling_group:record_wait": (START_AGAIN, WAITS),
    "scheduling_decision:audit": (PREEMPTION, ENTRIES),
    "scheduling_promisedstart:count_promises": (
        "UPDATE scheduling_promisedstart SET outcome = 'kept', ended_at = now()",
        PROMISES,
    ),
}
"""By trigger: a statement, and what the trigger changes after it."""


def sampled(names: Iterable[str], *often: str) -> list[object]:
    """The names; all but these are nightly."""
    return [pytest.param(name, marks=[] if name in often else pytest.mark.nightly) for name in names]


@pytest.fixture
def filled() -> None:
    """A row in every table below."""
    world.apply_change(PutCohort(name="corp", body={"quotas": []}))
    root = world.make_pool("team", 100, a=30)
    with transaction.atomic(), connection.cursor() as cursor:
        world.make_pool("lender", 8)
        cursor.execute(
            "UPDATE pools_pool SET cohort_id = (SELECT id FROM pools_cohort WHERE name = 'corp') WHERE name = 'lender'"
        )
    admin = world.admin_actor()
    world.submit_workflow(admin, "team--a", 8, name="runs")
    assert root.backend_id is not None
    reconcile_backend(root.backend_id)
    world.apply_change(CreateToken(owner=admin.username, name="laptop"), actor=admin)
    owner = User.objects.get(username=admin.username)
    SavedView.objects.create(owner=owner, page="pools", name="mine", query="q=x")
    HistoryReplay.objects.create(user=owner, backend_id=1, question={}, reads_all=True, pools=[])
    SignOnIdentity.objects.create(user=owner, provider="corp", issuer="https://corp.example", subject="s-1")
    with connection.cursor() as cursor:
        path, value = "{gpu_quota_namespace}", '"ns"'
        cursor.execute("UPDATE pools_pool SET config = jsonb_set(config, %s, %s) WHERE name = 'team'", [path, value])
    target = NoticeTarget.objects.create(name="ops", channel="webhook")
    Notice.objects.create(target=target, entry=1, kind="job_late", subject="job/x", title="x", text="x")
    RefusedFile.objects.create(source="config-file", path="config.yaml", digest="x", faults=1, message="It is wrong.")
    NoticeCondition.objects.create(kind="job_late", subject="job/x", message="It is late.")
    news = InboxNotice.objects.create(entry=1, kind="job_late", subject="job/x", title="x", text="x")
    InboxRead._default_manager.create(person=owner, notice=news)
    world.apply_change(PutGpuQuota(namespace="ns", spec={"total": {"maxWorkers": 9}}))
    cluster = kubernetes_backend("osmo")
    for model in (QueueGuard, ClusterState, QueueSync, GpuControllerLease):
        model._default_manager.create(backend=cluster)
    WebhookInstallation.objects.create(backend=cluster, url="https://hooks.example")
    Bypass.objects.create(backend=cluster, kind="Pod", code="not_ours", message="x")
    QueueDrift.objects.create(backend=cluster, queue="q", field="f", author="x")
    WorkflowConfig.objects.get_or_create(pk=1)
    BeatLease.objects.get_or_create(pk=1)
    UsageProgress.objects.get_or_create(pk=1)
    NodeState.objects.create(node=Node.objects.order_by("pk")[0])
    group, now = Group.objects.get(), timezone.now()
    PromisedStart.objects.create(
        group=group, backend_id=1, gang="runs-1", waits_since=now, made_at=now, latest_start=now + timedelta(days=1)
    )
    ShownEffect.objects.create(backend_id=1, title="x", shown_at=now, made_at=now, tokens={}, lost=[], started=[])
    SchedulerDifference.objects.create(
        backend_id=root.backend_id, pool=root, workflow=group.workflow, time=now, kind="started", gpus=1, message="x"
    )
    PromiseCount.objects.create(backend_id=1, outcome="kept", count=1)
    StartReservation.objects.create(group=group, backend_id=root.backend_id, since=now)
    SuspectNode.objects.create(node=Node.objects.filter(backend=root.backend_id)[0], failures=3, since=now)
    StuckGroup.objects.create(
        group=group, backend_id=root.backend_id, gang="runs-1", kind=StuckKind.IDLE_CLUSTER, since=now
    )
    GpuAllocation.objects.create(namespace="ns", name="a")
    ConfigRevision.objects.create(config_type="POOL", revision=1000, username="x", audit_id=1)
    IdempotencyRecord.objects.create(user_id=1, token_id=1, address="/x", key="k", fingerprint="f")
    world.check_deferred_constraints()


def run_at_commit(statement: str) -> None:
    """Run a statement up to the checks of its commit."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def broken_rule(statement: str) -> str | None:
    """The name of the constraint that refuses a statement."""
    with pytest.raises(IntegrityError) as refused:
        run_at_commit(statement)
    name: str | None = refused.value.__cause__.diag.constraint_name  # type: ignore[union-attr]
    return name


@pytest.mark.parametrize("name", sampled(CHECKS, "offline_request_is_offline", "agent_lease_is_complete"))
def test_a_wrong_value_is_refused(filled: None, name: str) -> None:
    assert broken_rule(CHECKS[name]) == name


@pytest.mark.parametrize("name", sampled(UNIQUE, "task_attempt_once"))
def test_a_second_row_is_refused(filled: None, name: str) -> None:
    table = UNIQUE[name]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(quote_ident(attname), ', '), string_agg(CASE WHEN attname IN ('uuid', 'message_id') THEN"
            " 'gen_random_uuid()' WHEN attname = 'digest' THEN quote_literal('another')"
            " ELSE quote_ident(attname) END, ', ')"
            " FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id'",
            [table],
        )
        columns, values = cursor.fetchone()
    assert broken_rule(f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} LIMIT 1") == name


@pytest.mark.parametrize("table", sampled(AUDITED, "pools_pool"))
def test_raw_sql_is_audited(filled: None, table: str) -> None:
    before = AuditEntry.objects.count()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {AUDITED[table]}")
        assert cursor.rowcount > 0
        changed = cursor.rowcount
    assert AuditEntry.objects.count() == before + changed


@pytest.mark.parametrize("rule", sampled(HISTORY))
def test_history_stays(filled: None, rule: str) -> None:
    assert broken_rule(HISTORY[rule]) == rule.partition(":")[2]


def test_the_digest_of_a_token_is_final(filled: None) -> None:
    with pytest.raises(DatabaseError, match='Cannot update of "digest"'):
        run_at_commit("UPDATE pools_accesstoken SET digest = 'another'")


def read_one(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()


@pytest.mark.parametrize("rule", sampled(EFFECTS))
def test_what_follows_from_a_raw_change_is_written(filled: None, rule: str) -> None:
    statement, query = EFFECTS[rule]
    run_at_commit("SELECT set_config('osmo.changes', '', true)")  # what the rows above have noted
    before = read_one(query)
    run_at_commit(statement)
    assert read_one(query) != before


def test_a_token_of_a_token_does_not_live_longer(filled: None) -> None:
    admin = world.admin_actor()
    world.apply_change(CreateToken(owner=admin.username, name="phone"), actor=admin)
    child = "UPDATE pools_accesstoken SET expires_at = now() + interval '{days} days',"
    parent = "parent_id = (SELECT id FROM pools_accesstoken WHERE name = 'laptop') WHERE name = 'phone'"
    run_at_commit(
        f"UPDATE pools_accesstoken SET expires_at = now() + interval '5 days'; {child.format(days=5)} {parent}"
    )
    assert broken_rule(f"{child.format(days=6)} {parent}") == "token_within_parent"


def test_a_parent_has_a_subpool_of_one_name_once(filled: None) -> None:
    """Also while the name of a row does not yet follow its parent, which is checked at the end of the transaction."""
    another = "INSERT INTO pools_pool ({columns}) SELECT {values} FROM pools_pool WHERE name = 'team--a'"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(quote_ident(attname), ', '), string_agg(CASE attname WHEN 'name' THEN"
            " quote_literal('another') ELSE quote_ident(attname) END, ', ') FROM pg_attribute"
            " WHERE attrelid = 'pools_pool'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id'"
        )
        columns, values = cursor.fetchone()
    assert broken_rule(another.format(columns=columns, values=values)) == "subpool_name_once_per_parent"


def test_a_deleted_backend_leaves_no_token() -> None:
    gone = world.make_backend("gone").pk
    tokens = f"SELECT count(*) FROM pools_changetoken WHERE subject = 'backend/{gone}'"
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM pools_node WHERE backend_id = {gone}")
    assert read_one(tokens) > (0,)
    run_at_commit(f"DELETE FROM pools_backend WHERE id = {gone}")
    assert read_one(tokens) == (0,)


def test_a_deleted_pool_leaves_no_counters() -> None:
    gone = world.make_pool("gone", 8).pk
    run_at_commit("DELETE FROM pools_pool WHERE name = 'gone'")
    assert read_one(f"SELECT count(*) FROM pools_leafusage WHERE pool_id = {gone}") == (0,)


def test_ended_work_is_counted_off(filled: None) -> None:
    assert read_one(COUNTED) == (8, 8)
    world.apply_change(EndWorkflow(name="runs-1", status=EndStatus.COMPLETED), actor=world.admin_actor())
    assert read_one(COUNTED) == (0, 0)


def test_a_deleted_gpu_worker_is_counted_off(filled: None) -> None:
    """Even if a superuser switches off the rule that a worker is released first."""
    assert read_one(GPU_WORKERS) > (0,)
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgname LIKE 'pgtrigger_release_first%'")
        ((trigger,),) = cursor.fetchall()
        cursor.execute(f"ALTER TABLE pools_gpuallocation DISABLE TRIGGER {trigger}")
        cursor.execute("DELETE FROM pools_gpuallocation")
    assert read_one(GPU_WORKERS) == (0,)


def test_new_work_is_noted(filled: None) -> None:
    run_at_commit("SELECT set_config('osmo.changes', '', true)")
    world.submit_workflow(world.admin_actor(), "team--a", 8, name="more")
    assert "submitted:" in read_one(NOTED)[0]


def test_a_pool_has_its_counters() -> None:
    world.make_pool("fresh", 8)
    query = "SELECT count(*) FROM pools_leafusage WHERE pool_id = (SELECT id FROM pools_pool WHERE name = 'fresh')"
    assert read_one(query) == (1,)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("live_work_once", "pools_livework (owner, pool_id, workflows) SELECT 'someone', 1, 1"),
        (
            "flavor_usage_once",
            "pools_flavorusage (pool_id, flavor, used, total_usage, committed) SELECT 1, 'x', 0, 0, 0",
        ),
    ],
    ids=["live_work_once", "flavor_usage_once"],
)
def test_a_second_counter_is_refused(name: str, row: str) -> None:
    with world.triggers_off():
        assert broken_rule(f"INSERT INTO {row} FROM generate_series(1, 2)") == name


def test_a_transaction_that_watches_notes_its_own_moves() -> None:
    moves = "SELECT current_setting('osmo.own_moves')"
    run_at_commit("SELECT set_config('osmo.own_moves', ',', true)")
    assert read_one(moves) == (",",)
    world.make_pool("fresh", 8)
    assert read_one(moves) > (",",)
