"""Counters of lost work for the metrics, and those of the receipts until now."""

from __future__ import annotations

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0001_initial"),
        ("scheduling", "0003_receipts"),
    ]

    operations = [
        migrations.CreateModel(
            name="LostCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cause", models.TextField()),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("gpu_ms", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="receipt",
            trigger=pgtrigger.compiler.Trigger(
                name="count_lost",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        INSERT INTO scheduling_lostcount AS kept (pool_id, cause, count, gpu_ms)\n            SELECT why.pool_id, why.cause, count(*), sum(made.lost_gpu_ms)\n            FROM made JOIN scheduling_interruption why ON why.id = made.interruption_id\n            GROUP BY why.pool_id, why.cause ORDER BY why.pool_id, why.cause\n            ON CONFLICT (pool_id, cause)\n            DO UPDATE SET count = kept.count + excluded.count, gpu_ms = kept.gpu_ms + excluded.gpu_ms;\n        RETURN NULL;\n    ",
                    hash="0ab11b7a614dc81bd734ef925b1abcfb5f96c4c3",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_lost_88ce5",
                    referencing="REFERENCING NEW TABLE AS made ",
                    table="scheduling_receipt",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddField(
            model_name="lostcount",
            name="pool",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="pools.pool"),
        ),
        migrations.AddConstraint(
            model_name="lostcount",
            constraint=models.UniqueConstraint(fields=("pool", "cause"), name="lost_count_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lostcount",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of lost attempts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="eedff9a1c01352c72c3aa38770a5ef6d2c6ce711",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_ea1d5",
                    table="scheduling_lostcount",
                    when="BEFORE",
                ),
            ),
        ),
        # Last: the inserted rows have checks that wait for the commit, and no trigger can be added before it.
        migrations.RunSQL(
            """
            INSERT INTO scheduling_lostcount (pool_id, cause, count, gpu_ms)
                SELECT why.pool_id, why.cause, count(*), sum(receipt.lost_gpu_ms)
                FROM scheduling_receipt receipt JOIN scheduling_interruption why ON why.id = receipt.interruption_id
                GROUP BY why.pool_id, why.cause
            """,
            migrations.RunSQL.noop,
        ),
        # One transaction runs all migrations, and a later one cannot alter a table with checks that wait for its end.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
    ]
