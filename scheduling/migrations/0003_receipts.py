"""Receipts of attempts that something else ended, and those of the attempts until now."""

from __future__ import annotations

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

from scheduling.services.receipts.past_receipts import PAST_RECEIPTS


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0001_initial"),
        ("scheduling", "0002_from_29ed02b4"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReceiptedTask",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("scheduling.task",),
        ),
        migrations.CreateModel(
            name="Interruption",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                ("cause", models.TextField()),
                ("by_user", models.TextField(blank=True, default="")),
                ("note", models.TextField(blank=True, default="")),
                ("numbers", models.JSONField(default=dict)),
                ("spared", models.JSONField(default=list)),
                ("has_more_spared", models.BooleanField(default=False)),
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
                    "for_workflow",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
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
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "root_pool",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="interruptions",
                        to="scheduling.workflow",
                    ),
                ),
            ],
            options={
                "ordering": ["-time", "-id"],
            },
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="receipt",
                        serialize=False,
                        to="scheduling.task",
                    ),
                ),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("lost_since", models.DateTimeField()),
                ("lost_gpu_ms", models.PositiveBigIntegerField(default=0)),
                (
                    "interruption",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipts",
                        to="scheduling.interruption",
                    ),
                ),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receiptedtask",
            trigger=pgtrigger.compiler.Trigger(
                name="has_receipt",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.start_time IS NOT NULL AND NEW.end_time IS NOT NULL AND (NEW.exit_code IN (3001, 3004, 3006) OR NEW.status IN ('FAILED_BACKEND_ERROR', 'FAILED_EVICTED', 'FAILED_PREEMPTED', 'FAILED_CANCELED')))",
                    constraint="CONSTRAINT",
                    func="\n                    IF \n    NEW.start_time IS NOT NULL AND NEW.end_time IS NOT NULL AND (\n        NEW.status IN ('FAILED_BACKEND_ERROR', 'FAILED_EVICTED', 'FAILED_PREEMPTED') OR NEW.exit_code IN (3001, 3004, 3006)\n        OR NEW.status = 'FAILED_CANCELED' AND EXISTS (\n            SELECT FROM scheduling_group part JOIN scheduling_workflow work ON work.uuid = part.workflow_id\n            JOIN pools_user owner ON owner.id = work.submitted_by_id\n            WHERE part.uuid = NEW.group_id AND work.cancelled_by NOT IN ('', owner.username)\n        )\n    )\n\n                        AND NOT EXISTS (SELECT FROM scheduling_receipt receipt WHERE receipt.task_id = NEW.uuid) THEN\n                        RAISE EXCEPTION 'An attempt that something else ended has a receipt.' USING ERRCODE = 'check_violation', CONSTRAINT = 'attempt_has_receipt', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="129e8475b8ada2060dd7d6015192bcab6ba077cc",
                    operation='INSERT OR UPDATE OF "status", "end_time", "exit_code"',
                    pgid="pgtrigger_has_receipt_6e7e8",
                    table="scheduling_task",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="interruption",
            index=models.Index(fields=["workflow", "-time"], name="interruption_of_workflow"),
        ),
        migrations.AddIndex(
            model_name="interruption",
            index=models.Index(fields=["time"], name="interruption_time"),
        ),
        migrations.AddConstraint(
            model_name="interruption",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "cause__in",
                        [
                            "priority",
                            "reclaim",
                            "fair_share",
                            "reservation",
                            "consolidation",
                            "lowered_quota",
                            "below_minimum",
                            "node",
                            "person",
                            "not_known",
                        ],
                    )
                ),
                name="interruption_cause",
                violation_error_message="The cause of an interruption is one of the known ones.",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="interruption",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of interruptions is append-only: entries cannot be changed or deleted.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="a80fb96b306b5aba5530ac9631616b57fb1ee4e4",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_7db6d",
                    table="scheduling_interruption",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="interruption",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of interruptions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="0f1ffeef4626dcfebd34494d1fe331afe7ce5c24",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_e0c00",
                    table="scheduling_interruption",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of receipts is append-only: entries cannot be changed or deleted.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="81ef42fb07efa33a09f09ec6f1beef385a1cad68",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_a6893",
                    table="scheduling_receipt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of receipts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="0f6b36c2db0e9cfa53c6ea07ce1e8f4720d85f71",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_8ede3",
                    table="scheduling_receipt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="of_ended_attempt",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    func="\n                    IF NOT EXISTS (\n                        SELECT FROM scheduling_task attempt\n                        JOIN scheduling_interruption why ON why.id = NEW.interruption_id\n                        WHERE attempt.uuid = NEW.task_id AND attempt.end_time = why.time\n                            AND attempt.group_id = why.group_id\n                    ) THEN\n                        RAISE EXCEPTION 'A receipt is of an attempt that ended then.' USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_of_ended_attempt', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="06bc69c8909ab3b52e4d6939be58d4e0caf2a82e",
                    operation="INSERT",
                    pgid="pgtrigger_of_ended_attempt_03c9b",
                    table="scheduling_receipt",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        # Last: the inserted rows have checks that wait for the commit, and no trigger can be added before it.
        migrations.RunSQL(PAST_RECEIPTS, migrations.RunSQL.noop),
        # One transaction runs all migrations, and a later one cannot alter a table with checks that wait for its end.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
    ]
