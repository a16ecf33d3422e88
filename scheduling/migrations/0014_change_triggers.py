import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0009_field_words"),
        ("scheduling", "0013_field_words"),
    ]

    operations = [
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
    ]
