"""The record of use by GPU flavor. What is on record counts as `default`, except the nodes that have a flavor already:
their hours are computed again."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


NODES = """
    UPDATE scheduling_nodespan span SET flavor = entry.after ->> 'flavor'
    FROM pools_auditentry entry
    WHERE EXISTS (SELECT FROM pools_node WHERE flavor <> 'default')
        AND split_part(entry.object, '/', 1) = 'node' AND (entry.after ->> 'id')::bigint = span.node_id
        AND entry.time = span.since AND entry.after ->> 'flavor' <> 'default';
    INSERT INTO scheduling_lateusage (since)
        SELECT min(since) FROM scheduling_nodespan WHERE flavor <> 'default' HAVING count(*) > 0;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0006_flavors"),
        ("scheduling", "0012_task_flavors"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="recordedchange",
            name="record_capacity",
        ),
        migrations.AddField(
            model_name="backendusageday",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="backendusagehour",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="leafusageday",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="leafusagehour",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="nodespan",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="poolusageday",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="poolusagehour",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="quotaspan",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="workusageday",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.AddField(
            model_name="workusagehour",
            name="flavor",
            field=models.TextField(db_default="default", default="default"),
        ),
        migrations.RunSQL(NODES, migrations.RunSQL.noop),
        pgtrigger.migrations.AddTrigger(
            model_name="recordedchange",
            trigger=pgtrigger.compiler.Trigger(
                name="record_capacity",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (split_part(NEW.object, '/', 1) IN ('pool', 'node', 'backend'))",
                    declare="DECLARE subject bigint; kind text;",
                    func="\n                    kind := split_part(NEW.object, '/', 1);\n                    subject := (COALESCE(NEW.after, NEW.before) ->> 'id')::bigint;\n                    IF kind = 'pool' THEN\n                        UPDATE scheduling_quotaspan SET until = NEW.time WHERE pool_id = subject AND until IS NULL;\n                        INSERT INTO scheduling_quotaspan\n                            (pool_id, parent_id, backend_id, flavor, quota, is_unlimited, is_draining, since)\n                            SELECT quota.*, NEW.time FROM (SELECT NEW.after AS image) entry\n                            CROSS JOIN LATERAL (\n    SELECT (image ->> 'id')::bigint AS pool_id, (image ->> 'parent_id')::bigint AS parent_id,\n        (image ->> 'backend_id')::bigint AS backend_id, part.flavor,\n        CASE\n            WHEN (image ->> 'archived')::boolean THEN 0\n            WHEN image ->> 'parent_id' IS NULL OR image ->> 'subpool_state' = 'ACTIVE' THEN GREATEST(part.quota, 0)\n            ELSE 0\n        END AS quota,\n        image ->> 'parent_id' IS NULL AND NOT (image ->> 'archived')::boolean\n            AND COALESCE((image ->> 'guarantee')::bigint, -1) = -1 AS is_unlimited,\n        COALESCE(image ->> 'subpool_state' = 'DELETING', false) AS is_draining\n    FROM (\n        SELECT flavor, quota FROM jsonb_to_recordset(image -> 'flavors') AS each (flavor text, quota bigint)\n        UNION ALL\n        SELECT 'default', COALESCE(\n            CASE WHEN image ->> 'parent_id' IS NULL THEN image ->> 'guarantee' ELSE image ->> 'last_quota' END, '0'\n        )::bigint\n        WHERE COALESCE(image -> 'flavors', '[]') = '[]'\n    ) part\n) quota WHERE image IS NOT NULL;\n                    ELSIF kind = 'node' THEN\n                        UPDATE scheduling_nodespan SET until = NEW.time WHERE node_id = subject AND until IS NULL;\n                        INSERT INTO scheduling_nodespan (node_id, backend_id, flavor, gpus, since)\n                            SELECT subject, (NEW.after ->> 'backend_id')::bigint,\n                                COALESCE(NEW.after ->> 'flavor', 'default'), (NEW.after ->> 'gpus')::bigint,\n                                NEW.time WHERE NEW.after IS NOT NULL;\n                    ELSE\n                        UPDATE scheduling_offlinespan SET until = NEW.time\n                            WHERE backend_id = subject AND node_id IS NULL AND until IS NULL;\n                        INSERT INTO scheduling_offlinespan (backend_id, since)\n                            SELECT subject, NEW.time WHERE (NEW.after ->> 'offline')::boolean;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="3a32e8c4c24946f64fe171705a4635c63e5d689a",
                    operation="INSERT",
                    pgid="pgtrigger_record_capacity_013e6",
                    table="pools_auditentry",
                    when="AFTER",
                ),
            ),
        ),
    ]
