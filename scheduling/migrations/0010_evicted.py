"""Work that was stopped for memory or storage has a cause of its own. The receipts of the past, and their counters, too."""

from __future__ import annotations

from django.db import migrations, models

# An end for memory or storage is FAILED_EVICTED, or had its exit code before the exit actions.
# One transaction runs all migrations, and no table can be altered while checks of its rows wait for the end of it.
_CHANGE = """
    SET CONSTRAINTS ALL IMMEDIATE;
    ALTER TABLE scheduling_interruption DISABLE TRIGGER USER;
    UPDATE scheduling_interruption why {change};
    ALTER TABLE scheduling_interruption ENABLE TRIGGER USER;
    DELETE FROM scheduling_lostcount WHERE cause IN ('node', 'evicted');
    INSERT INTO scheduling_lostcount (pool_id, cause, count, gpu_ms)
        SELECT why.pool_id, why.cause, count(*), sum(receipt.lost_gpu_ms)
        FROM scheduling_receipt receipt JOIN scheduling_interruption why ON why.id = receipt.interruption_id
        WHERE why.cause IN ('node', 'evicted') GROUP BY why.pool_id, why.cause;
    SET CONSTRAINTS ALL DEFERRED;
"""
EVICTED_OF_THE_PAST = _CHANGE.format(
    change="""SET cause = 'evicted' WHERE cause = 'node' AND EXISTS (
        SELECT FROM scheduling_receipt receipt JOIN scheduling_task attempt ON attempt.uuid = receipt.task_id
        WHERE receipt.interruption_id = why.id AND (attempt.status = 'FAILED_EVICTED' OR attempt.exit_code = 3004)
    )"""
)
AS_LOST_NODES = _CHANGE.format(change="SET cause = 'node' WHERE cause = 'evicted'")


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0009_words_of_schedulers"),
    ]

    operations = [
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
        migrations.RemoveConstraint(model_name="interruption", name="interruption_cause"),
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
                            "evicted",
                            "person",
                            "not_known",
                        ],
                    )
                ),
                name="interruption_cause",
                violation_error_message="The cause of an interruption is one of the known ones.",
            ),
        ),
        migrations.RunSQL(EVICTED_OF_THE_PAST, AS_LOST_NODES),
    ]
