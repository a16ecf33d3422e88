"""All tables of the scheduler at once, for a new database: see `pools/migrations/0001_squashed_0025_approval_notices.py`.
The data that the replaced migrations change or add does not exist in a new database."""

import django.contrib.postgres.functions
import django.db.models.deletion
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
import pools.models.audit
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("scheduling", "0001_initial"),
        ("scheduling", "0002_elastic_gangs"),
        ("scheduling", "0003_decisions"),
        ("scheduling", "0004_queue_guard"),
        ("scheduling", "0005_exit_actions"),
        ("scheduling", "0006_clusters"),
        ("scheduling", "0007_queue_sync"),
        ("scheduling", "0008_agent_lease"),
        ("scheduling", "0009_backend_rest"),
        ("scheduling", "0010_cleared_tries"),
        ("scheduling", "0011_observed_decisions"),
        ("scheduling", "0012_gpu_keeping"),
        ("scheduling", "0013_field_words"),
        ("scheduling", "0014_change_triggers"),
        ("scheduling", "0015_periodic_task_names"),
        ("scheduling", "0016_live_by_user"),
        ("scheduling", "0017_raw_writes_refused"),
        ("scheduling", "0018_webhook_installation"),
        ("scheduling", "0019_cluster_lease"),
        ("scheduling", "0020_usage_record"),
        ("scheduling", "0021_work_counters"),
        ("scheduling", "0022_start_reservation"),
        ("scheduling", "0023_owned_by_git"),
        ("scheduling", "0024_start_forecast"),
        ("scheduling", "0025_work_indexes"),
        ("scheduling", "0026_preemptions_audited"),
        ("scheduling", "0027_refused_file"),
        ("scheduling", "0028_history_replay"),
        ("scheduling", "0029_usage_days"),
    ]

    initial = True

    dependencies = [
        ("django_celery_beat", "0019_alter_periodictasks_options"),
        ("pools", "0025_approval_notices"),
    ]

    operations = [
        migrations.CreateModel(
            name="BackendSchedulingState",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("snapshot", models.TextField()),
                ("full_cycle_at", models.DateTimeField()),
                ("full_cycle_seconds", models.FloatField()),
                ("full_cycle_due", models.BooleanField(default=False)),
                ("waits_for_external", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="LateUsage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="NodeState",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="state",
                        serialize=False,
                        to="pools.node",
                    ),
                ),
                ("ready", models.BooleanField(default=True)),
                ("conditions", models.JSONField(default=list)),
                ("labels", models.JSONField(default=dict)),
                ("taints", models.JSONField(default=list)),
                ("other_gpus", models.PositiveIntegerField(default=0)),
                ("other_cpu", models.PositiveIntegerField(default=0)),
                ("other_memory_bytes", models.PositiveBigIntegerField(default=0)),
                ("other_storage_bytes", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="RefusedFile",
            fields=[
                ("source", models.TextField(primary_key=True, serialize=False)),
                ("path", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("faults", models.PositiveIntegerField()),
                ("message", models.TextField()),
                ("refused_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["source"],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="refusedfile",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['refused_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['refused_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'DELETE' THEN 'config_file.accepted' ELSE 'config_file.refused' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'config_file/' || COALESCE(NEW.path, OLD.path), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="ea32be678c6c8c21c63d8d73c73ff3b970d683c7",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_ec7b4",
                    table="scheduling_refusedfile",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="refusedfile",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of refused files cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="34a23c9824228ad90557d6f550c0824687726ca3",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_23ff8",
                    table="scheduling_refusedfile",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="StartCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"),
                ),
                ("priority", models.TextField()),
                ("bucket", models.PositiveSmallIntegerField()),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("seconds", models.FloatField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "priority", "bucket"), name="start_count_once")
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="startcount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of start counts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="f71d30ab3e5bf3f906ae0210a4de4333bb93ab8b",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_cd0d9",
                    table="scheduling_startcount",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="StartForecast",
            fields=[
                ("group_id", models.UUIDField(primary_key=True, serialize=False)),
                ("backend_id", models.BigIntegerField()),
                ("made_at", models.DateTimeField()),
                ("p10", models.DateTimeField(null=True)),
                ("p50", models.DateTimeField(null=True)),
                ("p90", models.DateTimeField(null=True)),
                ("samples", models.PositiveIntegerField()),
                ("never", models.TextField(blank=True)),
                ("first_made_at", models.DateTimeField(null=True)),
                ("first_middle", models.FloatField(null=True)),
                ("first_spread", models.FloatField(null=True)),
                ("first_waits", models.JSONField(null=True)),
                ("wait", models.FloatField(null=True)),
                ("scored_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["scored_at"], name="start_forecast_scored"),
                    models.Index(
                        condition=models.Q(("scored_at__isnull", True)),
                        fields=["backend_id"],
                        name="start_forecast_open",
                    ),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="startforecast",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of start forecasts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e6186c5104476c559eb15236a248b40e88cae4d0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_7bc34",
                    table="scheduling_startforecast",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="UnmarkedReviews",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="unmarked_reviews",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("attempts", models.PositiveBigIntegerField(default=0)),
                ("first_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("last_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="UsageProgress",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("closed_until", models.DateTimeField(null=True)),
                ("pending_until", models.DateTimeField(null=True)),
                ("horizon", pools.models.audit.TransactionIdField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)),
                        name="one_usage_progress",
                        violation_error_message="There is one record of use.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WaitCauseChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group_id", models.UUIDField()),
                ("since", models.DateTimeField()),
                ("cause", models.TextField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["group_id", "since"], name="wait_cause_of_group"),
                    models.Index(fields=["since"], name="wait_cause_since"),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitcausechange",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of causes of waiting cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="50b076c587649407f6b0f2fcb2c6b2c70bff2f49",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_9336e",
                    table="scheduling_waitcausechange",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="WaitSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("group_id", models.UUIDField()),
                ("workflow_id", models.UUIDField()),
                ("gpus", models.BigIntegerField()),
                ("started", models.BooleanField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["until"], name="wait_span_ended"),
                    models.Index(fields=["workflow_id"], name="wait_span_of_workflow"),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitspan",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF TG_OP = 'DELETE' AND OLD.until < now() - interval '1 day' THEN\n                        RETURN OLD;\n                    END IF;\n                    RAISE EXCEPTION 'Waits are history: no change, and no deletion while recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;\n                ",
                    hash="72116dac9da5c50c9e4a528622d206d843e58f2b",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_ad72c",
                    table="scheduling_waitspan",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitspan",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of waits cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="ee373c123d6779e6d29c2af88e2e372db1ef37fb",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_f6de0",
                    table="scheduling_waitspan",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="waitspan",
            trigger=pgtrigger.compiler.Trigger(
                name="count_start",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.started)",
                    declare="DECLARE waited double precision;",
                    func="\n        waited := extract(epoch FROM NEW.until - NEW.since);\n        INSERT INTO scheduling_startcount AS kept (pool_id, priority, bucket, count, seconds)\n            SELECT work.pool_id, work.priority,\n                (SELECT count(*) FROM unnest(ARRAY[1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800]) AS bound WHERE bound < waited), 1, waited\n            FROM scheduling_workflow work WHERE work.uuid = NEW.workflow_id\n            ON CONFLICT (pool_id, priority, bucket)\n            DO UPDATE SET count = kept.count + 1, seconds = kept.seconds + excluded.seconds;\n        RETURN NULL;\n    ",
                    hash="aca288cc5fd8d5346d86b3d53018ff412fe3aaa4",
                    operation="INSERT",
                    pgid="pgtrigger_count_start_5d09b",
                    table="scheduling_waitspan",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="WebhookInstallation",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="webhook_installation",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("url", models.TextField(blank=True)),
                ("service", models.TextField(blank=True)),
                ("service_port", models.PositiveIntegerField(default=443)),
                ("authorities", models.TextField(blank=True)),
                ("fails_closed", models.BooleanField(null=True)),
                ("namespace_selector", models.JSONField(null=True)),
                ("removed_at", models.DateTimeField(null=True)),
                ("problem", models.TextField(blank=True)),
                ("checked_at", models.DateTimeField(null=True)),
                ("repair", models.TextField(blank=True)),
                ("repairs", models.PositiveIntegerField(default=0)),
                ("repaired_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("url", ""), ("service", ""), _connector="XOR"),
                        name="webhook_has_one_address",
                        violation_error_message="The webhooks of a cluster have a URL or a Service as their address.",
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="webhookinstallation",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['problem', 'checked_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['problem', 'checked_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'webhook.installed' WHEN 'DELETE' THEN 'webhook.deleted' ELSE CASE WHEN NEW.removed_at IS NOT NULL THEN 'webhook.removed' WHEN NEW.repairs > OLD.repairs THEN 'webhook.put_back' ELSE 'webhook.installed' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'webhook/' || (SELECT name FROM pools_backend WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="8d0e9ab7b9bda8c9ec77b61c1f47cb7caae0037d",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_8ba86",
                    table="scheduling_webhookinstallation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="webhookinstallation",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of installed webhooks cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="8ec7cd9fb4ca52b79220d6bc735a3ff6c50b3a84",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_781ce",
                    table="scheduling_webhookinstallation",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="Workflow",
            fields=[
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.TextField(unique=True)),
                ("spec_name", models.TextField()),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workflows",
                        to="pools.pool",
                    ),
                ),
                (
                    "root_pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "submitted_by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workflows",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "priority",
                    models.TextField(
                        choices=[
                            (
                                "HIGH",
                                "HIGH",
                            ),
                            (
                                "NORMAL",
                                "NORMAL",
                            ),
                            (
                                "LOW",
                                "LOW",
                            ),
                        ],
                        default="NORMAL",
                    ),
                ),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (
                                "PENDING",
                                "PENDING",
                            ),
                            (
                                "RUNNING",
                                "RUNNING",
                            ),
                            (
                                "WAITING",
                                "WAITING",
                            ),
                            (
                                "COMPLETED",
                                "COMPLETED",
                            ),
                            (
                                "FAILED",
                                "FAILED",
                            ),
                            (
                                "FAILED_SUBMISSION",
                                "FAILED_SUBMISSION",
                            ),
                            (
                                "FAILED_SERVER_ERROR",
                                "FAILED_SERVER_ERROR",
                            ),
                            (
                                "FAILED_EXEC_TIMEOUT",
                                "FAILED_EXEC_TIMEOUT",
                            ),
                            (
                                "FAILED_QUEUE_TIMEOUT",
                                "FAILED_QUEUE_TIMEOUT",
                            ),
                            (
                                "FAILED_CANCELED",
                                "FAILED_CANCELED",
                            ),
                            (
                                "FAILED_BACKEND_ERROR",
                                "FAILED_BACKEND_ERROR",
                            ),
                            (
                                "FAILED_IMAGE_PULL",
                                "FAILED_IMAGE_PULL",
                            ),
                            (
                                "FAILED_EVICTED",
                                "FAILED_EVICTED",
                            ),
                            (
                                "FAILED_START_ERROR",
                                "FAILED_START_ERROR",
                            ),
                            (
                                "FAILED_START_TIMEOUT",
                                "FAILED_START_TIMEOUT",
                            ),
                            (
                                "FAILED_PREEMPTED",
                                "FAILED_PREEMPTED",
                            ),
                        ],
                        default="PENDING",
                    ),
                ),
                ("failure_message", models.TextField(blank=True)),
                ("submit_time", models.DateTimeField()),
                ("start_time", models.DateTimeField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("exec_timeout", models.DurationField(null=True)),
                ("queue_timeout", models.DurationField(null=True)),
                ("simulated_runtime", models.DurationField(null=True)),
                ("labels", models.JSONField(default=dict)),
                ("env_vars", models.JSONField(default=dict)),
                ("tags", models.JSONField(default=list)),
                ("spec", models.TextField()),
                ("template_spec", models.TextField(blank=True)),
                ("warnings", models.JSONField(default=list)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="restarts",
                        to="scheduling.workflow",
                    ),
                ),
                ("cancelled_by", models.TextField(blank=True)),
                ("app_uuid", models.TextField(blank=True)),
                ("app_version", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-submit_time", "-name"],
                "indexes": [
                    models.Index(fields=["-submit_time", "-name"], name="workflow_newest"),
                    models.Index(fields=["submitted_by", "-submit_time"], name="workflow_by_user"),
                    models.Index(fields=["root_pool", "-submit_time"], name="workflow_by_root"),
                    models.Index(fields=["pool", "-submit_time"], name="workflow_by_pool"),
                    models.Index(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "PENDING",
                                    "RUNNING",
                                    "WAITING",
                                ],
                            )
                        ),
                        fields=["pool"],
                        name="workflow_live",
                    ),
                    models.Index(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "PENDING",
                                    "RUNNING",
                                    "WAITING",
                                ],
                            )
                        ),
                        fields=["submitted_by"],
                        name="workflow_live_by_user",
                    ),
                ],
            },
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
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Workflows cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="51f28d84e5c91cdfd70560634771b9b8ebe2a171",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_1dfac",
                    table="scheduling_workflow",
                    when="BEFORE",
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
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="status_machine",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.status IS DISTINCT FROM NEW.status)",
                    func="\n        IF OLD.status NOT IN ('PENDING', 'RUNNING', 'WAITING') THEN\n            RAISE EXCEPTION 'Workflow % has ended (%) and stays so.', OLD.name, OLD.status USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_status_machine', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.status NOT IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'FAILED_SERVER_ERROR', 'FAILED_EXEC_TIMEOUT', 'FAILED_QUEUE_TIMEOUT', 'FAILED_CANCELED', 'FAILED_BACKEND_ERROR', 'FAILED_IMAGE_PULL', 'FAILED_EVICTED', 'FAILED_START_ERROR', 'FAILED_START_TIMEOUT', 'FAILED_PREEMPTED') THEN\n            RAISE EXCEPTION 'Workflow % cannot become %.', OLD.name, NEW.status USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_status_machine', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="be2214c22167e8bc43d634361ad5c8815a37c360",
                    operation='UPDATE OF "status"',
                    pgid="pgtrigger_status_machine_d9041",
                    table="scheduling_workflow",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="reserved_while_active",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.status IS DISTINCT FROM NEW.status)",
                    constraint="CONSTRAINT",
                    declare="DECLARE work record;",
                    func="\n        SELECT name, status INTO work FROM scheduling_workflow WHERE uuid = NEW.uuid;\n        IF FOUND THEN\n            IF work.status IN ('PENDING', 'RUNNING', 'WAITING') THEN\n                IF NOT EXISTS (SELECT FROM pools_reservation WHERE workflow = NEW.uuid) THEN\n                    RAISE EXCEPTION 'Workflow % is active and keeps its reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n                END IF;\n            ELSIF EXISTS (SELECT FROM pools_reservation WHERE workflow = NEW.uuid) THEN\n                RAISE EXCEPTION 'Workflow % has ended and still has a reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n            END IF;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="2cb182db063476c2a6cca715606f2fea7d14e9c9",
                    operation='UPDATE OF "status"',
                    pgid="pgtrigger_reserved_while_active_e8532",
                    table="scheduling_workflow",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflow",
            trigger=pgtrigger.compiler.Trigger(
                name="note_submitted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (\n        SELECT backend.id FROM new_rows\n        JOIN pools_pool root ON root.id = new_rows.root_pool_id\n        JOIN pools_backend backend ON backend.id = root.backend_id\n        WHERE NOT backend.offline\n        ) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',submitted:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'submitted:' || concerned.id || ',', true);\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="12f838d3396b78b632082fb61fd897a363c33663",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_note_submitted_e4f3e",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="scheduling_workflow",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="groups",
                        to="scheduling.workflow",
                    ),
                ),
                ("name", models.TextField()),
                ("position", models.PositiveIntegerField()),
                ("upstream", models.JSONField(default=list)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (
                                "SUBMITTING",
                                "SUBMITTING",
                            ),
                            (
                                "WAITING",
                                "WAITING",
                            ),
                            (
                                "PROCESSING",
                                "PROCESSING",
                            ),
                            (
                                "SCHEDULING",
                                "SCHEDULING",
                            ),
                            (
                                "INITIALIZING",
                                "INITIALIZING",
                            ),
                            (
                                "RUNNING",
                                "RUNNING",
                            ),
                            (
                                "COMPLETED",
                                "COMPLETED",
                            ),
                            (
                                "RESCHEDULED",
                                "RESCHEDULED",
                            ),
                            (
                                "FAILED",
                                "FAILED",
                            ),
                            (
                                "FAILED_CANCELED",
                                "FAILED_CANCELED",
                            ),
                            (
                                "FAILED_SERVER_ERROR",
                                "FAILED_SERVER_ERROR",
                            ),
                            (
                                "FAILED_BACKEND_ERROR",
                                "FAILED_BACKEND_ERROR",
                            ),
                            (
                                "FAILED_EXEC_TIMEOUT",
                                "FAILED_EXEC_TIMEOUT",
                            ),
                            (
                                "FAILED_QUEUE_TIMEOUT",
                                "FAILED_QUEUE_TIMEOUT",
                            ),
                            (
                                "FAILED_IMAGE_PULL",
                                "FAILED_IMAGE_PULL",
                            ),
                            (
                                "FAILED_UPSTREAM",
                                "FAILED_UPSTREAM",
                            ),
                            (
                                "FAILED_EVICTED",
                                "FAILED_EVICTED",
                            ),
                            (
                                "FAILED_START_ERROR",
                                "FAILED_START_ERROR",
                            ),
                            (
                                "FAILED_START_TIMEOUT",
                                "FAILED_START_TIMEOUT",
                            ),
                            (
                                "FAILED_PREEMPTED",
                                "FAILED_PREEMPTED",
                            ),
                        ],
                        default="SCHEDULING",
                    ),
                ),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("gang", models.JSONField(null=True)),
                ("failure_message", models.TextField(blank=True)),
                ("waiting_reason", models.JSONField(null=True)),
                ("ready_at", models.DateTimeField(null=True)),
                ("start_time", models.DateTimeField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("ends_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["workflow", "position"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "SCHEDULING")),
                        fields=["gpus"],
                        name="group_waiting",
                    ),
                    models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="group_due"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("workflow", "name"), name="group_name_once_per_workflow")
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="note_moved",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (\n        SELECT root.backend_id FROM new_rows JOIN old_rows USING (uuid)\n        JOIN scheduling_workflow work ON work.uuid = new_rows.workflow_id\n        JOIN pools_pool root ON root.id = work.root_pool_id\n        WHERE new_rows.status <> old_rows.status\n            AND root.backend_id::text IS DISTINCT FROM current_setting('osmo.controller', true)\n        ) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="f44f34dd43f9d42fce60bae54f64dce689c54cc4",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_note_moved_bab89",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="scheduling_group",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="record_wait",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.ready_at IS NOT NULL AND OLD.start_time IS NULL AND OLD.end_time IS NULL\n    AND (NEW.start_time IS NOT NULL OR NEW.end_time IS NOT NULL OR NEW.ready_at IS DISTINCT FROM OLD.ready_at))",
                    declare="DECLARE ended timestamptz;",
                    func="\n        ended := GREATEST(OLD.ready_at, COALESCE(NEW.start_time, NEW.end_time, NEW.ready_at, clock_timestamp()));\n        INSERT INTO scheduling_waitspan (group_id, workflow_id, gpus, started, since, until)\n            VALUES (OLD.uuid, OLD.workflow_id, OLD.gpus, NEW.start_time IS NOT NULL, OLD.ready_at, ended);\n        IF ended < date_trunc('hour', clock_timestamp(), 'UTC') THEN\n            INSERT INTO scheduling_lateusage (since) VALUES (ended);\n        END IF;\n        RETURN NULL;\n    ",
                    hash="daaa62f8a29fab04e09471db54195d0c607a41c1",
                    operation="UPDATE",
                    pgid="pgtrigger_record_wait_eac24",
                    table="scheduling_group",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Groups of workflows cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="1ed87013d30a11c42dabcb85f59749e51010e10d",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_5eeec",
                    table="scheduling_group",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="group",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of groups cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="94972ea954124756ebf6f435e7dd149f4d0377b5",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_0bb53",
                    table="scheduling_group",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tasks",
                        to="scheduling.group",
                    ),
                ),
                ("name", models.TextField()),
                ("retry_id", models.PositiveIntegerField(default=0)),
                ("position", models.PositiveIntegerField()),
                ("lead", models.BooleanField(default=False)),
                ("sub_group", models.TextField(blank=True, default="")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            (
                                "SUBMITTING",
                                "SUBMITTING",
                            ),
                            (
                                "WAITING",
                                "WAITING",
                            ),
                            (
                                "PROCESSING",
                                "PROCESSING",
                            ),
                            (
                                "SCHEDULING",
                                "SCHEDULING",
                            ),
                            (
                                "INITIALIZING",
                                "INITIALIZING",
                            ),
                            (
                                "RUNNING",
                                "RUNNING",
                            ),
                            (
                                "COMPLETED",
                                "COMPLETED",
                            ),
                            (
                                "RESCHEDULED",
                                "RESCHEDULED",
                            ),
                            (
                                "FAILED",
                                "FAILED",
                            ),
                            (
                                "FAILED_CANCELED",
                                "FAILED_CANCELED",
                            ),
                            (
                                "FAILED_SERVER_ERROR",
                                "FAILED_SERVER_ERROR",
                            ),
                            (
                                "FAILED_BACKEND_ERROR",
                                "FAILED_BACKEND_ERROR",
                            ),
                            (
                                "FAILED_EXEC_TIMEOUT",
                                "FAILED_EXEC_TIMEOUT",
                            ),
                            (
                                "FAILED_QUEUE_TIMEOUT",
                                "FAILED_QUEUE_TIMEOUT",
                            ),
                            (
                                "FAILED_IMAGE_PULL",
                                "FAILED_IMAGE_PULL",
                            ),
                            (
                                "FAILED_UPSTREAM",
                                "FAILED_UPSTREAM",
                            ),
                            (
                                "FAILED_EVICTED",
                                "FAILED_EVICTED",
                            ),
                            (
                                "FAILED_START_ERROR",
                                "FAILED_START_ERROR",
                            ),
                            (
                                "FAILED_START_TIMEOUT",
                                "FAILED_START_TIMEOUT",
                            ),
                            (
                                "FAILED_PREEMPTED",
                                "FAILED_PREEMPTED",
                            ),
                        ],
                        default="SCHEDULING",
                    ),
                ),
                ("gpu_count", models.PositiveIntegerField(default=0)),
                ("cpu_count", models.PositiveIntegerField(default=0)),
                ("memory_bytes", models.PositiveBigIntegerField(default=0)),
                ("storage_bytes", models.PositiveBigIntegerField(default=0)),
                ("platform", models.TextField(default="default")),
                ("nodes_excluded", models.JSONField(default=list)),
                ("exit_actions", models.JSONField(default=dict)),
                ("node_name", models.TextField(blank=True)),
                ("pod_ip", models.TextField(blank=True, default="")),
                ("admitted_at", models.DateTimeField(null=True)),
                ("dispatched_at", models.DateTimeField(null=True)),
                ("start_time", models.DateTimeField(null=True)),
                ("end_time", models.DateTimeField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("failure_message", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["group", "position", "retry_id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "RUNNING")),
                        fields=["node_name"],
                        include=("gpu_count",),
                        name="task_on_node",
                    ),
                    models.Index(fields=["-start_time"], name="task_newest"),
                    models.Index(
                        condition=models.Q(("start_time__isnull", False)), fields=["end_time"], name="task_ended"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("group", "name", "retry_id"), name="task_attempt_once")
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="record_late",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.start_time < date_trunc('hour', clock_timestamp(), 'UTC') AND NEW.start_time IS DISTINCT FROM OLD.start_time OR NEW.end_time < date_trunc('hour', clock_timestamp(), 'UTC') AND NEW.end_time IS DISTINCT FROM OLD.end_time)",
                    func="\n        INSERT INTO scheduling_lateusage (since)\n            VALUES (LEAST(NEW.start_time, OLD.start_time, NEW.end_time, OLD.end_time));\n        RETURN NULL;\n    ",
                    hash="e434d1911fde3608ef72a2a01418321ca676ec4c",
                    operation="UPDATE",
                    pgid="pgtrigger_record_late_ab869",
                    table="scheduling_task",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Tasks of workflows cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="68de971b4dfd689f7c95619ddd635855f33d4878",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_508a4",
                    table="scheduling_task",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="task",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of tasks cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="878ea4fbd0865540b20362c0ce04dd7f79a76b70",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_c34ab",
                    table="scheduling_task",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="WorkflowConfig",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subpool_drain_interval_minutes", models.PositiveIntegerField(default=15)),
                ("max_retry_per_task", models.PositiveIntegerField(default=0)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "verbose_name": "scheduler settings",
                "verbose_name_plural": "scheduler settings",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("pk", 1)), name="workflow_config_is_one_row"),
                    models.CheckConstraint(
                        condition=models.Q(("subpool_drain_interval_minutes__range", (1, 10080))),
                        name="drain_interval_range",
                        violation_error_message="The drain interval is 1 to 10080 minutes.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_retry_per_task__range", (0, 100))),
                        name="max_retry_range",
                        violation_error_message="A task is retried 0 to 100 times.",
                    ),
                ],
            },
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
        pgtrigger.migrations.AddTrigger(
            model_name="workflowconfig",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'version' = to_jsonb(OLD) - 'version' THEN RETURN NULL; END IF;\n                subject := 'workflow';\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'config' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="32bfdd5594544ddf7b1bd6692fb1d676cdc82a2b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_30994",
                    table="scheduling_workflowconfig",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowconfig",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of scheduler settings cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="0c48655b4424bb8c68cab75ae22108ab49496d25",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_773ab",
                    table="scheduling_workflowconfig",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="WorkflowName",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("last_number", models.PositiveIntegerField()),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowname",
            trigger=pgtrigger.compiler.Trigger(
                name="only_grows",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.last_number < OLD.last_number OR NEW.name <> OLD.name)",
                    func="RAISE EXCEPTION 'The numbers of workflows named % only grow.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_numbers_grow', TABLE = TG_TABLE_NAME;",
                    hash="028070cd871eb6b4b3a2cd92fb3c5906b3e63824",
                    operation="UPDATE",
                    pgid="pgtrigger_only_grows_25e5e",
                    table="scheduling_workflowname",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowname",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Numbers of workflow names cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="f60f63ad306e3fe429daff45f87faf1258ad89e2",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_cbf9b",
                    table="scheduling_workflowname",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workflowname",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of workflow names cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="45cba1ddd34046b8fd73c202e6df3cc7980332bc",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_28cb2",
                    table="scheduling_workflowname",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="WorkUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("priority", models.TextField()),
                ("guaranteed", models.BigIntegerField(default=0)),
                ("low_inside", models.BigIntegerField(default=0)),
                ("over_quota", models.BigIntegerField(default=0)),
                ("borrowed", models.BigIntegerField(default=0)),
                ("waiting_own_quota", models.BigIntegerField(default=0)),
                ("waiting_limit", models.BigIntegerField(default=0)),
                ("waiting_room", models.BigIntegerField(default=0)),
                ("waiting_offline", models.BigIntegerField(default=0)),
                ("waiting_order", models.BigIntegerField(default=0)),
                ("workflows", models.BigIntegerField(default=0)),
                ("preemptions", models.BigIntegerField(default=0)),
                ("day", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["day", "leaf_id"], name="work_usage_day")],
            },
        ),
        migrations.CreateModel(
            name="WorkUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("priority", models.TextField()),
                ("guaranteed", models.BigIntegerField(default=0)),
                ("low_inside", models.BigIntegerField(default=0)),
                ("over_quota", models.BigIntegerField(default=0)),
                ("borrowed", models.BigIntegerField(default=0)),
                ("waiting_own_quota", models.BigIntegerField(default=0)),
                ("waiting_limit", models.BigIntegerField(default=0)),
                ("waiting_room", models.BigIntegerField(default=0)),
                ("waiting_offline", models.BigIntegerField(default=0)),
                ("waiting_order", models.BigIntegerField(default=0)),
                ("workflows", models.BigIntegerField(default=0)),
                ("preemptions", models.BigIntegerField(default=0)),
                ("hour", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["hour", "leaf_id"], name="work_usage_hour")],
            },
        ),
        migrations.CreateModel(
            name="ObservedBackend",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.backend",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedbackend",
            trigger=pgtrigger.compiler.Trigger(
                name="note_change",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (NEW.id) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="402f7ecf34461ded5e62f3ae5f70063add901af2",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_note_change_61a81",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedbackend",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_dirty_marks",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="DELETE FROM scheduling_backenddirtymark WHERE backend_id = OLD.id; RETURN NULL;",
                    hash="dcdc37ba07490050e820b7d349a37d5cca6d4bdb",
                    operation="DELETE",
                    pgid="pgtrigger_delete_dirty_marks_2324d",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedCohort",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.cohort",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedcohort",
            trigger=pgtrigger.compiler.Trigger(
                name="note_change",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (\n        WITH RECURSIVE above (id, parent_id) AS (\n            SELECT id, parent_id FROM pools_cohort WHERE id IN (NEW.id, OLD.id, NEW.parent_id, OLD.parent_id)\n            UNION SELECT parent.id, parent.parent_id FROM above JOIN pools_cohort parent ON parent.id = above.parent_id\n        ), tree (id) AS (\n            SELECT id FROM above\n            UNION SELECT child.id FROM tree JOIN pools_cohort child ON child.parent_id = tree.id\n        )\n        SELECT backend_id FROM pools_pool WHERE cohort_id IN (SELECT id FROM tree)\n    ) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="47526132ee65c2ffa588d974c63230f74224732b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_note_change_f6fcb",
                    table="pools_cohort",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedGpuQuota",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.gpuquota",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedgpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="note_change",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="\n                    IF TG_OP = 'UPDATE' AND NEW.spec = OLD.spec THEN RETURN NULL; END IF;\n                    \n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (SELECT backend_id FROM pools_pool WHERE parent_id IS NULL AND NOT archived AND config ->> 'gpu_quota_namespace' IN (NEW.namespace, OLD.namespace)) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    \n                ",
                    hash="c3d2e7642a717b82bf86fd328194fccc9fb96427",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_note_change_53eb4",
                    table="pools_gpuquota",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedGpuUsage",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.gpuusage",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedgpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="note_release",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.requests_tflops < OLD.requests_tflops OR NEW.requests_vram < OLD.requests_vram OR NEW.limits_tflops < OLD.limits_tflops OR NEW.limits_vram < OLD.limits_vram OR NEW.workers < OLD.workers OR NEW.assumed_requests_tflops < OLD.assumed_requests_tflops OR NEW.assumed_requests_vram < OLD.assumed_requests_vram OR NEW.assumed_limits_tflops < OLD.assumed_limits_tflops OR NEW.assumed_limits_vram < OLD.assumed_limits_vram OR NEW.assumed_workers < OLD.assumed_workers)",
                    declare="DECLARE noted text;",
                    func="\n                    noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n                    IF position(',namespace:' || NEW.namespace || ',' IN noted) = 0 THEN\n                        PERFORM set_config('osmo.changes', noted || 'namespace:' || NEW.namespace || ',', true);\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="f51de1299d342ac5a479c54986f3a9b5dfe7b8b7",
                    operation="UPDATE",
                    pgid="pgtrigger_note_release_11adb",
                    table="pools_gpuusage",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedKubernetesSettings",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.kubernetessettings",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedkubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="note_change",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (NEW.backend_id) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="36c3e3d0309221e5acc13fa746674529ed73c93a",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_note_change_806c8",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedNode",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.node",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observednode",
            trigger=pgtrigger.compiler.Trigger(
                name="note_change",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (NEW.backend_id, OLD.backend_id) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="c9cf4bf3459694f8ccc7fa5d8d45cdb8d6b246fe",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_note_change_296ed",
                    table="pools_node",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedPool",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.pool",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedpool",
            trigger=pgtrigger.compiler.Trigger(
                name="note_change",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE concerned record; noted text;",
                    func="IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN (\n                    SELECT NEW.backend_id UNION SELECT OLD.backend_id\n                    UNION SELECT backend_id FROM pools_pool WHERE id IN (NEW.parent_id, OLD.parent_id)\n                    UNION (\n        WITH RECURSIVE above (id, parent_id) AS (\n            SELECT id, parent_id FROM pools_cohort WHERE id IN (NEW.cohort_id, OLD.cohort_id)\n            UNION SELECT parent.id, parent.parent_id FROM above JOIN pools_cohort parent ON parent.id = above.parent_id\n        ), tree (id) AS (\n            SELECT id FROM above\n            UNION SELECT child.id FROM tree JOIN pools_cohort child ON child.parent_id = tree.id\n        )\n        SELECT backend_id FROM pools_pool WHERE cohort_id IN (SELECT id FROM tree)\n    )\n                    ) ORDER BY id LOOP\n            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');\n            IF position(',changed:' || concerned.id || ',' IN noted) = 0 THEN\n                PERFORM set_config('osmo.changes', noted || 'changed:' || concerned.id || ',', true);\n                IF concerned.kind = 'simulated' THEN\n                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);\n                END IF;\n            END IF;\n        END LOOP;\n        RETURN NULL;\n    ",
                    hash="ae0578df17e18c5b47906454fca8c31e783d8413",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_note_change_32a50",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ObservedReservation",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.reservation",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedreservation",
            trigger=pgtrigger.compiler.Trigger(
                name="kept_while_active",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE work record;",
                    func="\n        SELECT name, status INTO work FROM scheduling_workflow WHERE uuid = OLD.workflow;\n        IF FOUND THEN\n            IF work.status IN ('PENDING', 'RUNNING', 'WAITING') THEN\n                IF NOT EXISTS (SELECT FROM pools_reservation WHERE workflow = OLD.workflow) THEN\n                    RAISE EXCEPTION 'Workflow % is active and keeps its reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n                END IF;\n            ELSIF EXISTS (SELECT FROM pools_reservation WHERE workflow = OLD.workflow) THEN\n                RAISE EXCEPTION 'Workflow % has ended and still has a reservation.', work.name USING ERRCODE = 'check_violation', CONSTRAINT = 'workflow_is_reserved', TABLE = TG_TABLE_NAME;\n            END IF;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="69bcea9b6a0573ac0f4e51bc2f43575a30dfe298",
                    operation="DELETE",
                    pgid="pgtrigger_kept_while_active_8554f",
                    table="pools_reservation",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="RecordedChange",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("pools.auditentry",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="recordedchange",
            trigger=pgtrigger.compiler.Trigger(
                name="record_capacity",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (split_part(NEW.object, '/', 1) IN ('pool', 'node', 'backend'))",
                    declare="DECLARE subject bigint; kind text;",
                    func="\n                    kind := split_part(NEW.object, '/', 1);\n                    subject := (COALESCE(NEW.after, NEW.before) ->> 'id')::bigint;\n                    IF kind = 'pool' THEN\n                        UPDATE scheduling_quotaspan SET until = NEW.time WHERE pool_id = subject AND until IS NULL;\n                        INSERT INTO scheduling_quotaspan\n                            (pool_id, parent_id, backend_id, quota, is_unlimited, is_draining, since)\n                            SELECT quota.*, NEW.time FROM (SELECT NEW.after AS image) entry\n                            CROSS JOIN LATERAL (\n    SELECT (image ->> 'id')::bigint AS pool_id, (image ->> 'parent_id')::bigint AS parent_id,\n        (image ->> 'backend_id')::bigint AS backend_id,\n        CASE\n            WHEN (image ->> 'archived')::boolean THEN 0\n            WHEN image ->> 'parent_id' IS NULL THEN GREATEST(COALESCE((image ->> 'guarantee')::bigint, 0), 0)\n            WHEN image ->> 'subpool_state' = 'ACTIVE' THEN (image ->> 'last_quota')::bigint\n            ELSE 0\n        END AS quota,\n        image ->> 'parent_id' IS NULL AND NOT (image ->> 'archived')::boolean\n            AND COALESCE((image ->> 'guarantee')::bigint, -1) = -1 AS is_unlimited,\n        COALESCE(image ->> 'subpool_state' = 'DELETING', false) AS is_draining\n) quota WHERE image IS NOT NULL;\n                    ELSIF kind = 'node' THEN\n                        UPDATE scheduling_nodespan SET until = NEW.time WHERE node_id = subject AND until IS NULL;\n                        INSERT INTO scheduling_nodespan (node_id, backend_id, gpus, since)\n                            SELECT subject, (NEW.after ->> 'backend_id')::bigint, (NEW.after ->> 'gpus')::bigint,\n                                NEW.time WHERE NEW.after IS NOT NULL;\n                    ELSE\n                        UPDATE scheduling_offlinespan SET until = NEW.time\n                            WHERE backend_id = subject AND node_id IS NULL AND until IS NULL;\n                        INSERT INTO scheduling_offlinespan (backend_id, since)\n                            SELECT subject, NEW.time WHERE (NEW.after ->> 'offline')::boolean;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="d99fd41d04760bb4dba1d9d876802d6bd99bd477",
                    operation="INSERT",
                    pgid="pgtrigger_record_capacity_013e6",
                    table="pools_auditentry",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="BackendDirtyMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.backend"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BackendUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("capacity", models.BigIntegerField()),
                ("offline", models.BigIntegerField()),
                ("unallocated", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["day"], name="backend_usage_day")],
            },
        ),
        migrations.CreateModel(
            name="BackendUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("capacity", models.BigIntegerField()),
                ("offline", models.BigIntegerField()),
                ("unallocated", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["hour"], name="backend_usage_hour")],
            },
        ),
        migrations.CreateModel(
            name="Bypass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="bypasses", to="pools.backend"
                    ),
                ),
                ("kind", models.TextField()),
                ("namespace", models.TextField(blank=True)),
                ("username", models.TextField(blank=True)),
                ("code", models.TextField()),
                ("object_name", models.TextField(blank=True)),
                ("message", models.TextField()),
                ("attempts", models.PositiveBigIntegerField(default=1)),
                ("refused", models.PositiveBigIntegerField(default=0)),
                ("first_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("last_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "verbose_name_plural": "bypasses",
                "ordering": ["-last_at", "-pk"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("backend", "kind", "namespace", "username", "code"), name="bypass_once_per_caller"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ClusterState",
            fields=[
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="cluster_state",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("identity", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                ("cluster_lease", models.TextField(blank=True)),
                ("cluster_lease_message", models.TextField(blank=True)),
                ("cluster_lease_since", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                            _connector="OR",
                        ),
                        name="agent_lease_is_complete",
                        violation_error_message="A lease has a holder and an expiry.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DecisionCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"),
                ),
                ("action", models.TextField()),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("gpus", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("pool", "action"), name="decision_count_once")],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decisioncount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of decision counts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="91ab2c3e0ff978f10c01d6e2e9496274cb957f88",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_b2400",
                    table="scheduling_decisioncount",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="GpuControllerLease",
            fields=[
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="gpu_controller_lease",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                            _connector="OR",
                        ),
                        name="gpu_controller_lease_is_complete",
                        violation_error_message="A lease has a holder and an expiry.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StartReservation",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="start_reservation",
                        serialize=False,
                        to="scheduling.group",
                    ),
                ),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.backend"
                    ),
                ),
                ("since", models.DateTimeField()),
                ("nodes", models.JSONField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                (
                    "action",
                    models.TextField(
                        choices=[
                            ("start", "Start"),
                            ("move", "Move"),
                            ("reclaim", "Reclaim"),
                            ("preempt", "Preempt"),
                            ("give_up", "Give Up"),
                        ]
                    ),
                ),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
                (
                    "root_pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="scheduling.workflow",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.group",
                    ),
                ),
                ("tasks", models.JSONField(default=list)),
                ("nodes", models.JSONField(default=list)),
                ("gpus", models.PositiveIntegerField(default=0)),
                (
                    "for_workflow",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.workflow",
                    ),
                ),
                ("message", models.TextField()),
                ("message_without_beneficiary", models.TextField()),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["backend", "-id"], name="decision_by_backend"),
                    models.Index(fields=["root_pool", "-id"], name="decision_by_root"),
                    models.Index(fields=["pool", "-id"], name="decision_by_pool"),
                    models.Index(fields=["workflow", "-id"], name="decision_by_workflow"),
                    models.Index(fields=["time"], name="decision_time"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("action__in", ["start", "give_up", "preempt"]), ("for_workflow__isnull", True)),
                            models.Q(("action__in", ["move", "reclaim", "preempt"]), ("for_workflow__isnull", False)),
                            _connector="OR",
                        ),
                        name="decision_names_for_whom",
                        violation_error_message="A move or a reclaim has a beneficiary; a start or a give-up has none.",
                    )
                ],
            },
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
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="count_decisions",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        INSERT INTO scheduling_decisioncount AS kept (pool_id, action, count, gpus)\n            SELECT pool_id, action, count(*), sum(gpus) FROM made GROUP BY pool_id, action ORDER BY pool_id, action\n            ON CONFLICT (pool_id, action)\n            DO UPDATE SET count = kept.count + excluded.count, gpus = kept.gpus + excluded.gpus;\n        RETURN NULL;\n    ",
                    hash="98ee3cb8602e0a2d7b1ba2a3659037754cc0ffa8",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_decisions_2332a",
                    referencing="REFERENCING NEW TABLE AS made ",
                    table="scheduling_decision",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.action IN ('preempt', 'reclaim'))",
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['message', 'for_workflow_id']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['message', 'for_workflow_id']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := 'workflow.preempted';\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'preemption/' || (SELECT name FROM scheduling_workflow workflow WHERE workflow.uuid = NEW.workflow_id), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NEW.root_pool_id, (SELECT username FROM pools_user WHERE id = (SELECT submitted_by_id FROM scheduling_workflow workflow WHERE workflow.uuid = NEW.workflow_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="4a8b1ec293394e0dc396eaa626b157af02c49cec",
                    operation="INSERT",
                    pgid="pgtrigger_audit_744ae",
                    table="scheduling_decision",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="HistoryReplay",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=django.contrib.postgres.functions.RandomUUID(),
                        default=uuid.uuid4,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="replays", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("backend_id", models.BigIntegerField()),
                ("question", models.JSONField()),
                ("reads_all", models.BooleanField()),
                ("pools", models.JSONField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("RUNNING", "Running"),
                            ("COMPLETED", "Completed"),
                            ("FAILED", "Failed"),
                            ("CANCELED", "Canceled"),
                        ],
                        default="WAITING",
                        max_length=10,
                    ),
                ),
                ("progress", models.FloatField(default=0)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("answer", models.JSONField(null=True)),
                ("refusal", models.JSONField(null=True)),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("beat_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-requested_at", "-pk"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ["WAITING", "RUNNING"])),
                        fields=("user",),
                        name="one_replay_of_a_user",
                        violation_error_message="One replay of a user runs at a time.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status__in", ["WAITING", "RUNNING"]), ("ended_at__isnull", True)),
                            models.Q(("status__in", ["COMPLETED", "FAILED", "CANCELED"]), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="replay_ends_with_its_status",
                        violation_error_message="A replay has an end exactly if its status is final.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("answer__isnull", False), ("status", "COMPLETED")),
                            models.Q(models.Q(("status", "COMPLETED"), _negated=True), ("answer__isnull", True)),
                            _connector="OR",
                        ),
                        name="replay_answer_when_completed",
                        violation_error_message="A replay has an answer exactly if it is complete.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LeafUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["day", "leaf_id"], name="leaf_usage_day")],
            },
        ),
        migrations.CreateModel(
            name="LeafUsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["hour", "leaf_id"], name="leaf_usage_hour")],
            },
        ),
        migrations.CreateModel(
            name="NodeSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("node_id", models.BigIntegerField()),
                ("backend_id", models.BigIntegerField()),
                ("gpus", models.BigIntegerField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("until__isnull", True)), fields=["node_id"], name="node_span_open"
                    ),
                    models.Index(fields=["backend_id", "since"], name="node_span_of_backend"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RecordedNodeState",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("scheduling.nodestate",),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="recordednodestate",
            trigger=pgtrigger.compiler.Trigger(
                name="record_offline",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF TG_OP = 'UPDATE' AND NEW.ready = OLD.ready THEN RETURN NULL; END IF;\n                    UPDATE scheduling_offlinespan SET until = clock_timestamp()\n                        WHERE node_id = COALESCE(NEW.node_id, OLD.node_id) AND until IS NULL;\n                    INSERT INTO scheduling_offlinespan (backend_id, node_id, since)\n                        SELECT backend_id, id, clock_timestamp() FROM pools_node\n                        WHERE id = NEW.node_id AND NOT NEW.ready;\n                    RETURN NULL;\n                ",
                    hash="263456b1c7745dccaa45e601d66066d907406682",
                    operation='INSERT OR UPDATE OF "ready" OR DELETE',
                    pgid="pgtrigger_record_offline_6c913",
                    table="scheduling_nodestate",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="OfflineSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("backend_id", models.BigIntegerField()),
                ("node_id", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["backend_id", "since"], name="offline_span_of_backend")],
            },
        ),
        migrations.CreateModel(
            name="QueueDrift",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="queue_drift", to="pools.backend"
                    ),
                ),
                ("queue", models.TextField()),
                ("field", models.TextField()),
                ("theirs", models.JSONField(null=True)),
                ("ours", models.JSONField(null=True)),
                ("author", models.TextField()),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("reapplied_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-seen_at", "-pk"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("reapplied_at__isnull", True)),
                        fields=("backend", "queue", "field"),
                        name="drift_open_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueGuard",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="guard", to="pools.backend"
                    ),
                ),
                (
                    "mode",
                    models.TextField(
                        choices=[
                            ("off", "off: allow everything"),
                            ("audit", "audit: allow, and record requests that enforce would refuse"),
                            ("enforce", "enforce: refuse"),
                        ],
                        default="audit",
                    ),
                ),
                ("identity", models.TextField(blank=True)),
                ("accounts", models.JSONField(blank=True, default=list)),
                ("strict_minimums", models.BooleanField(default=False)),
                ("mark_generation", models.PositiveIntegerField(default=1)),
                ("previous_mark_until", models.DateTimeField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("mode__in", ["off", "audit", "enforce"])),
                        name="guard_mode_known",
                        violation_error_message="A webhook's mode is off, audit or enforce.",
                    )
                ],
            },
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
        migrations.CreateModel(
            name="QueueSync",
            fields=[
                ("lease_holder", models.UUIDField(null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="queue_sync",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("applied_generation", models.BigIntegerField(default=-1)),
                (
                    "synced",
                    models.TextField(
                        choices=[("True", "True"), ("False", "False"), ("Unknown", "Unknown")], default="Unknown"
                    ),
                ),
                ("reason", models.TextField(default="NeverTried")),
                ("message", models.TextField(default="The queues of this cluster were not synced yet.")),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("attempted_at", models.DateTimeField(null=True)),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("retry_at", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("objects_observed", models.PositiveIntegerField(default=0)),
                ("untouched", models.JSONField(default=list)),
                ("connection_test", models.JSONField(null=True)),
                ("connection_test_requested_at", models.DateTimeField(null=True)),
                ("connection_tested_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", True), ("lease_holder__isnull", True)),
                            models.Q(("lease_expires_at__isnull", False), ("lease_holder__isnull", False)),
                            _connector="OR",
                        ),
                        name="sync_lease_is_complete",
                        violation_error_message="A lease has a holder and an expiry.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("pool_id", models.BigIntegerField()),
                ("parent_id", models.BigIntegerField(null=True)),
                ("backend_id", models.BigIntegerField(null=True)),
                ("quota", models.BigIntegerField(default=0)),
                ("is_unlimited", models.BooleanField(default=False)),
                ("is_draining", models.BooleanField(default=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["pool_id", "since"], name="quota_span_of_pool"),
                    models.Index(
                        condition=models.Q(("until__isnull", True)), fields=["pool_id"], name="quota_span_open"
                    ),
                ],
            },
        ),
    ]
