"""Tables, columns and constraints get the names that code and documentation use. All rows stay."""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

_RENAMED_TABLES = {
    "scheduling_backendrest": "scheduling_backendschedulingstate",
    "scheduling_backendmove": "scheduling_backenddirtymark",
    "scheduling_gpukeeping": "scheduling_gpucontrollerlease",
    "scheduling_machinestate": "scheduling_nodestate",
}


def _rename_parts(old: str, new: str) -> str:
    """SQL that gives the constraints, indexes and sequences of a renamed table the prefix of its new name."""
    return f"""
        DO $$
        DECLARE part record;
        BEGIN
            FOR part IN SELECT conname FROM pg_constraint
                WHERE conrelid = '{new}'::regclass AND starts_with(conname, '{old}_') LOOP
                EXECUTE format('ALTER TABLE {new} RENAME CONSTRAINT %I TO %I', part.conname,
                    left(replace(part.conname, '{old}', '{new}'), 63));
            END LOOP;
            FOR part IN SELECT relname FROM pg_class
                WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{new}'::regclass)
                    AND relkind IN ('i', 'S') AND starts_with(relname, '{old}_') LOOP
                EXECUTE format('ALTER TABLE %I RENAME TO %I', part.relname,
                    left(replace(part.relname, '{old}', '{new}'), 63));
            END LOOP;
        END $$
    """


def _lease_is_complete(name: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=models.Q(
            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
            _connector="OR",
        ),
        name=name,
        violation_error_message="A lease has a holder and an expiry.",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0009_field_words"),
        ("scheduling", "0012_gpu_keeping"),
    ]

    operations = [
        migrations.RenameModel("BackendRest", "BackendSchedulingState"),
        migrations.RenameModel("BackendMove", "BackendDirtyMark"),
        migrations.RenameModel("GpuKeeping", "GpuControllerLease"),
        migrations.RenameModel("MachineState", "NodeState"),
        *(migrations.RunSQL(_rename_parts(old, new), migrations.RunSQL.noop) for old, new in _RENAMED_TABLES.items()),
        migrations.RenameField("backendschedulingstate", "looked_at", "full_cycle_at"),
        migrations.RenameField("backendschedulingstate", "seconds", "full_cycle_seconds"),
        migrations.RenameField("backendschedulingstate", "owes", "full_cycle_due"),
        migrations.RenameField("backendschedulingstate", "waits_outside", "waits_for_external"),
        migrations.RemoveConstraint("clusterstate", "agent_lease_is_whole"),
        migrations.RemoveConstraint("queuesync", "sync_lease_is_whole"),
        migrations.RemoveConstraint("gpucontrollerlease", "gpu_keeper_lease_is_whole"),
        migrations.RenameField("clusterstate", "holder", "lease_holder"),
        migrations.RenameField("clusterstate", "held_until", "lease_expires_at"),
        migrations.RenameField("clusterstate", "fault", "error"),
        migrations.RenameField("queuesync", "holder", "lease_holder"),
        migrations.RenameField("queuesync", "held_until", "lease_expires_at"),
        migrations.RenameField("queuesync", "next_try_at", "retry_at"),
        migrations.RenameField("queuesync", "objects_seen", "objects_observed"),
        migrations.RenameField("queuesync", "connection", "connection_test"),
        migrations.RenameField("queuesync", "connection_asked_at", "connection_test_requested_at"),
        migrations.RenameField("queuesync", "connection_at", "connection_tested_at"),
        migrations.RenameField("gpucontrollerlease", "holder", "lease_holder"),
        migrations.RenameField("gpucontrollerlease", "held_until", "lease_expires_at"),
        migrations.AddConstraint("clusterstate", _lease_is_complete("agent_lease_is_complete")),
        migrations.AddConstraint("queuesync", _lease_is_complete("sync_lease_is_complete")),
        migrations.AddConstraint("gpucontrollerlease", _lease_is_complete("gpu_controller_lease_is_complete")),
        migrations.RemoveConstraint("queuedrift", "drift_open_once"),
        migrations.RenameField("queuedrift", "healed_at", "reapplied_at"),
        migrations.AddConstraint(
            "queuedrift",
            models.UniqueConstraint(
                condition=models.Q(("reapplied_at__isnull", True)),
                fields=("backend", "queue", "field"),
                name="drift_open_once",
            ),
        ),
        migrations.RenameField("bypass", "tries", "attempts"),
        migrations.RenameField("decision", "sentence", "message"),
        migrations.RenameField("decision", "sentence_without_name", "message_without_beneficiary"),
        migrations.RenameField("task", "cleared_at", "admitted_at"),
        migrations.RunSQL(
            'ALTER TABLE scheduling_task RENAME CONSTRAINT "task_try_once" TO "task_attempt_once"',
            'ALTER TABLE scheduling_task RENAME CONSTRAINT "task_attempt_once" TO "task_try_once"',
            state_operations=[
                migrations.RemoveConstraint("task", "task_try_once"),
                migrations.AddConstraint(
                    "task",
                    models.UniqueConstraint(fields=("group", "name", "retry_id"), name="task_attempt_once"),
                ),
            ],
        ),
        migrations.AlterModelOptions(
            name="workflowconfig",
            options={"verbose_name": "scheduler settings", "verbose_name_plural": "scheduler settings"},
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="decision",
            name="append_only",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="decision",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="queueguard",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="queueguard",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="workflow",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="workflow",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="workflowconfig",
            name="audit",
        ),
        migrations.AlterField(
            model_name="gpucontrollerlease",
            name="backend",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name="gpu_controller_lease",
                serialize=False,
                to="pools.backend",
            ),
        ),
        migrations.AlterField(
            model_name="queueguard",
            name="mode",
            field=models.TextField(
                choices=[
                    ("off", "off: allow everything"),
                    ("audit", "audit: allow, and record requests that enforce would refuse"),
                    ("enforce", "enforce: refuse"),
                ],
                default="audit",
            ),
        ),
        migrations.AlterField(
            model_name="queuesync",
            name="message",
            field=models.TextField(default="The queues of this cluster were not synced yet."),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'DELETE' AND OLD.time < now() - interval '1 day' THEN\n            RETURN OLD;\n        END IF;\n        RAISE EXCEPTION 'Decisions are history: they cannot be changed, nor deleted while recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;\n    ",
                    hash="9b4817fb16e870379d7a04f766996e5a27c43f71",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_4f202",
                    table="scheduling_decision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of decisions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="3796e7c12a5539e38fe68b636e708f1bd383ea67",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_fd84d",
                    table="scheduling_decision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="queueguard",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'webhook.created' WHEN 'DELETE' THEN 'webhook.deleted' ELSE 'webhook.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'webhook/' || (SELECT name FROM pools_backend WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="0fae435b0fbeda5747e57d8063d967301fd5173e",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_5649f",
                    table="scheduling_queueguard",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="queueguard",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of webhook settings cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="d0a4c3fa2af34a958e159e96492aa80158b5592f",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_d52ff",
                    table="scheduling_queueguard",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'INSERT' THEN 'workflow.submitted' WHEN TG_OP = 'DELETE' THEN 'workflow.deleted' WHEN NEW.status = OLD.status THEN 'workflow.updated' WHEN NEW.status = 'FAILED_CANCELED' THEN 'workflow.canceled' WHEN NEW.status = 'RUNNING' THEN 'workflow.started' WHEN NEW.status = 'PENDING' THEN 'workflow.waiting' ELSE 'workflow.ended' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'workflow/' || COALESCE(NEW.name, OLD.name), before_row - ARRAY['spec', 'template_spec']::text[] || jsonb_build_object('pool', (SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id))), after_row - ARRAY['spec', 'template_spec']::text[] || jsonb_build_object('pool', (SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.root_pool_id, OLD.root_pool_id), (SELECT username FROM pools_user WHERE id = COALESCE(NEW.submitted_by_id, OLD.submitted_by_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="59188c96b6459bde9a15f440751b5c6a7187e77d",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_4660e",
                    table="scheduling_workflow",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of workflows cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="dfb44f471dfc9d2750e8a610cef7c95db23d6d08",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_75f7d",
                    table="scheduling_workflow",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowconfig",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'workflow_config.created' WHEN 'UPDATE' THEN 'workflow_config.updated' ELSE 'workflow_config.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'config/workflow', before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="b913e16c4627b3061d11eca7a4f1fcb777a7b413",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_69818",
                    table="scheduling_workflowconfig",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AlterConstraint(
            model_name="decision",
            name="decision_names_for_whom",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("action__in", ["start", "give_up", "preempt"]), ("for_workflow__isnull", True)),
                    models.Q(("action__in", ["move", "reclaim", "preempt"]), ("for_workflow__isnull", False)),
                    _connector="OR",
                ),
                name="decision_names_for_whom",
                violation_error_message="A move or a reclaim has a beneficiary; a start or a give-up has none.",
            ),
        ),
    ]
