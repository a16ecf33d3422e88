"""Failed runs of background jobs are counted."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0010_evicted"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobFailureCount",
            fields=[
                ("task", models.TextField(primary_key=True, serialize=False)),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("last", models.DateTimeField()),
                ("error", models.TextField()),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="jobfailurecount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of failed jobs cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="bfc9312ca12513808c1e96913358a1bf6ffc0bfe",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_be6a0",
                    table="scheduling_jobfailurecount",
                    when="BEFORE",
                ),
            ),
        ),
    ]
