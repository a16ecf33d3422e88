"""The messages of attempts lose the words of a cluster's scheduler, which name work and queues of others. The receipts
keep them for those who may read them; the entries of the audit trail stay as they are."""

from __future__ import annotations

from django.db import migrations

NEUTRAL = "The scheduler of the cluster preempted it."

# The rows change without their triggers: an entry of the audit trail would repeat the words.
# One transaction runs all migrations, and no table can be altered while checks of its rows wait for the end of it.
REPLACE_WORDS = f"""
    SET CONSTRAINTS ALL IMMEDIATE;
    ALTER TABLE scheduling_task DISABLE TRIGGER USER;
    UPDATE scheduling_task attempt SET failure_message = '{NEUTRAL}'
        FROM scheduling_group part JOIN scheduling_workflow work ON work.uuid = part.workflow_id
            JOIN pools_pool root ON root.id = work.root_pool_id JOIN pools_backend place ON place.id = root.backend_id
        WHERE part.uuid = attempt.group_id AND place.kind = 'kubernetes' AND attempt.failure_message <> ''
            AND (attempt.status = 'FAILED_PREEMPTED' OR attempt.exit_code = 3006);
    ALTER TABLE scheduling_task ENABLE TRIGGER USER;
    ALTER TABLE scheduling_group DISABLE TRIGGER USER;
    UPDATE scheduling_group part SET failure_message = '{NEUTRAL}'
        WHERE part.failure_message <> '' AND part.status IN ('FAILED_PREEMPTED', 'COMPLETED') AND EXISTS (
            SELECT FROM scheduling_task attempt
            WHERE attempt.group_id = part.uuid AND attempt.end_time = part.end_time
                AND attempt.failure_message = '{NEUTRAL}'
        );
    ALTER TABLE scheduling_group ENABLE TRIGGER USER;
    ALTER TABLE scheduling_workflow DISABLE TRIGGER USER;
    UPDATE scheduling_workflow work SET failure_message = '{NEUTRAL}'
        WHERE work.failure_message <> '' AND EXISTS (
            SELECT FROM scheduling_group part
            WHERE part.workflow_id = work.uuid AND part.status = 'FAILED_PREEMPTED'
                AND part.failure_message = '{NEUTRAL}'
        );
    ALTER TABLE scheduling_workflow ENABLE TRIGGER USER;
    SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0008_cycle_order"),
    ]

    operations = [
        migrations.RunSQL(REPLACE_WORDS, migrations.RunSQL.noop),
    ]
