"""Columns, constraints and triggers get the names and messages that code and documentation use. All rows stay."""

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0008_gpu_alerts_by_amount"),
    ]

    operations = [
        migrations.RemoveConstraint("backend", "kept_offline_is_offline"),
        migrations.RenameField("backend", "kept_offline", "offline_requested"),
        pgtrigger.migrations.RemoveTrigger(
            model_name="accesstoken",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="accesstoken",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="auditentry",
            name="append_only",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="auditentry",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="backend",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="backend",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="cohort",
            name="no_circle",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="cohort",
            name="rules",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="cohort",
            name="restamp",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="cohort",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="cohort",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="cohort",
            name="moves_generations",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuallocation",
            name="one_way",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuallocation",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuallocation",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuquota",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuquota",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuusage",
            name="follows_allocations",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="gpuusage",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="kubernetessettings",
            name="one_backend_per_namespace",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="kubernetessettings",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="kubernetessettings",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="kubernetessettings",
            name="moves_generation",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="leafusage",
            name="follows_reservations",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="leafusage",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="node",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="state_machine",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="slices_within_guarantee",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="names_fit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="keeps_history",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="has_counters",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="stamps_its_cohort",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="pool",
            name="moves_generation",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="reservation",
            name="leaf_takes_work",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="reservation",
            name="count_insert",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="reservation",
            name="count_update",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="reservation",
            name="count_delete",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="reservation",
            name="no_truncate",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="roleassignment",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="audit",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="no_truncate",
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'token.created' WHEN 'UPDATE' THEN 'token.updated' ELSE 'token.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'token/' || COALESCE(NEW.name, OLD.name), before_row - ARRAY['digest']::text[] || jsonb_build_object('owner', (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))), after_row - ARRAY['digest']::text[] || jsonb_build_object('owner', (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="04030ed013fbc2aedb4f4962ec39612142e344f0",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_fc0fe",
                    table="pools_accesstoken",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of tokens cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="b0318e7101db07b861d13dcf2defb01e50eedd7d",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_cb181",
                    table="pools_accesstoken",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="auditentry",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail is append-only: entries cannot be changed or deleted.' USING ERRCODE = 'check_violation', CONSTRAINT = 'append_only', TABLE = TG_TABLE_NAME;",
                    hash="7fe74573c8320872c8570f0eef050bde20ecdb63",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_fb412",
                    table="pools_auditentry",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="auditentry",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="ace865006a5a8e57de8f8a1c26a9aa06816bcbac",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_84349",
                    table="pools_auditentry",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'backend.created' WHEN 'UPDATE' THEN 'backend.updated' ELSE 'backend.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'backend/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="3d9e45531c536ba50ce2d97604ed1d395babc57d",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_12a77",
                    table="pools_backend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="backend",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of backends cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e47d352a03b99d660a18652f4b6375e46e5dc508",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_1b5c3",
                    table="pools_backend",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="no_cycle",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE cycle_names text[];",
                    func="\n        IF NEW.parent_id IS NULL THEN RETURN NEW; END IF;\n        PERFORM pg_advisory_xact_lock(1440);\n        WITH RECURSIVE path (id, parent_id, names) AS (\n            SELECT id, parent_id, ARRAY[NEW.name, name] FROM pools_cohort WHERE id = NEW.parent_id\n            UNION ALL\n            SELECT above.id, above.parent_id, path.names || above.name\n            FROM path JOIN pools_cohort above ON above.id = path.parent_id\n            WHERE path.id <> NEW.id AND above.name <> ALL (path.names[2:])\n        )\n        SELECT names INTO cycle_names FROM path WHERE id = NEW.id;\n        IF cycle_names IS NOT NULL THEN\n            RAISE EXCEPTION 'The parents of cohorts would form a cycle: %.', array_to_string(cycle_names, ' → ') USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_no_circle', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="134366877f9e67f9a927af434888629198e3c9cf",
                    operation='INSERT OR UPDATE OF "parent_id"',
                    pgid="pgtrigger_no_cycle_69888",
                    table="pools_cohort",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="rules",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE wrong text;",
                    func="\n        IF jsonb_typeof(NEW.quotas) <> 'object' THEN\n            RAISE EXCEPTION 'The quotas of a cohort must be an object with keys flavor/resource.' USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_quotas', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF (SELECT count(*) FROM jsonb_object_keys(NEW.quotas)) > 1024 THEN\n            RAISE EXCEPTION 'A cohort has quotas of at most 1024 resources.' USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_quotas', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT key INTO wrong FROM jsonb_each(NEW.quotas)\n            WHERE key NOT LIKE '_%/_%' OR jsonb_typeof(value) <> 'object'\n                OR COALESCE(jsonb_typeof(value -> 'nominal'), '') <> 'number' LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION '% is not a valid flavor/resource with a nominal quota.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_quotas', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT quota.key || ' ' || amount.key INTO wrong\n            FROM jsonb_each(NEW.quotas) quota, jsonb_each_text(quota.value) amount\n            WHERE amount.key NOT IN ('nominal', 'borrowing_limit', 'lending_limit') OR amount.value !~ '^[0-9]{1,16}$'\n            LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION '% is not a whole number of 0 or more.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_no_negative_quota', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.parent_id IS NULL AND jsonb_path_exists(\n            NEW.quotas, '$.*.keyvalue() ? (@.key != \"nominal\" && @.value != null)'\n        ) THEN\n            RAISE EXCEPTION 'Cohort % has limits but no parent.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'cohort_limits_need_parent', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF TG_OP = 'UPDATE' THEN\n            IF to_jsonb(NEW) - ARRAY['version', 'updated_at', 'inactive_since']\n                IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at', 'inactive_since']\n            THEN\n                NEW.version := OLD.version + 1;\n                NEW.updated_at := clock_timestamp();\n            ELSE\n                NEW.version := OLD.version;\n            END IF;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="4055477ab07d0a039b59739bc41913ec99974fe3",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_rules_9e996",
                    table="pools_cohort",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="renew_quota_stamp",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    INSERT INTO pools_quotastamp (id, stamp) VALUES (1, gen_random_uuid())\n        ON CONFLICT (id) DO UPDATE SET stamp = EXCLUDED.stamp;\n    RETURN NULL;\n",
                    hash="66a523dbaf01f30640ef56d3617468178b48afd3",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_renew_quota_stamp_dfa4a",
                    table="pools_cohort",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="advance_generations",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    func="\n        PERFORM backend_id FROM pools_ledgergeneration ORDER BY backend_id FOR NO KEY UPDATE;\n        UPDATE pools_ledgergeneration SET number = number + 1;\n        RETURN NULL;\n    ",
                    hash="00e55bdc6f48d0f856c7af603def532722b5c064",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_advance_generations_9f847",
                    table="pools_cohort",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := \n    CASE\n        WHEN TG_OP = 'INSERT' THEN CASE WHEN NEW.explicit THEN 'cohort.created' ELSE 'cohort.named' END\n        WHEN TG_OP = 'DELETE' THEN CASE WHEN OLD.explicit THEN 'cohort.deleted' ELSE 'cohort.forgotten' END\n        WHEN NEW.explicit AND NOT OLD.explicit THEN 'cohort.created'\n        WHEN NEW.parent_id IS DISTINCT FROM OLD.parent_id THEN 'cohort.moved'\n        WHEN OLD.inactive_since IS NULL AND NEW.inactive_since IS NOT NULL THEN 'cohort.inactive'\n        WHEN OLD.inactive_since IS NOT NULL AND NEW.inactive_since IS NULL THEN 'cohort.active'\n        ELSE 'cohort.updated'\n    END\n;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'cohort/' || COALESCE(NEW.name, OLD.name), before_row || jsonb_build_object('parent', (SELECT name FROM pools_cohort WHERE id = OLD.parent_id)), after_row || jsonb_build_object('parent', (SELECT name FROM pools_cohort WHERE id = NEW.parent_id)),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="1fc08b6e2d2e15ab74a5aa088108b281d436b097",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_1aaa6",
                    table="pools_cohort",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="cohort",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of cohorts cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="921b24138befa061c61cd78db60f6635be1eb362",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_a20b6",
                    table="pools_cohort",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="one_way",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF OLD.state = 'released' THEN\n                        RAISE EXCEPTION 'Allocation % was released and cannot change.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_one_way', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    IF OLD.state = 'committed' AND NEW.state = 'assumed' THEN\n                        RAISE EXCEPTION 'Allocation % is committed and cannot become assumed again.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_one_way', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    IF (NEW.namespace, NEW.name, NEW.source) IS DISTINCT FROM (OLD.namespace, OLD.name, OLD.source) THEN\n                        RAISE EXCEPTION 'The namespace, id and source of allocation % cannot change.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_one_way', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    NEW.changed_at := clock_timestamp();\n                    IF NEW.state = 'released' THEN\n                        NEW.released_at := clock_timestamp();\n                        NEW.expires_at := NULL;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="b08d7317faa207cec2a8015140b5d9d6346fc01b",
                    operation="UPDATE",
                    pgid="pgtrigger_one_way_dbf38",
                    table="pools_gpuallocation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="IF COALESCE(NEW.source, OLD.source) <> 'api' THEN RETURN NULL; END IF; \n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['changed_at', 'families', 'written']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['changed_at', 'families', 'written']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'INSERT' THEN 'gpu_allocation.' || NEW.state WHEN TG_OP = 'DELETE' THEN 'gpu_allocation.deleted' WHEN NEW.state <> OLD.state THEN 'gpu_allocation.' || NEW.state ELSE 'gpu_allocation.adjusted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'gpu_allocation/' || COALESCE(NEW.namespace, OLD.namespace) || '/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="3ed79239b992995590b2709b8f21e58111833781",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_f0b32",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of GPU allocations cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="5299266d08a725bccb1cc5b6f8507f7ee4f67e85",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_b8506",
                    table="pools_gpuallocation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version', 'conditions', 'updated_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version', 'conditions', 'updated_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'UPDATE' AND NEW.alerts > OLD.alerts THEN 'gpu_quota.alert' WHEN TG_OP = 'UPDATE' AND NEW.alerting <> OLD.alerting THEN 'gpu_quota.calm' ELSE CASE TG_OP WHEN 'INSERT' THEN 'gpu_quota.created' WHEN 'UPDATE' THEN 'gpu_quota.updated' ELSE 'gpu_quota.deleted' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'gpu_quota/' || COALESCE(NEW.namespace, OLD.namespace), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="1f5b91a06ce4886ebeb336f7dd10d5fab319ea44",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_0cd6e",
                    table="pools_gpuquota",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuquota",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of GPU quotas cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="b32921f014c73848cdbde68cc14087e7f6b6f3b7",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_c22cb",
                    table="pools_gpuquota",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF pg_trigger_depth() < 2 AND COALESCE(current_setting('osmo.recount', true), '') <> 'on' THEN\n                        RAISE EXCEPTION 'The usage of a namespace follows its allocations; it cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_usage_follows_allocations', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="902690f98593fb3de34eaf2caa0b501ec4d76961",
                    operation="UPDATE",
                    pgid="pgtrigger_protect_counters_1361b",
                    table="pools_gpuusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of GPU usage cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="140f02cacde8d7683f147318dd37d804813cbb52",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_5d248",
                    table="pools_gpuusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="one_backend_per_namespace",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE other text; own_namespace text;",
                    func="\n        SELECT namespace INTO own_namespace FROM pools_backend WHERE id = NEW.backend_id;\n        SELECT backend.name INTO other\n            FROM pools_kubernetessettings settings JOIN pools_backend backend ON backend.id = settings.backend_id\n            WHERE settings.backend_id <> NEW.backend_id AND settings.server = NEW.server AND NEW.server <> ''\n                AND backend.namespace = own_namespace\n            LIMIT 1;\n        IF other IS NOT NULL THEN\n            RAISE EXCEPTION 'Backend % is on the same cluster and namespace already.', other USING ERRCODE = 'check_violation', CONSTRAINT = 'one_backend_per_namespace', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="2a32eeac2f2fb2a569f00dc976fd883fe0a96aaa",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_one_backend_per_namespace_ec6e1",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="advance_generation",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    func="\n        INSERT INTO pools_ledgergeneration (backend_id, number)\n            SELECT id, 1 FROM pools_backend WHERE id = NEW.backend_id\n            ON CONFLICT (backend_id) DO UPDATE SET number = pools_ledgergeneration.number + 1;\n        RETURN NULL;\n    ",
                    hash="8e830ead5e1033be0afc3850fb78847390a5905e",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_advance_generation_838ee",
                    table="pools_kubernetessettings",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'backend.connected' WHEN 'UPDATE' THEN 'backend.updated' ELSE 'backend.disconnected' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'backend/' || COALESCE((SELECT name FROM pools_backend WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), '?'), before_row - ARRAY['sealed_kubeconfig']::text[], after_row - ARRAY['sealed_kubeconfig']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="557c6e55a52476f4c2197d0523ce531eb849a0de",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_ed668",
                    table="pools_kubernetessettings",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="kubernetessettings",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of clusters cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="3a192dc30c8819dcb1471f412afc0f96b6896fc8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_141dd",
                    table="pools_kubernetessettings",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="leafusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF pg_trigger_depth() < 2 THEN\n                        RAISE EXCEPTION 'Usage counters follow the reservations; they cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_follows_reservations', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="26458e91e7dfa6b3ad24ade7643b50cd48d59b81",
                    operation="UPDATE",
                    pgid="pgtrigger_protect_counters_54531",
                    table="pools_leafusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="leafusage",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of usage counters cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="7c08db3ab2c2f9032c78a516172c99aa3de610b8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_1ef9c",
                    table="pools_leafusage",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'node.created' WHEN 'UPDATE' THEN 'node.updated' ELSE 'node.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'node/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="7aedb7ad26dc325f18a0e6ca556f038932434e1c",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_9ca7e",
                    table="pools_node",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="state_machine",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'INSERT' THEN\n            IF NEW.subpool_state <> 'ACTIVE' THEN\n                RAISE EXCEPTION 'A new subpool is ACTIVE, not %.', NEW.subpool_state USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_state_machine', TABLE = TG_TABLE_NAME;\n            END IF;\n            RETURN NEW;\n        END IF;\n        IF NEW.parent_id IS DISTINCT FROM OLD.parent_id OR NEW.subpool_name IS DISTINCT FROM OLD.subpool_name THEN\n            RAISE EXCEPTION 'The parent and the short name of a subpool cannot change.' USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_identity', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.subpool_state <> OLD.subpool_state\n            AND OLD.subpool_state || '>' || NEW.subpool_state NOT IN ('ACTIVE>DELETING', 'ACTIVE>ARCHIVED', 'DELETING>ARCHIVED', 'ARCHIVED>ACTIVE')\n        THEN\n            RAISE EXCEPTION 'A subpool cannot go from % to %.', OLD.subpool_state, NEW.subpool_state USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_state_machine', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF OLD.subpool_state <> 'ACTIVE' AND NEW.subpool_state = OLD.subpool_state\n            AND NEW.last_quota <> OLD.last_quota\n        THEN\n            RAISE EXCEPTION 'The quota of a subpool in state % cannot change.', OLD.subpool_state USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_frozen', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF (NEW.subpool_state = 'ARCHIVED' AND OLD.subpool_state <> NEW.subpool_state\n                OR NEW.archived AND NOT OLD.archived)\n            AND EXISTS (SELECT FROM pools_reservation WHERE pool_id = NEW.id)\n        THEN\n            RAISE EXCEPTION '% still has active workflows and cannot be archived.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'archived_has_no_live_work', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF NEW.archived AND EXISTS (\n            SELECT FROM pools_pool WHERE parent_id = NEW.id AND subpool_state <> 'ARCHIVED'\n        ) THEN\n            RAISE EXCEPTION '% still has subpools and cannot be archived.', NEW.name USING ERRCODE = 'check_violation', CONSTRAINT = 'archived_has_no_slices', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF to_jsonb(NEW) - ARRAY['version', 'updated_at']\n            IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at']\n        THEN\n            NEW.version := OLD.version + 1;\n            NEW.updated_at := clock_timestamp();\n        ELSE\n            NEW.version := OLD.version;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="e9046526ac7b4d5a9eca080440c9e785795ff3d1",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_state_machine_4c2ff",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="subpools_within_guarantee",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE root bigint; guaranteed integer; allocated bigint; subpools bigint;",
                    func="\n        root := COALESCE(NEW.parent_id, NEW.id);\n        SELECT guarantee INTO guaranteed FROM pools_pool WHERE id = root FOR NO KEY UPDATE;\n        SELECT COALESCE(sum(last_quota), 0), count(*) INTO allocated, subpools\n            FROM pools_pool WHERE parent_id = root AND subpool_state = 'ACTIVE';\n        IF subpools > 0 AND COALESCE(guaranteed, -1) = -1 THEN\n            RAISE EXCEPTION 'A pool with subpools needs a finite quota (guarantee).' USING ERRCODE = 'check_violation', CONSTRAINT = 'slices_within_guarantee', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF subpools > 0 AND allocated > guaranteed THEN\n            RAISE EXCEPTION 'The subpools of a pool have quotas of % GPUs together, the quota of the pool is %.', allocated, guaranteed USING ERRCODE = 'check_violation', CONSTRAINT = 'slices_within_guarantee', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="4036e475237e4aedc5aaced6064b43208024e422",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_subpools_within_guarantee_60787",
                    table="pools_pool",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="check_names",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text;",
                    func="\n        SELECT child.name INTO wrong\n            FROM pools_pool child JOIN pools_pool parent ON parent.id = child.parent_id\n            WHERE (child.id = NEW.id OR child.parent_id = NEW.id)\n                AND child.name <> parent.name || '--' || child.subpool_name LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION 'The name % does not begin with the name of its parent.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_name_follows_parent', TABLE = TG_TABLE_NAME;\n        END IF;\n        SELECT pool.name INTO wrong\n            FROM pools_pool pool\n            JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id)\n            JOIN pools_backend backend ON backend.id = root.backend_id\n            WHERE (pool.id = NEW.id OR pool.parent_id = NEW.id)\n                AND length('osmo-pool-' || backend.namespace || '-' || pool.name\n                    || CASE WHEN pool.parent_id IS NULL THEN '--_shared' ELSE '' END)\n                    > 63\n            LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION 'The queue name of % would be longer than 63 characters.', wrong USING ERRCODE = 'check_violation', CONSTRAINT = 'queue_name_length', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="a9389bc0969f2432bcad55b2c9edeb37386c98f8",
                    operation='INSERT OR UPDATE OF "name", "backend_id"',
                    pgid="pgtrigger_check_names_80fee",
                    table="pools_pool",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="renew_quota_stamp",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF NEW.cohort_id IS NULL AND OLD.cohort_id IS NULL THEN RETURN NULL; END IF;\n        \n    INSERT INTO pools_quotastamp (id, stamp) VALUES (1, gen_random_uuid())\n        ON CONFLICT (id) DO UPDATE SET stamp = EXCLUDED.stamp;\n    RETURN NULL;\n\n    ",
                    hash="4a1cc20e2248406bc685128d3e88cd9c9c433302",
                    operation='INSERT OR DELETE OR UPDATE OF "guarantee", "maximum", "cohort_id", "borrowing_limit", "lending_limit"',
                    pgid="pgtrigger_renew_quota_stamp_a8757",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="advance_generation",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    func="\n        INSERT INTO pools_ledgergeneration (backend_id, number)\n            SELECT id, 1 FROM pools_backend\n            WHERE id IN (NEW.backend_id, OLD.backend_id) OR id = (\n                SELECT backend_id FROM pools_pool WHERE id = COALESCE(NEW.parent_id, OLD.parent_id)\n            )\n            ORDER BY id\n            ON CONFLICT (backend_id) DO UPDATE SET number = pools_ledgergeneration.number + 1;\n        RETURN NULL;\n    ",
                    hash="678cce3cabb13816e213137e43ecc67a0f6c46ab",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_advance_generation_9f062",
                    table="pools_pool",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_history",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF OLD.parent_id IS NOT NULL THEN\n            RAISE EXCEPTION 'Subpool % can be archived, not deleted.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'subpool_never_deleted', TABLE = TG_TABLE_NAME;\n        END IF;\n        IF OLD.archived THEN\n            RAISE EXCEPTION 'Pool % is archived and keeps its history.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'archived_never_deleted', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN OLD;\n    ",
                    hash="db9714bccba830e723533fd4cb89dfc4dfcd1521",
                    operation="DELETE",
                    pgid="pgtrigger_protect_history_efc3f",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="create_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        INSERT INTO pools_leafusage (pool_id, used, total_usage, live_workflows, committed)\n            VALUES (NEW.id, 0, 0, 0, 0);\n        RETURN NULL;\n    ",
                    hash="3d0557e8927789cb5a982cec0160138415f4efd1",
                    operation="INSERT",
                    pgid="pgtrigger_create_counters_7a069",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['version', 'updated_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := \n    CASE\n        WHEN COALESCE(NEW.parent_id, OLD.parent_id) IS NULL THEN CASE\n            WHEN TG_OP = 'INSERT' THEN 'pool.created'\n            WHEN TG_OP = 'DELETE' THEN 'pool.deleted'\n            WHEN NEW.archived AND NOT OLD.archived THEN 'pool.archived'\n            WHEN OLD.archived AND NOT NEW.archived THEN 'pool.reactivated'\n            WHEN NEW.name <> OLD.name THEN 'pool.renamed'\n            ELSE 'pool.updated' END\n        WHEN TG_OP = 'INSERT' THEN 'subpool.created'\n        WHEN TG_OP = 'DELETE' THEN 'subpool.deleted'\n        WHEN NEW.subpool_state = OLD.subpool_state THEN\n            CASE WHEN NEW.name <> OLD.name THEN 'subpool.renamed' ELSE 'subpool.updated' END\n        WHEN NEW.subpool_state = 'DELETING' THEN 'subpool.deleting'\n        WHEN NEW.subpool_state = 'ARCHIVED' THEN 'subpool.archived'\n        ELSE 'subpool.reactivated'\n    END\n;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'pool/' || COALESCE(NEW.name, OLD.name), before_row || jsonb_build_object('cohort', (SELECT name FROM pools_cohort WHERE id = OLD.cohort_id)), after_row || jsonb_build_object('cohort', (SELECT name FROM pools_cohort WHERE id = NEW.cohort_id)),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.parent_id, NEW.id, OLD.id), NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="94d4cac40d83853ab50dc2ae365750b9b099994e",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_a0ed1",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of pools cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="54db86d09aeedb2b1e14fe6f7f3b495e709b75bf",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_cbeb2",
                    table="pools_pool",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="leaf_takes_work",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE leaf pools_pool;",
                    func="\n                    SELECT * INTO leaf FROM pools_pool WHERE id = NEW.pool_id FOR SHARE;\n                    IF leaf.archived OR COALESCE(leaf.subpool_state, 'ACTIVE') <> 'ACTIVE' THEN\n                        RAISE EXCEPTION '% accepts no new work.', leaf.name USING ERRCODE = 'check_violation', CONSTRAINT = 'leaf_takes_work', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="b5f1b12aac0d25fbf5705762d514498fdb5de938",
                    operation="INSERT",
                    pgid="pgtrigger_leaf_takes_work_65b8f",
                    table="pools_reservation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            UPDATE pools_leafusage leaf SET\n                used = leaf.used + moved.used,\n                total_usage = leaf.total_usage + moved.total_usage,\n                live_workflows = leaf.live_workflows + moved.live_workflows,\n                committed = leaf.committed + moved.committed\n            FROM (\n                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM (\n        SELECT pool_id,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            held_gpus AS total_usage,\n            1 AS live_workflows,\n            CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM new_rows\n    ) rows GROUP BY pool_id\n            ) moved\n            WHERE leaf.pool_id = moved.pool_id;\n            RETURN NULL;\n        ",
                    hash="81ee178ab128dfb2e784fa40f0f82c65748e7ce7",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_insert_c87d9",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="pools_reservation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            UPDATE pools_leafusage leaf SET\n                used = leaf.used + moved.used,\n                total_usage = leaf.total_usage + moved.total_usage,\n                live_workflows = leaf.live_workflows + moved.live_workflows,\n                committed = leaf.committed + moved.committed\n            FROM (\n                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM (\n        SELECT pool_id,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            -held_gpus AS total_usage,\n            -1 AS live_workflows,\n            -CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM old_rows\n     UNION ALL \n        SELECT pool_id,\n            CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            held_gpus AS total_usage,\n            1 AS live_workflows,\n            CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM new_rows\n    ) rows GROUP BY pool_id\n            ) moved\n            WHERE leaf.pool_id = moved.pool_id;\n            RETURN NULL;\n        ",
                    hash="d7fbf9bd6e9397ea2417c856b28b72e9efaa7819",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_count_update_8ae5c",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="pools_reservation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            UPDATE pools_leafusage leaf SET\n                used = leaf.used + moved.used,\n                total_usage = leaf.total_usage + moved.total_usage,\n                live_workflows = leaf.live_workflows + moved.live_workflows,\n                committed = leaf.committed + moved.committed\n            FROM (\n                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,\n                    sum(live_workflows) AS live_workflows, sum(committed) AS committed\n                FROM (\n        SELECT pool_id,\n            -CASE WHEN priority = 'LOW' THEN 0 ELSE held_gpus END AS used,\n            -held_gpus AS total_usage,\n            -1 AS live_workflows,\n            -CASE WHEN priority = 'LOW' THEN 0\n                ELSE GREATEST(held_gpus, needed_gpus) END AS committed\n        FROM old_rows\n    ) rows GROUP BY pool_id\n            ) moved\n            WHERE leaf.pool_id = moved.pool_id;\n            RETURN NULL;\n        ",
                    hash="9d99fc468434d166f72b0650b638832044696224",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_count_delete_bee3d",
                    referencing="REFERENCING OLD TABLE AS old_rows ",
                    table="pools_reservation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="reservation",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of reservations cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="23491deb81c1c8380f2a181a22f284081f24433c",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_38602",
                    table="pools_reservation",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="roleassignment",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'role.granted' WHEN 'DELETE' THEN 'role.revoked' ELSE 'role.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), before_row || jsonb_build_object('role', (SELECT name FROM auth_group WHERE id = COALESCE(NEW.group_id, OLD.group_id))), after_row || jsonb_build_object('role', (SELECT name FROM auth_group WHERE id = COALESCE(NEW.group_id, OLD.group_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="50d92ad66018d9fc8234cbcc8b4776b5b0dc1ec4",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_3cffe",
                    table="pools_roleassignment",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['last_login']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['last_login']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'user.created' WHEN 'DELETE' THEN 'user.deleted' ELSE CASE WHEN OLD.password <> NEW.password THEN 'user.password_changed' ELSE 'user.updated' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || COALESCE(NEW.username, OLD.username), before_row - ARRAY['password']::text[], after_row - ARRAY['password']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, COALESCE(NEW.username, OLD.username), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="2e66d2fec644d10b03d53eefbb399b3d2b0eb606",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_899d2",
                    table="pools_user",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of users cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="738f35aa47a04215a7b3468907f68b9bd8efd3b0",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_1af80",
                    table="pools_user",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="backend",
            constraint=models.CheckConstraint(
                condition=models.Q(("offline_requested", False), ("offline", True), _connector="OR"),
                name="offline_request_is_offline",
                violation_error_message="A backend that is requested offline is offline, though its cluster answers.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="cohort",
            name="cohort_named_is_bare",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("explicit", True),
                    models.Q(("parent__isnull", True), ("quotas", {}), ("weight", 1)),
                    _connector="OR",
                ),
                name="cohort_named_is_bare",
                violation_error_message="An implicit cohort has no quota, no limits and no parent.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="gpuallocation",
            name="gpu_allocation_live_once",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "released"), _negated=True),
                fields=("namespace", "name"),
                name="gpu_allocation_live_once",
                violation_error_message="An active allocation with that id exists already.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="gpuallocation",
            name="gpu_allocation_state",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["assumed", "committed", "released"]),
                    models.Q(
                        models.Q(("expires_at__isnull", False), ("state", "assumed")),
                        models.Q(models.Q(("state", "assumed"), _negated=True), ("expires_at__isnull", True)),
                        _connector="OR",
                    ),
                ),
                name="gpu_allocation_state",
                violation_error_message="An allocation is assumed with an expiry, committed, or released.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="gpuusage",
            name="gpu_usage_never_negative",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("assumed_limits_tflops__gte", 0),
                    ("assumed_limits_vram__gte", 0),
                    ("assumed_requests_tflops__gte", 0),
                    ("assumed_requests_vram__gte", 0),
                    ("assumed_workers__gte", 0),
                    ("limits_tflops__gte", 0),
                    ("limits_vram__gte", 0),
                    ("requests_tflops__gte", 0),
                    ("requests_vram__gte", 0),
                    ("workers__gte", 0),
                ),
                name="gpu_usage_never_negative",
                violation_error_message="The usage of a namespace cannot be negative.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="leafusage",
            name="usage_never_negative",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("committed__gte", 0),
                    ("live_workflows__gte", 0),
                    ("total_usage__gte", models.F("used")),
                    ("used__gte", 0),
                ),
                name="usage_never_negative",
                violation_error_message="Usage cannot be negative.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="pool",
            name="pool_name_separator",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("name__contains", "--"), ("parent__isnull", True), _negated=True),
                    models.Q(("parent__isnull", False), ("subpool_name__contains", "--"), _negated=True),
                ),
                name="pool_name_separator",
                violation_error_message="A name cannot contain '--', which separates a pool from its subpool.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="pool",
            name="pool_is_root_or_slice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("backend__isnull", False),
                        ("last_quota__isnull", True),
                        ("parent__isnull", True),
                        ("subpool_name__isnull", True),
                        ("subpool_state__isnull", True),
                    ),
                    models.Q(
                        ("archived", False),
                        ("backend__isnull", True),
                        ("cohort__isnull", True),
                        ("config", {}),
                        ("description", ""),
                        ("enable_maintenance", False),
                        ("guarantee__isnull", True),
                        ("last_quota__gte", 0),
                        ("maximum__isnull", True),
                        ("parent__isnull", False),
                        ("subpool_name__isnull", False),
                        (
                            "subpool_state__in",
                            [
                                "ACTIVE",
                                "DELETING",
                                "ARCHIVED",
                            ],
                        ),
                        ("weight__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="pool_is_root_or_slice",
                violation_error_message="A subpool owns only name, quota and state; all else belongs to its parent.",
            ),
        ),
        migrations.AlterConstraint(
            model_name="pool",
            name="pool_lends_what_it_has",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lending_limit__isnull", True),
                    ("guarantee__isnull", True),
                    ("guarantee", -1),
                    ("lending_limit__lte", models.F("guarantee")),
                    _connector="OR",
                ),
                name="pool_lends_what_it_has",
                violation_error_message="A pool cannot lend more than its quota (guarantee).",
            ),
        ),
        migrations.AlterConstraint(
            model_name="pool",
            name="pool_archived_has_no_cohort",
            constraint=models.CheckConstraint(
                condition=models.Q(("archived", False), ("cohort__isnull", True), _connector="OR"),
                name="pool_archived_has_no_cohort",
                violation_error_message="An archived pool cannot be in a cohort.",
            ),
        ),
    ]
