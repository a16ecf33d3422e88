"""Raw SQL meets each constraint by its name, also where no service could break it, and each change of an audited
table has its entry. All of them cost many seconds, so `make test` runs a few."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from pools.domain.roles import SYSTEM
from pools.models import AuditEntry
from pools.services.access_tokens import create_token
from pools.services.cohorts import put_cohort
from pools.services.gpu_quotas import put_gpu_quota
from scheduling.models import (
    Bypass,
    ClusterState,
    GpuControllerLease,
    QueueDrift,
    QueueGuard,
    QueueSync,
    WebhookInstallation,
    WorkflowConfig,
)
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import factories
from tests.support.agent_harness import kubernetes_backend

pytestmark = pytest.mark.django_db

NAME = "name = 'Bad_Name'"
DECISION = (
    "time, backend_id, root_pool_id, pool_id, workflow_id, group_id, tasks, nodes, gpus, message,"
    " message_without_beneficiary"
)
CHECKS = {
    "backend_name_rule": f"UPDATE pools_backend SET {NAME}",
    "backend_namespace_rule": "UPDATE pools_backend SET namespace = 'Bad_Name'",
    "offline_request_is_offline": "UPDATE pools_backend SET offline_requested = true, offline = false",
    "cluster_has_one_credential": "UPDATE pools_kubernetessettings SET kubeconfig_file = 'x', sealed_kubeconfig = 'x'",
    "cohort_name_rule": f"UPDATE pools_cohort SET {NAME}",
    "cohort_weight": "UPDATE pools_cohort SET weight = -1",
    "cohort_named_is_bare": "UPDATE pools_cohort SET explicit = false, weight = 2",
    "pool_limits_need_cohort": "UPDATE pools_pool SET borrowing_limit = 1 WHERE name = 'team'",
    "pool_no_negative_limit": "UPDATE pools_pool SET borrowing_limit = -1 WHERE name = 'lender'",
    "pool_lends_what_it_has": "UPDATE pools_pool SET lending_limit = 99 WHERE name = 'lender'",
    "pool_archived_has_no_cohort": "UPDATE pools_pool SET archived = true WHERE name = 'lender'",
    "gpu_quota_namespace_rule": "UPDATE pools_gpuquota SET namespace = 'Bad_Name'",
    "workflow_config_is_one_row": "UPDATE scheduling_workflowconfig SET id = 2",
    "drain_interval_range": "UPDATE scheduling_workflowconfig SET subpool_drain_interval_minutes = 0",
    "max_retry_range": "UPDATE scheduling_workflowconfig SET max_retry_per_task = 101",
    "decision_names_for_whom": f"INSERT INTO scheduling_decision ({DECISION}, action) SELECT {DECISION}, 'move'"
    " FROM scheduling_decision LIMIT 1",
    "guard_mode_known": "UPDATE scheduling_queueguard SET mode = 'x'",
    "webhook_has_one_address": "UPDATE scheduling_webhookinstallation SET url = '', service = ''",
    "agent_lease_is_complete": "UPDATE scheduling_clusterstate SET lease_expires_at = now()",
    "sync_lease_is_complete": "UPDATE scheduling_queuesync SET lease_expires_at = now()",
    "gpu_controller_lease_is_complete": "UPDATE scheduling_gpucontrollerlease SET lease_expires_at = now()",
}
UNIQUE = {
    "role_once_per_user": "pools_roleassignment",
    "token_name_once_per_owner": "pools_accesstoken",
    "node_unique_in_backend": "pools_node",
    "group_name_once_per_workflow": "scheduling_group",
    "task_attempt_once": "scheduling_task",
    "bypass_once_per_caller": "scheduling_bypass",
    "drift_open_once": "scheduling_queuedrift",
}
AUDITED = {
    "pools_user": "is_active = NOT is_active",
    "pools_roleassignment": "assigned_by = 'x'",
    "pools_accesstoken": "description = 'x'",
    "pools_backend": "offline = NOT offline",
    "pools_node": "gpus = gpus + 1",
    "pools_cohort": "weight = 7",
    "pools_pool": "maximum = 99 WHERE name = 'team'",
    "pools_kubernetessettings": "server = 'x'",
    "pools_gpuquota": "source = 'x'",
    "scheduling_workflowconfig": "max_retry_per_task = 7",
    "scheduling_queueguard": "mode = 'off'",
    "scheduling_webhookinstallation": "repair = 'x'",
}


def sampled(names: dict[str, str], *often: str) -> list[object]:
    """The names; all but these are nightly."""
    return [pytest.param(name, marks=[] if name in often else pytest.mark.nightly) for name in names]


@pytest.fixture
def filled() -> None:
    """A row in every table below."""
    put_cohort(actor=SYSTEM, name="corp", body={"quotas": []})
    root = factories.make_pool("team", 100, a=30)
    with transaction.atomic(), connection.cursor() as cursor:
        factories.make_pool("lender", 8)
        cursor.execute(
            "UPDATE pools_pool SET cohort_id = (SELECT id FROM pools_cohort WHERE name = 'corp') WHERE name = 'lender'"
        )
    admin = factories.admin_actor()
    factories.submit_workflow(admin, "team--a", 8, name="runs")
    assert root.backend_id is not None
    reconcile_backend(root.backend_id)
    create_token(actor=admin, owner=admin.username, name="laptop")
    put_gpu_quota(actor=SYSTEM, namespace="ns", spec={"total": {"maxWorkers": 9}})
    cluster = kubernetes_backend("osmo")
    for model in (QueueGuard, ClusterState, QueueSync, GpuControllerLease):
        model._default_manager.create(backend=cluster)
    WebhookInstallation.objects.create(backend=cluster, url="https://hooks.example")
    Bypass.objects.create(backend=cluster, kind="Pod", code="not_ours", message="x")
    QueueDrift.objects.create(backend=cluster, queue="q", field="f", author="x")
    WorkflowConfig.objects.get_or_create(pk=1)
    factories.check_deferred_constraints()


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
            "SELECT string_agg(quote_ident(attname), ', '), string_agg(CASE attname WHEN 'uuid' THEN"
            " 'gen_random_uuid()' WHEN 'digest' THEN quote_literal('another') ELSE quote_ident(attname) END, ', ')"
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
