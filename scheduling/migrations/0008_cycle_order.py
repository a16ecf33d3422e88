"""What each scheduling cycle had seen, from now on: earlier decisions have none."""

from __future__ import annotations

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0004_drained_nodes"),
        ("scheduling", "0007_failed_tasks"),
    ]

    operations = [
        migrations.CreateModel(
            name="SchedulingCycle",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                ("judged_at", models.DateTimeField()),
                ("snapshot", models.TextField(null=True)),
                ("new_since", models.TextField(null=True)),
                ("units", models.PositiveIntegerField()),
                ("reservations", models.JSONField(default=list)),
                (
                    "backend",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.backend",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["time"], name="scheduling_cycle_time")],
                "constraints": [
                    models.UniqueConstraint(fields=("backend", "time"), name="one_cycle_at_a_time"),
                    models.CheckConstraint(
                        condition=models.Q(("units__gt", 0)),
                        name="cycle_planned_something",
                        violation_error_message="A scheduling cycle of the record planned at least one unit.",
                    ),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedulingcycle",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Scheduling cycles are history: they cannot be changed.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="c670328e0453c74aec8d2960c6cbecc827beb991",
                    operation="UPDATE",
                    pgid="pgtrigger_append_only_72f58",
                    table="scheduling_schedulingcycle",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedulingcycle",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of scheduling cycles cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="635047ad013dab98c173fbc3dfc59d8be2323db0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_63529",
                    table="scheduling_schedulingcycle",
                    when="BEFORE",
                ),
            ),
        ),
    ]
