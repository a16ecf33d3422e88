"""All tables of the ledger at once, for a new database: it takes half the time of the migrations that it replaces. An
installation that has some of these continues with them; `tests/upgrade` checks that both ways give the same tables."""

import django.contrib.auth.models
import django.contrib.auth.validators
import django.core.validators
import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.datetime
import django.utils.timezone
import pgtrigger.compiler
import pgtrigger.migrations
import pools.models.audit
import uuid
from decimal import Decimal
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("pools", "0001_initial"),
        ("pools", "0002_kubernetes_backends"),
        ("pools", "0003_cohorts"),
        ("pools", "0004_gpu_quota"),
        ("pools", "0005_ledger_generation"),
        ("pools", "0006_settings_move_generation"),
        ("pools", "0007_kept_offline"),
        ("pools", "0008_gpu_alerts_by_amount"),
        ("pools", "0009_field_words"),
        ("pools", "0010_people_limits"),
        ("pools", "0011_raw_writes_refused"),
        ("pools", "0012_configuration_entries"),
        ("pools", "0013_gpu_namespace_index"),
        ("pools", "0014_temporary_quota"),
        ("pools", "0015_sign_on"),
        ("pools", "0016_start_policy"),
        ("pools", "0017_client_login"),
        ("pools", "0018_owned_by_git"),
        ("pools", "0019_notices"),
        ("pools", "0020_notice_counts"),
        ("pools", "0021_saved_views"),
        ("pools", "0022_token_use"),
        ("pools", "0023_configuration_refused"),
        ("pools", "0024_approvals"),
        ("pools", "0025_approval_notices"),
    ]

    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("time", models.DateTimeField()),
                ("actor", models.TextField()),
                ("action", models.TextField()),
                ("object", models.TextField()),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("description", models.TextField(blank=True)),
                ("request_id", models.TextField(blank=True)),
                ("pool_id", models.BigIntegerField(null=True)),
                ("owner", models.TextField(null=True)),
                ("transaction", pools.models.audit.TransactionIdField()),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["object", "-id"], name="audit_object"),
                    models.Index(fields=["pool_id", "-id"], name="audit_pool"),
                    models.Index(
                        condition=models.Q(("action__startswith", "pool.")),
                        fields=["pool_id", "-id"],
                        name="audit_pool_config",
                    ),
                    models.Index(
                        condition=models.Q(("action__startswith", "workflow."), _negated=True),
                        fields=["-id"],
                        name="audit_configuration",
                    ),
                    models.Index(fields=["actor", "-id"], name="audit_actor"),
                    models.Index(fields=["owner", "-id"], name="audit_owner"),
                    models.Index(fields=["time"], name="audit_time"),
                    models.Index(fields=["transaction", "id"], name="audit_stream"),
                ],
            },
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
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'Entries of the audit trail are written by the changes themselves, not by hand.' USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_follows_changes', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="83875bf57c06b9c30a599b1e49fbc001a8fc9570",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_protect_derived_ffa5e",
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
        migrations.CreateModel(
            name="ConfigRevision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("config_type", models.TextField()),
                ("revision", models.PositiveIntegerField()),
                ("name", models.TextField(blank=True)),
                ("username", models.TextField()),
                ("description", models.TextField(blank=True)),
                ("tags", models.JSONField(null=True)),
                ("audit_id", models.BigIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("deleted_at", models.DateTimeField(null=True)),
                ("deleted_by", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-revision"],
                "constraints": [
                    models.UniqueConstraint(fields=("config_type", "revision"), name="revision_once_per_type")
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configrevision",
            trigger=pgtrigger.compiler.Trigger(
                name="keeps_content",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF to_jsonb(NEW) - ARRAY['tags', 'deleted_at', 'deleted_by'] IS DISTINCT FROM to_jsonb(OLD) - ARRAY['tags', 'deleted_at', 'deleted_by'] THEN\n                        RAISE EXCEPTION 'Revision % cannot change, except its tags.', OLD.revision USING ERRCODE = 'check_violation', CONSTRAINT = 'revision_is_history', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="aedf4a97f244406d6097710e2f7c8175e40af32c",
                    operation="UPDATE",
                    pgid="pgtrigger_keeps_content_5ec20",
                    table="pools_configrevision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configrevision",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'Revisions of the configuration cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="863e5e16c37cdbf95bccb8a508f1201105f9f57b",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_303d1",
                    table="pools_configrevision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configrevision",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of revisions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="8e9de4e9bf5c3711ecd4130b3c016b96a7485a9e",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_0e8b9",
                    table="pools_configrevision",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ConfigurationOwner",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("backend", "backend"),
                            ("pool", "pool"),
                            ("cohort", "cohort"),
                            ("gpu_quota", "gpu_quota"),
                            ("role", "role"),
                            ("config", "config"),
                        ]
                    ),
                ),
                ("name", models.TextField()),
                ("source", models.TextField()),
                ("path", models.TextField(blank=True)),
                ("commit", models.TextField(blank=True)),
                ("subpools", models.BooleanField(default=False)),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["kind", "name"],
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "name"), name="one_owner"),
                    models.CheckConstraint(
                        condition=models.Q(("source", ""), _negated=True),
                        name="owner_has_source",
                        violation_error_message="An object that Git owns has a source.",
                    ),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configurationowner",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'owner.taken' WHEN 'DELETE' THEN 'owner.released' ELSE 'owner.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'owner/' || COALESCE(NEW.kind, OLD.kind) || '/' || COALESCE(NEW.name, OLD.name), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    CASE WHEN COALESCE(NEW.kind, OLD.kind) = 'pool' THEN\n                    (SELECT id FROM pools_pool WHERE name = COALESCE(NEW.name, OLD.name)) END, NULL::text, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="8a58911398ebe5418a93b8c1c2d3167eec10fa7e",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_82b40",
                    table="pools_configurationowner",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="configurationowner",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of owners cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="9d3a3a08c0ee8d6447559fbece0672bd67ff7d0a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_56fd8",
                    table="pools_configurationowner",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="Backend",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField(unique=True)),
                (
                    "kind",
                    models.TextField(
                        choices=[("simulated", "Simulated"), ("kubernetes", "Kubernetes")], default="simulated"
                    ),
                ),
                (
                    "namespace",
                    models.TextField(
                        default="default",
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z", "Use lower-case letters, digits and hyphens."
                            )
                        ],
                    ),
                ),
                ("description", models.TextField(blank=True)),
                ("auto_end", models.BooleanField(default=True)),
                ("reserve_after", models.PositiveIntegerField(default=3600, null=True)),
                ("ageing", models.PositiveIntegerField(default=14400, null=True)),
                ("offline", models.BooleanField(default=False)),
                ("offline_requested", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("name__regex", "^[a-z]([a-z0-9-]*[a-z0-9])?$")),
                        name="backend_name_rule",
                        violation_error_message="A backend name has lower-case letters, digits and hyphens, a letter first.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("namespace__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                        name="backend_namespace_rule",
                        violation_error_message="A namespace has at most 63 lower-case letters, digits and hyphens.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("offline_requested", False), ("offline", True), _connector="OR"),
                        name="offline_request_is_offline",
                        violation_error_message="A backend that is requested offline is offline, though its cluster answers.",
                    ),
                ],
            },
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
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'offline', 'offline_requested'] = to_jsonb(OLD) - ARRAY['version', 'offline', 'offline_requested'] THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.name, NEW.name);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'backend' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="6e6d4ef82e076e70d0757ecd438f319fefefbf03",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_ef8b9",
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
        migrations.CreateModel(
            name="Cohort",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField(unique=True)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="pools.cohort",
                    ),
                ),
                ("explicit", models.BooleanField(default=True)),
                ("quotas", models.JSONField(default=dict)),
                ("weight", models.DecimalField(decimal_places=9, default=Decimal(1), max_digits=19)),
                ("inactive_since", models.DateTimeField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("name__regex", "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"),
                            models.Q(("name__contains", "--"), _negated=True),
                        ),
                        name="cohort_name_rule",
                        violation_error_message="A cohort's name has lower-case letters, digits and single hyphens.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("weight", 0), models.Q(("weight__gt", 0), ("weight__lte", 1000000000)), _connector="OR"
                        ),
                        name="cohort_weight",
                        violation_error_message="A weight is 0 or more.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("explicit", True),
                            models.Q(("parent__isnull", True), ("quotas", {}), ("weight", 1)),
                            _connector="OR",
                        ),
                        name="cohort_named_is_bare",
                        violation_error_message="An implicit cohort has no quota, no limits and no parent.",
                    ),
                ],
            },
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
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'updated_at', 'inactive_since'] = to_jsonb(OLD) - ARRAY['version', 'updated_at', 'inactive_since'] THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.name, NEW.name);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'cohort' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="24c9916c1eb06f9adfc3be04ca1b91d421e8c3ed",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_552da",
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
        migrations.CreateModel(
            name="GpuAllocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("workload", models.TextField(blank=True)),
                ("request_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("request_vram", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("limit_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("limit_vram", models.DecimalField(decimal_places=3, default=0, max_digits=22)),
                ("count", models.PositiveIntegerField(default=1)),
                ("families", models.TextField(default="DDDD")),
                ("written", models.JSONField(default=list)),
                (
                    "state",
                    models.TextField(
                        choices=[("assumed", "Assumed"), ("committed", "Committed"), ("released", "Released")],
                        default="committed",
                    ),
                ),
                (
                    "source",
                    models.TextField(choices=[("api", "Api"), ("workflow", "Workflow"), ("pod", "Pod")], default="api"),
                ),
                ("holder", models.UUIDField(null=True)),
                (
                    "backend",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.backend"
                    ),
                ),
                ("expires_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("released_at", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["namespace", "-id"], name="gpu_allocation_newest"),
                    models.Index(fields=["namespace", "name"], name="gpu_allocation_by_name"),
                    models.Index(
                        condition=models.Q(("state", "released"), _negated=True),
                        fields=["holder"],
                        name="gpu_allocation_holder",
                    ),
                    models.Index(
                        condition=models.Q(("state", "assumed")), fields=["expires_at"], name="gpu_allocation_expiry"
                    ),
                    models.Index(
                        condition=models.Q(("released_at__isnull", False)),
                        fields=["released_at"],
                        name="gpu_allocation_released",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "released"), _negated=True),
                        fields=("namespace", "name"),
                        name="gpu_allocation_live_once",
                        violation_error_message="An active allocation with that id exists already.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("count__gte", 1),
                            ("limit_tflops__gte", 0),
                            ("limit_vram__gte", 0),
                            ("request_tflops__gte", 0),
                            ("request_vram__gte", 0),
                        ),
                        name="gpu_allocation_amounts",
                        violation_error_message="An allocation has at least one GPU and no negative amount.",
                    ),
                    models.CheckConstraint(
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
                ],
            },
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
                name="count_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            \n        INSERT INTO pools_gpuusage (namespace, requests_tflops, requests_vram, limits_tflops, limits_vram, workers, assumed_requests_tflops, assumed_requests_vram, assumed_limits_tflops, assumed_limits_vram, assumed_workers, families, revision)\n        SELECT DISTINCT namespace, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'DDDD', 0 FROM new_rows ORDER BY 1 ON CONFLICT DO NOTHING;\n    \n            UPDATE pools_gpuusage usage SET requests_tflops = usage.requests_tflops + moved.requests_tflops, requests_vram = usage.requests_vram + moved.requests_vram, limits_tflops = usage.limits_tflops + moved.limits_tflops, limits_vram = usage.limits_vram + moved.limits_vram, workers = usage.workers + moved.workers, assumed_requests_tflops = usage.assumed_requests_tflops + moved.assumed_requests_tflops, assumed_requests_vram = usage.assumed_requests_vram + moved.assumed_requests_vram, assumed_limits_tflops = usage.assumed_limits_tflops + moved.assumed_limits_tflops, assumed_limits_vram = usage.assumed_limits_vram + moved.assumed_limits_vram, assumed_workers = usage.assumed_workers + moved.assumed_workers, families = CASE WHEN usage.requests_tflops + usage.assumed_requests_tflops = 0 THEN COALESCE(moved.f1, substr(usage.families, 1, 1)) ELSE substr(usage.families, 1, 1) END || CASE WHEN usage.requests_vram + usage.assumed_requests_vram = 0 THEN COALESCE(moved.f2, substr(usage.families, 2, 1)) ELSE substr(usage.families, 2, 1) END || CASE WHEN usage.limits_tflops + usage.assumed_limits_tflops = 0 THEN COALESCE(moved.f3, substr(usage.families, 3, 1)) ELSE substr(usage.families, 3, 1) END || CASE WHEN usage.limits_vram + usage.assumed_limits_vram = 0 THEN COALESCE(moved.f4, substr(usage.families, 4, 1)) ELSE substr(usage.families, 4, 1) END,\n                revision = usage.revision + 1, changed_at = clock_timestamp()\n            FROM (\n                SELECT namespace, sum(requests_tflops) AS requests_tflops, sum(requests_vram) AS requests_vram, sum(limits_tflops) AS limits_tflops, sum(limits_vram) AS limits_vram, sum(workers) AS workers, sum(assumed_requests_tflops) AS assumed_requests_tflops, sum(assumed_requests_vram) AS assumed_requests_vram, sum(assumed_limits_tflops) AS assumed_limits_tflops, sum(assumed_limits_vram) AS assumed_limits_vram, sum(assumed_workers) AS assumed_workers, min(f1) AS f1, min(f2) AS f2, min(f3) AS f3, min(f4) AS f4 FROM (SELECT namespace, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM new_rows) rows GROUP BY namespace\n            ) moved\n            WHERE usage.namespace = moved.namespace;\n            RETURN NULL;\n        ",
                    hash="33c5d76035f9c11ca8b746a00ce3f3a08b22cb55",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_count_insert_7a38f",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            \n            UPDATE pools_gpuusage usage SET requests_tflops = usage.requests_tflops + moved.requests_tflops, requests_vram = usage.requests_vram + moved.requests_vram, limits_tflops = usage.limits_tflops + moved.limits_tflops, limits_vram = usage.limits_vram + moved.limits_vram, workers = usage.workers + moved.workers, assumed_requests_tflops = usage.assumed_requests_tflops + moved.assumed_requests_tflops, assumed_requests_vram = usage.assumed_requests_vram + moved.assumed_requests_vram, assumed_limits_tflops = usage.assumed_limits_tflops + moved.assumed_limits_tflops, assumed_limits_vram = usage.assumed_limits_vram + moved.assumed_limits_vram, assumed_workers = usage.assumed_workers + moved.assumed_workers, families = CASE WHEN usage.requests_tflops + usage.assumed_requests_tflops = 0 THEN COALESCE(moved.f1, substr(usage.families, 1, 1)) ELSE substr(usage.families, 1, 1) END || CASE WHEN usage.requests_vram + usage.assumed_requests_vram = 0 THEN COALESCE(moved.f2, substr(usage.families, 2, 1)) ELSE substr(usage.families, 2, 1) END || CASE WHEN usage.limits_tflops + usage.assumed_limits_tflops = 0 THEN COALESCE(moved.f3, substr(usage.families, 3, 1)) ELSE substr(usage.families, 3, 1) END || CASE WHEN usage.limits_vram + usage.assumed_limits_vram = 0 THEN COALESCE(moved.f4, substr(usage.families, 4, 1)) ELSE substr(usage.families, 4, 1) END,\n                revision = usage.revision + 1, changed_at = clock_timestamp()\n            FROM (\n                SELECT namespace, sum(requests_tflops) AS requests_tflops, sum(requests_vram) AS requests_vram, sum(limits_tflops) AS limits_tflops, sum(limits_vram) AS limits_vram, sum(workers) AS workers, sum(assumed_requests_tflops) AS assumed_requests_tflops, sum(assumed_requests_vram) AS assumed_requests_vram, sum(assumed_limits_tflops) AS assumed_limits_tflops, sum(assumed_limits_vram) AS assumed_limits_vram, sum(assumed_workers) AS assumed_workers, min(f1) AS f1, min(f2) AS f2, min(f3) AS f3, min(f4) AS f4 FROM (SELECT namespace, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM old_rows UNION ALL SELECT namespace, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN 1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN 1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN 1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM new_rows) rows GROUP BY namespace\n            ) moved\n            WHERE usage.namespace = moved.namespace;\n            RETURN NULL;\n        ",
                    hash="3d50226d35648da7a5726986d8fe0622b65ebe1b",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_count_update_add44",
                    referencing="REFERENCING OLD TABLE AS old_rows  NEW TABLE AS new_rows ",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="count_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n            \n            UPDATE pools_gpuusage usage SET requests_tflops = usage.requests_tflops + moved.requests_tflops, requests_vram = usage.requests_vram + moved.requests_vram, limits_tflops = usage.limits_tflops + moved.limits_tflops, limits_vram = usage.limits_vram + moved.limits_vram, workers = usage.workers + moved.workers, assumed_requests_tflops = usage.assumed_requests_tflops + moved.assumed_requests_tflops, assumed_requests_vram = usage.assumed_requests_vram + moved.assumed_requests_vram, assumed_limits_tflops = usage.assumed_limits_tflops + moved.assumed_limits_tflops, assumed_limits_vram = usage.assumed_limits_vram + moved.assumed_limits_vram, assumed_workers = usage.assumed_workers + moved.assumed_workers, families = CASE WHEN usage.requests_tflops + usage.assumed_requests_tflops = 0 THEN COALESCE(moved.f1, substr(usage.families, 1, 1)) ELSE substr(usage.families, 1, 1) END || CASE WHEN usage.requests_vram + usage.assumed_requests_vram = 0 THEN COALESCE(moved.f2, substr(usage.families, 2, 1)) ELSE substr(usage.families, 2, 1) END || CASE WHEN usage.limits_tflops + usage.assumed_limits_tflops = 0 THEN COALESCE(moved.f3, substr(usage.families, 3, 1)) ELSE substr(usage.families, 3, 1) END || CASE WHEN usage.limits_vram + usage.assumed_limits_vram = 0 THEN COALESCE(moved.f4, substr(usage.families, 4, 1)) ELSE substr(usage.families, 4, 1) END,\n                revision = usage.revision + 1, changed_at = clock_timestamp()\n            FROM (\n                SELECT namespace, sum(requests_tflops) AS requests_tflops, sum(requests_vram) AS requests_vram, sum(limits_tflops) AS limits_tflops, sum(limits_vram) AS limits_vram, sum(workers) AS workers, sum(assumed_requests_tflops) AS assumed_requests_tflops, sum(assumed_requests_vram) AS assumed_requests_vram, sum(assumed_limits_tflops) AS assumed_limits_tflops, sum(assumed_limits_vram) AS assumed_limits_vram, sum(assumed_workers) AS assumed_workers, min(f1) AS f1, min(f2) AS f2, min(f3) AS f3, min(f4) AS f4 FROM (SELECT namespace, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_tflops AS requests_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * request_vram AS requests_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_tflops AS limits_tflops, CASE WHEN state = 'committed' THEN -1 ELSE 0 END * count * limit_vram AS limits_vram, CASE WHEN state = 'committed' THEN -1 ELSE 0 END AS workers, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_tflops AS assumed_requests_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * request_vram AS assumed_requests_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_tflops AS assumed_limits_tflops, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END * count * limit_vram AS assumed_limits_vram, CASE WHEN state = 'assumed' THEN -1 ELSE 0 END AS assumed_workers, CASE WHEN state <> 'released' AND request_tflops > 0 THEN substr(families, 1, 1) END AS f1, CASE WHEN state <> 'released' AND request_vram > 0 THEN substr(families, 2, 1) END AS f2, CASE WHEN state <> 'released' AND limit_tflops > 0 THEN substr(families, 3, 1) END AS f3, CASE WHEN state <> 'released' AND limit_vram > 0 THEN substr(families, 4, 1) END AS f4 FROM old_rows) rows GROUP BY namespace\n            ) moved\n            WHERE usage.namespace = moved.namespace;\n            RETURN NULL;\n        ",
                    hash="81aade7969a44448d5f67b504a55d3bec8292900",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_count_delete_7571e",
                    referencing="REFERENCING OLD TABLE AS old_rows ",
                    table="pools_gpuallocation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuallocation",
            trigger=pgtrigger.compiler.Trigger(
                name="release_first",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.state <> 'released')",
                    func="RAISE EXCEPTION 'Allocation % is not released and cannot be deleted.', OLD.name USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_allocation_release_first', TABLE = TG_TABLE_NAME;",
                    hash="56565f8de8e591fea22ff7012ae61cd85a00a727",
                    operation="DELETE",
                    pgid="pgtrigger_release_first_bdb5d",
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
        migrations.CreateModel(
            name="GpuQuota",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.TextField(unique=True)),
                ("spec", models.JSONField()),
                ("source", models.TextField(default="api")),
                ("faults", models.JSONField(default=list)),
                ("conditions", models.JSONField(default=list)),
                ("alerting", models.JSONField(default=list)),
                ("alert_since", models.DateTimeField(null=True)),
                ("alerts", models.PositiveIntegerField(default=0)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["namespace"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("namespace__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                        name="gpu_quota_namespace_rule",
                        violation_error_message="A namespace has at most 63 lower-case letters, digits and hyphens.",
                    )
                ],
            },
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
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND (NEW.namespace, NEW.spec, NEW.source) = (OLD.namespace, OLD.spec, OLD.source) THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.namespace, NEW.namespace);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'gpu_quota' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="dc7eb3fbb1d3f43c18035a8e52c2fee1d43a27c2",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_494c8",
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
        migrations.CreateModel(
            name="GpuUsage",
            fields=[
                ("namespace", models.TextField(primary_key=True, serialize=False)),
                ("requests_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("requests_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("workers", models.BigIntegerField(default=0)),
                ("assumed_requests_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_requests_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_limits_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_limits_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("assumed_workers", models.BigIntegerField(default=0)),
                ("families", models.TextField(default="DDDD")),
                ("revision", models.BigIntegerField(default=0)),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
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
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gpuusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF pg_trigger_depth() > 1 AND TG_OP <> 'DELETE' THEN RETURN NEW; END IF;\n                    IF TG_OP = 'INSERT' AND NEW.requests_tflops = 0 AND NEW.requests_vram = 0 AND NEW.limits_tflops = 0 AND NEW.limits_vram = 0 AND NEW.workers = 0 AND NEW.assumed_requests_tflops = 0 AND NEW.assumed_requests_vram = 0 AND NEW.assumed_limits_tflops = 0 AND NEW.assumed_limits_vram = 0 AND NEW.assumed_workers = 0 THEN\n                        RETURN NEW;\n                    END IF;\n                    IF TG_OP = 'UPDATE' AND NEW.namespace = OLD.namespace\n                        AND current_setting('osmo.recount', true) = 'on'\n                    THEN\n                        SELECT COALESCE(sum(count * request_tflops) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * request_vram) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * limit_tflops) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * limit_vram) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(1) FILTER (WHERE state = 'committed'), 0), COALESCE(sum(count * request_tflops) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(count * request_vram) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(count * limit_tflops) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(count * limit_vram) FILTER (WHERE state = 'assumed'), 0), COALESCE(sum(1) FILTER (WHERE state = 'assumed'), 0) INTO NEW.requests_tflops, NEW.requests_vram, NEW.limits_tflops, NEW.limits_vram, NEW.workers, NEW.assumed_requests_tflops, NEW.assumed_requests_vram, NEW.assumed_limits_tflops, NEW.assumed_limits_vram, NEW.assumed_workers\n                            FROM pools_gpuallocation WHERE namespace = OLD.namespace AND state <> 'released';\n                        RETURN NEW;\n                    END IF;\n                    RAISE EXCEPTION 'The usage of a namespace follows its allocations; it cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'gpu_usage_follows_allocations', TABLE = TG_TABLE_NAME;\n                ",
                    hash="76d9e6c4ec1265097e7e6be58eb53ea23dd616b7",
                    operation="INSERT OR UPDATE OR DELETE",
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
        migrations.CreateModel(
            name="GpuUsageSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.TextField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("requests_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("requests_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_tflops", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("limits_vram", models.DecimalField(decimal_places=3, default=0, max_digits=40)),
                ("workers", models.BigIntegerField(default=0)),
            ],
            options={
                "ordering": ["namespace", "-at"],
                "indexes": [
                    models.Index(fields=["namespace", "-at"], name="gpu_usage_sample_newest"),
                    models.Index(fields=["at"], name="gpu_usage_sample_age"),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_id", models.BigIntegerField()),
                ("token_id", models.BigIntegerField()),
                ("address", models.TextField()),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("response", models.JSONField(null=True)),
                ("size", models.PositiveIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user_id", "token_id", "address", "key"), name="idempotency_key_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Pool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField(unique=True)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="subpools", to="pools.pool"
                    ),
                ),
                ("subpool_name", models.TextField(null=True)),
                (
                    "subpool_state",
                    models.TextField(
                        choices=[
                            (
                                "ACTIVE",
                                "ACTIVE",
                            ),
                            (
                                "DELETING",
                                "DELETING",
                            ),
                            (
                                "ARCHIVED",
                                "ARCHIVED",
                            ),
                        ],
                        null=True,
                    ),
                ),
                ("last_quota", models.IntegerField(null=True)),
                ("quota_until", models.DateTimeField(null=True)),
                ("quota_after", models.IntegerField(null=True)),
                ("archived", models.BooleanField(default=False)),
                (
                    "backend",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="pools", to="pools.backend"
                    ),
                ),
                ("description", models.TextField(blank=True)),
                ("guarantee", models.IntegerField(null=True)),
                ("maximum", models.IntegerField(null=True)),
                ("weight", models.IntegerField(null=True)),
                (
                    "cohort",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="pools", to="pools.cohort"
                    ),
                ),
                ("borrowing_limit", models.IntegerField(null=True)),
                ("lending_limit", models.IntegerField(null=True)),
                ("enable_maintenance", models.BooleanField(default=False)),
                ("config", models.JSONField(default=dict)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["name"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("quota_until__isnull", False)),
                        fields=["quota_until"],
                        name="pool_quota_until",
                    ),
                    models.Index(
                        django.db.models.fields.json.KeyTextTransform("gpu_quota_namespace", "config"),
                        condition=models.Q(("archived", False), ("backend__isnull", False), ("parent__isnull", True)),
                        name="pool_of_gpu_namespace",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("parent", "subpool_name"), name="subpool_name_once_per_parent"),
                    models.CheckConstraint(
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
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("quota_after__isnull", True), ("quota_until__isnull", True)),
                            models.Q(
                                ("parent__isnull", False),
                                ("quota_after__gte", 0),
                                ("quota_after__isnull", False),
                                ("quota_after__lt", models.F("last_quota")),
                                ("quota_until__isnull", False),
                                ("subpool_state", "ACTIVE"),
                            ),
                            _connector="OR",
                        ),
                        name="temporary_quota_is_a_raise",
                        violation_error_message="A temporary quota belongs to an ACTIVE subpool, ends, and is above the quota that follows it.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("name__regex", "^[a-z]([a-z0-9-]*[a-z0-9])?$"), ("parent__isnull", True)),
                            models.Q(
                                ("parent__isnull", False), ("subpool_name__regex", "^[a-z]([a-z0-9-]*[a-z0-9])?$")
                            ),
                            _connector="OR",
                        ),
                        name="pool_name_rule",
                        violation_error_message="Names have lower-case letters, digits and hyphens, a letter first.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("name__contains", "--"), ("parent__isnull", True), _negated=True),
                            models.Q(("parent__isnull", False), ("subpool_name__contains", "--"), _negated=True),
                        ),
                        name="pool_name_separator",
                        violation_error_message="A name cannot contain '--', which separates a pool from its subpool.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("guarantee__isnull", True), ("guarantee__gte", -1), _connector="OR"),
                            models.Q(("maximum__isnull", True), ("maximum__gte", -1), _connector="OR"),
                            models.Q(("weight__isnull", True), ("weight__gte", 0), _connector="OR"),
                        ),
                        name="pool_no_negative_quota",
                        violation_error_message="A quota is 0 or more GPUs; -1 means unlimited.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("cohort__isnull", False),
                            models.Q(("borrowing_limit__isnull", True), ("lending_limit__isnull", True)),
                            _connector="OR",
                        ),
                        name="pool_limits_need_cohort",
                        violation_error_message="Only a pool in a cohort has a borrowing or a lending limit.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("borrowing_limit__isnull", True), ("borrowing_limit__gte", 0), _connector="OR"),
                            models.Q(("lending_limit__isnull", True), ("lending_limit__gte", 0), _connector="OR"),
                        ),
                        name="pool_no_negative_limit",
                        violation_error_message="A limit is 0 or more GPUs.",
                    ),
                    models.CheckConstraint(
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
                    models.CheckConstraint(
                        condition=models.Q(("archived", False), ("cohort__isnull", True), _connector="OR"),
                        name="pool_archived_has_no_cohort",
                        violation_error_message="An archived pool cannot be in a cohort.",
                    ),
                ],
            },
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
                name="delete_counters",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="DELETE FROM pools_leafusage WHERE pool_id = OLD.id; RETURN NULL;",
                    hash="de67ec68d3f5108129e4fa7dead20c57ce665ea3",
                    operation="DELETE",
                    pgid="pgtrigger_delete_counters_0e7d5",
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
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF COALESCE(OLD.parent_id, NEW.parent_id) IS NOT NULL OR TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'updated_at'] = to_jsonb(OLD) - ARRAY['version', 'updated_at'] THEN RETURN NULL; END IF;\n                subject := COALESCE(OLD.name, NEW.name);\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'pool' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="3b2c74ccaf7518a025ddb1754d268342723c2e96",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_a83e7",
                    table="pools_pool",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="pool",
            trigger=pgtrigger.compiler.Trigger(
                name="subpools_owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF COALESCE(OLD.parent_id, NEW.parent_id) IS NULL OR TG_OP = 'UPDATE' AND (\n                    (NEW.subpool_state, NEW.last_quota, NEW.quota_until) IS NOT DISTINCT FROM\n                        (OLD.subpool_state, OLD.last_quota, OLD.quota_until)\n                    OR OLD.subpool_state = 'DELETING'\n                    OR OLD.quota_until <= clock_timestamp() AND NEW.quota_until IS NULL\n                        AND NEW.last_quota = OLD.quota_after AND NEW.subpool_state = OLD.subpool_state\n                ) THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM pools_pool WHERE id = COALESCE(OLD.parent_id, NEW.parent_id));\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'pool' AND name = subject AND subpools;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="eb00dc25540e9354a464fa4666c454c2b3d1d3d9",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_subpools_owned_by_git_ce7db",
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
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="nodes", to="pools.backend"
                    ),
                ),
                ("name", models.TextField()),
                ("gpus", models.PositiveIntegerField()),
                ("cpu", models.PositiveIntegerField(default=128)),
                ("memory_bytes", models.PositiveBigIntegerField(default=1099511627776)),
                ("storage_bytes", models.PositiveBigIntegerField(default=4398046511104)),
                ("platform", models.TextField(default="default")),
            ],
            options={
                "ordering": ["backend", "name"],
                "constraints": [models.UniqueConstraint(fields=("backend", "name"), name="node_unique_in_backend")],
            },
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
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM pools_backend WHERE id = COALESCE(OLD.backend_id, NEW.backend_id) AND kind = 'simulated');\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'backend' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="894381e6b18f8f576add1c1cd4f1690dc125c90b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_ec639",
                    table="pools_node",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="node",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of nodes cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="6cb7e619ee432b3204a21cc01b985a02e152af76",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_38990",
                    table="pools_node",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="NoticeProgress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("transaction", models.TextField()),
                ("entry", models.BigIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("delivered", models.BigIntegerField(default=0)),
                ("dead", models.BigIntegerField(default=0)),
                ("failures", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="QuotaStamp",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("stamp", models.UUIDField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)),
                        name="one_quota_stamp",
                        violation_error_message="There is one stamp.",
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="quotastamp",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'The stamp of the quotas follows them; it cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'stamp_follows_quotas', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="474c9034e9b6d05e197aeb86133085b0beac34b7",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_derived_3144b",
                    table="pools_quotastamp",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="quotastamp",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of the stamp cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e8d1e4088a11eeb8f9a0fc517a96fd721215bb6b",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_bb1e4",
                    table="pools_quotastamp",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                ("workflow", models.UUIDField(primary_key=True, serialize=False)),
                ("workflow_name", models.TextField()),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="reservations", to="pools.pool"
                    ),
                ),
                ("owner", models.TextField()),
                ("priority", models.TextField()),
                ("held_gpus", models.PositiveIntegerField(default=0)),
                ("needed_gpus", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("held_since", models.DateTimeField(null=True)),
            ],
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
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                ("created_by", models.TextField(blank=True)),
                ("default_pool", models.TextField(blank=True)),
                ("email_notification", models.BooleanField(default=False)),
                ("slack_notification", models.BooleanField(default=False)),
                ("password_login_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "ordering": ["username"],
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['last_login']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['last_login']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'user.created' WHEN 'DELETE' THEN 'user.deleted' ELSE CASE WHEN OLD.password <> NEW.password THEN 'user.password_changed' WHEN NEW.password_login_at IS DISTINCT FROM OLD.password_login_at THEN 'user.logged_in_by_password' ELSE 'user.updated' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || COALESCE(NEW.username, OLD.username), before_row - ARRAY['password']::text[], after_row - ARRAY['password']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, COALESCE(NEW.username, OLD.username), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="df108c64afedd8f562e036a57d5fe60997798ef4",
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
        migrations.CreateModel(
            name="NoticeCondition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            (
                                "workflow_ended",
                                "workflow_ended",
                            ),
                            (
                                "preempted",
                                "preempted",
                            ),
                            (
                                "long_wait",
                                "long_wait",
                            ),
                            ("drain", "drain"),
                            (
                                "quota_nearly_used",
                                "quota_nearly_used",
                            ),
                            ("approval", "approval"),
                            ("job_late", "job_late"),
                            (
                                "cluster_silent",
                                "cluster_silent",
                            ),
                            (
                                "configuration_refused",
                                "configuration_refused",
                            ),
                            ("test", "test"),
                        ]
                    ),
                ),
                ("subject", models.TextField()),
                (
                    "pool",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="pools.pool"
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("message", models.TextField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("kind", "subject"), name="notice_condition_once")],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticecondition",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'condition.began' WHEN 'DELETE' THEN 'condition.ended' ELSE 'condition.updated' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'condition/' || COALESCE(NEW.kind, OLD.kind) || '/' || COALESCE(NEW.subject, OLD.subject), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.pool_id, OLD.pool_id), (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="4fe6c1744d8c245cf27fc7d3320d7e4813368e40",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_0dc39",
                    table="pools_noticecondition",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticecondition",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of conditions cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="e28bf9d27d68c5016f53dba4d82979a706e03c44",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_6dc87",
                    table="pools_noticecondition",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="NoticeTarget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_targets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.pool",
                    ),
                ),
                (
                    "channel",
                    models.TextField(
                        choices=[
                            ("webhook", "webhook"),
                            ("mail", "mail"),
                            ("apprise", "apprise"),
                            ("slack", "slack"),
                        ]
                    ),
                ),
                ("sealed_address", models.TextField(blank=True)),
                ("shown_address", models.TextField(blank=True)),
                ("sealed_secret", models.TextField(blank=True)),
                ("kinds", models.JSONField(default=list)),
                ("pools", models.JSONField(default=list)),
                ("is_enabled", models.BooleanField(default=True)),
                ("is_profile", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("failures", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField(blank=True, null=True)),
                ("off_reason", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("user__isnull", True), ("pool__isnull", True), _connector="OR"),
                        name="notice_target_has_one_owner",
                        violation_error_message="A target of notices belongs to a person, a pool or the installation.",
                    ),
                    models.UniqueConstraint(
                        fields=("user", "pool", "name"), name="notice_target_name_once", nulls_distinct=False
                    ),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticetarget",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['failures', 'retry_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['failures', 'retry_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'notice_target.created' WHEN 'UPDATE' THEN 'notice_target.updated' ELSE 'notice_target.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'notice_target/' || COALESCE((SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)) || '/', (SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id)) || '/', '') || COALESCE(NEW.name, OLD.name), before_row - ARRAY['sealed_address', 'sealed_secret']::text[], after_row - ARRAY['sealed_address', 'sealed_secret']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    COALESCE(NEW.pool_id, OLD.pool_id), (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="d4582d09931fea7e22c6db1c186b17efc7110910",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_93110",
                    table="pools_noticetarget",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticetarget",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of targets of notices cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="7aabfaef0155cf3749d2e5d0aa7421b2e2b48a0f",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_fa6f5",
                    table="pools_noticetarget",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("message_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "target",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="pools.noticetarget",
                    ),
                ),
                ("entry", models.BigIntegerField(null=True)),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            (
                                "workflow_ended",
                                "workflow_ended",
                            ),
                            (
                                "preempted",
                                "preempted",
                            ),
                            (
                                "long_wait",
                                "long_wait",
                            ),
                            ("drain", "drain"),
                            (
                                "quota_nearly_used",
                                "quota_nearly_used",
                            ),
                            ("approval", "approval"),
                            ("job_late", "job_late"),
                            (
                                "cluster_silent",
                                "cluster_silent",
                            ),
                            (
                                "configuration_refused",
                                "configuration_refused",
                            ),
                            ("test", "test"),
                        ]
                    ),
                ),
                ("subject", models.TextField()),
                ("title", models.TextField()),
                ("text", models.TextField()),
                ("data", models.JSONField(default=dict)),
                (
                    "status",
                    models.TextField(
                        choices=[("waiting", "Waiting"), ("delivered", "Delivered"), ("dead", "Dead")],
                        default="waiting",
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("attempted_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "waiting")), fields=["target", "id"], name="notice_waiting"
                    ),
                    models.Index(fields=["target", "-id"], name="notice_by_target"),
                    models.Index(fields=["status", "created_at"], name="notice_by_status"),
                ],
                "constraints": [models.UniqueConstraint(fields=("target", "entry"), name="notice_once_per_target")],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.status <> 'waiting' AND NEW.status = 'waiting')",
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := 'notice.replayed';\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'notice/' || NEW.message_id, before_row - ARRAY['text', 'data']::text[], after_row - ARRAY['text', 'data']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    (SELECT pool_id FROM pools_noticetarget WHERE id = NEW.target_id), (SELECT username FROM pools_noticetarget target JOIN pools_user account ON account.id = target.user_id WHERE target.id = NEW.target_id), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="3711f24e84b035479e82f0992ee494ab600d873b",
                    operation="UPDATE",
                    pgid="pgtrigger_audit_1aacf",
                    table="pools_notice",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of notices cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="3b72a2c18fb7898927d4c382f5353a6f309949c6",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_66dd6",
                    table="pools_notice",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="RoleAssignment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                ("group", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.group")),
                ("assigned_by", models.TextField(blank=True)),
                ("assigned_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "group"), name="role_once_per_user")],
            },
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
            model_name="roleassignment",
            trigger=pgtrigger.compiler.Trigger(
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND (NEW.user_id, NEW.group_id) = (OLD.user_id, OLD.group_id) THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM auth_group WHERE id = COALESCE(OLD.group_id, NEW.group_id));\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'role' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="9a1e3639ee55dac3fec6beb5a3b251a732be28ab",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_99476",
                    table="pools_roleassignment",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="roleassignment",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of roles cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="af4de83790e3c55f7f5d564f76853b6d7fb834d1",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_adb5f",
                    table="pools_roleassignment",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("page", models.CharField(max_length=32)),
                ("name", models.CharField(max_length=40)),
                ("query", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["page", "name"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "page", "name"),
                        name="saved_view_name_once",
                        violation_error_message="This list has a view of this name already.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SignOnIdentity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("provider", models.TextField()),
                ("issuer", models.TextField()),
                ("subject", models.TextField()),
                ("username", models.TextField(blank=True)),
                ("email", models.TextField(blank=True)),
                ("groups", models.JSONField(blank=True, default=list)),
                ("linked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("signed_on_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("checked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("valid_until", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("session_until", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("epoch", models.BigIntegerField(default=0)),
                ("refresh_token", models.TextField(blank=True)),
                ("id_token", models.TextField(blank=True)),
                ("session_id", models.TextField(blank=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["user", "provider"],
                "indexes": [models.Index(fields=["checked_at"], name="sign_on_checked")],
                "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="subject_once_per_issuer")],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="signonidentity",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['checked_at', 'valid_until', 'session_until', 'refresh_token', 'id_token', 'claimed_until']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['checked_at', 'valid_until', 'session_until', 'refresh_token', 'id_token', 'claimed_until']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'sign_on.linked' WHEN 'DELETE' THEN 'sign_on.unlinked' ELSE CASE WHEN NEW.epoch <> OLD.epoch THEN 'sign_on.ended' WHEN NEW.signed_on_at <> OLD.signed_on_at THEN 'sign_on.signed_on' ELSE 'sign_on.updated' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="8f433a56a9fd29a8c05070ef22a7950d71dce702",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_16268",
                    table="pools_signonidentity",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="signonidentity",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of accounts at identity providers cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="169a371e9df86c9cdc39d1c6ce3e05f8939a4f87",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_9813f",
                    table="pools_signonidentity",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="ClientLogin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("user_code", models.CharField(max_length=9, unique=True)),
                ("client_name", models.TextField(blank=True)),
                ("address", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "identity",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.signonidentity",
                    ),
                ),
                ("is_denied", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ["created_at"],
            },
        ),
        migrations.CreateModel(
            name="AccessToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("name", models.TextField()),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("description", models.TextField(blank=True)),
                ("roles", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="pools.accesstoken",
                    ),
                ),
                (
                    "identity",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="pools.signonidentity",
                    ),
                ),
            ],
            options={
                "ordering": ["owner", "name"],
                "constraints": [models.UniqueConstraint(fields=("owner", "name"), name="token_name_once_per_owner")],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['last_used_at']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['last_used_at']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'token.created' WHEN 'UPDATE' THEN 'token.updated' ELSE 'token.deleted' END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'token/' || COALESCE(NEW.name, OLD.name), before_row - ARRAY['digest']::text[] || jsonb_build_object('owner', (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))), after_row - ARRAY['digest']::text[] || jsonb_build_object('owner', (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))),\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, (SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id)), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="72854907109fd1218ba2567396fa1fc26caf0907",
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
                name="token_within_parent",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text; above text;",
                    func="\n        SELECT child.name, parent.name INTO wrong, above\n            FROM pools_accesstoken child JOIN pools_accesstoken parent ON parent.id = child.parent_id\n            WHERE (child.id = NEW.id OR parent.id = NEW.id) AND (\n                child.expires_at > parent.expires_at\n                OR parent.roles IS NOT NULL AND (\n                    child.roles IS NULL\n                    OR child.owner_id = parent.owner_id AND NOT child.roles <@ parent.roles\n                )\n            )\n            LIMIT 1;\n        IF wrong IS NOT NULL THEN\n            RAISE EXCEPTION 'The token % was made with the token %: it can neither have more roles nor live longer.', wrong, above USING ERRCODE = 'check_violation', CONSTRAINT = 'token_within_parent', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NULL;\n    ",
                    hash="e743fc94447d2ac3f3e261f0a7ba61c7bd2af2d1",
                    operation='INSERT OR UPDATE OF "owner_id", "parent_id", "roles", "expires_at"',
                    pgid="pgtrigger_token_within_parent_48728",
                    table="pools_accesstoken",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="accesstoken",
            trigger=pgtrigger.compiler.Trigger(
                name="digest_is_final",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update of \"digest\" rows from % table', TG_TABLE_NAME;",
                    hash="b64c6040f4fda63d14a5bbded61e3bf8b6c22cb2",
                    operation='UPDATE OF "digest"',
                    pgid="pgtrigger_digest_is_final_55767",
                    table="pools_accesstoken",
                    when="BEFORE",
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
        migrations.CreateModel(
            name="ApprovalRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "service",
                    models.TextField(
                        choices=[
                            ("put_pool", "put_pool"),
                            ("patch_pool", "patch_pool"),
                            ("delete_pool", "delete_pool"),
                            ("create_subpool", "create_subpool"),
                            ("resize_subpool", "resize_subpool"),
                            ("delete_subpool", "delete_subpool"),
                        ]
                    ),
                ),
                ("arguments", models.JSONField()),
                ("subject", models.TextField()),
                ("pool", models.TextField()),
                ("pool_id_then", models.BigIntegerField()),
                ("expected_version", models.IntegerField(null=True)),
                ("above", models.BigIntegerField()),
                ("needs", models.JSONField()),
                ("description", models.TextField(blank=True)),
                ("requested_by", models.TextField()),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("waiting", "waiting"),
                            ("approved", "approved"),
                            ("rejected", "rejected"),
                            ("withdrawn", "withdrawn"),
                            ("expired", "expired"),
                            ("superseded", "superseded"),
                        ],
                        default="waiting",
                    ),
                ),
                ("decided_by", models.TextField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_note", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["pool", "-id"], name="approval_pool")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "waiting")),
                        fields=("subject",),
                        name="approval_waits_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                (
                                    "state__in",
                                    [
                                        "approved",
                                        "rejected",
                                    ],
                                ),
                                _negated=True,
                            ),
                            models.Q(
                                ("decided_by__isnull", False),
                                models.Q(("decided_by", models.F("requested_by")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="approval_by_second_person",
                        violation_error_message="The requester cannot decide the own request: a second person approves or rejects it.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", True),
                                ("decided_by__isnull", True),
                                ("state", "waiting"),
                            ),
                            models.Q(
                                models.Q(("state", "waiting"), _negated=True),
                                ("decided_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="approval_decision_complete",
                        violation_error_message="A decided request has the time of its decision, a waiting one has none.",
                    ),
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="decided_once",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n                    IF OLD.state <> 'waiting' THEN\n                        RAISE EXCEPTION 'Request % is % already; a decision is final.', OLD.id, OLD.state USING ERRCODE = 'check_violation', CONSTRAINT = 'approval_is_final', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    IF to_jsonb(NEW) - ARRAY['state', 'decided_by', 'decided_at', 'decision_note'] IS DISTINCT FROM to_jsonb(OLD) - ARRAY['state', 'decided_by', 'decided_at', 'decision_note'] THEN\n                        RAISE EXCEPTION 'Request % cannot change: it is decided as it was made.', OLD.id USING ERRCODE = 'check_violation', CONSTRAINT = 'approval_keeps_content', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NEW;\n                ",
                    hash="1c371fcaa951499af1d3e206d415f592770f49ce",
                    operation="UPDATE",
                    pgid="pgtrigger_decided_once_8915c",
                    table="pools_approvalrequest",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD); END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW); END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE WHEN TG_OP = 'INSERT' THEN 'approval.requested' ELSE 'approval.' || NEW.state END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'approval/' || NEW.id, before_row, after_row,\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NEW.pool_id_then, NEW.requested_by, pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="35c7ac5830d301efb9603ad276fad819e29ca536",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_audit_316d8",
                    table="pools_approvalrequest",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="never_deleted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'An approval request cannot be deleted: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'never_deleted', TABLE = TG_TABLE_NAME;",
                    hash="94c9127de3cc261c1f8b881d5b86c178557c304c",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_never_deleted_3a976",
                    table="pools_approvalrequest",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="approvalrequest",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of approval requests cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="7934e9a917903c2f77ea2da69a07c8217a496684",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_17775",
                    table="pools_approvalrequest",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="KubernetesSettings",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kubernetes",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                (
                    "access",
                    models.TextField(
                        choices=[("kubeconfig", "Kubeconfig"), ("file", "File"), ("in_cluster", "In Cluster")]
                    ),
                ),
                ("sealed_kubeconfig", models.TextField(blank=True)),
                ("credential_mark", models.TextField(blank=True)),
                ("kubeconfig_file", models.TextField(blank=True)),
                ("context", models.TextField(blank=True)),
                ("server", models.TextField(blank=True)),
                ("scheduler_name", models.TextField(default="kai-scheduler")),
                ("node_pool_key", models.TextField(default="kai.scheduler/node-pool")),
                ("node_pool", models.TextField(blank=True)),
                (
                    "sync_mode",
                    models.TextField(
                        choices=[("apply", "Apply"), ("report", "Report"), ("off", "Off")], default="apply"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("access", "kubeconfig"),
                                ("kubeconfig_file", ""),
                                models.Q(("sealed_kubeconfig", ""), _negated=True),
                            ),
                            models.Q(
                                ("access", "file"),
                                ("sealed_kubeconfig", ""),
                                ("kubeconfig_file__regex", "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"),
                            ),
                            models.Q(("access", "in_cluster"), ("kubeconfig_file", ""), ("sealed_kubeconfig", "")),
                            _connector="OR",
                        ),
                        name="cluster_has_one_credential",
                        violation_error_message="A cluster is reached by a kubeconfig, by a file's name, or from inside it.",
                    )
                ],
            },
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
                name="owned_by_git",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE subject text; owner pools_configurationowner%ROWTYPE;",
                    func="\n                IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['sealed_kubeconfig', 'credential_mark', 'server'] = to_jsonb(OLD) - ARRAY['sealed_kubeconfig', 'credential_mark', 'server'] THEN RETURN NULL; END IF;\n                subject := (SELECT name FROM pools_backend WHERE id = COALESCE(OLD.backend_id, NEW.backend_id));\n                SELECT * INTO owner FROM pools_configurationowner\n                    WHERE kind = 'backend' AND name = subject ;\n                IF NOT FOUND OR owner.source = COALESCE(current_setting('osmo.source', true), '') THEN\n                    RETURN NULL;\n                END IF;\n                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '\n                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,\n                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),\n                        'commit ' || NULLIF(left(owner.commit, 12), '')),\n                    owner.kind, owner.name\n                    USING ERRCODE = 'check_violation', CONSTRAINT = 'owned_by_git', TABLE = TG_TABLE_NAME,\n                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,\n                        'commit', owner.commit)::text;\n            ",
                    hash="c50049653cf0c78684b70632a4f983188482378b",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_owned_by_git_fe78c",
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
        migrations.CreateModel(
            name="LedgerGeneration",
            fields=[
                (
                    "backend",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="generation",
                        serialize=False,
                        to="pools.backend",
                    ),
                ),
                ("number", models.BigIntegerField(default=0)),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledgergeneration",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'The generation of a backend follows its quotas; it cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'generation_follows_quotas', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="edc1839c2faff88a03a9d943e40ee69bb46df90e",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE",
                    pgid="pgtrigger_protect_derived_84c9a",
                    table="pools_ledgergeneration",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledgergeneration",
            trigger=pgtrigger.compiler.Trigger(
                name="stays_with_backend",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    constraint="CONSTRAINT",
                    func="\n                    IF EXISTS (SELECT FROM pools_backend WHERE id = OLD.backend_id) THEN\n                        RAISE EXCEPTION 'The generation of a backend is deleted with the backend only.' USING ERRCODE = 'check_violation', CONSTRAINT = 'generation_follows_quotas', TABLE = TG_TABLE_NAME;\n                    END IF;\n                    RETURN NULL;\n                ",
                    hash="5468f86298a8db98f4251376cdc2cb4e52ae37f3",
                    operation="DELETE",
                    pgid="pgtrigger_stays_with_backend_38c2b",
                    table="pools_ledgergeneration",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ledgergeneration",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of generations cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="760dd204b949cf2dc21ea767cb90c95d0e882bb1",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_4a0e9",
                    table="pools_ledgergeneration",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.CreateModel(
            name="LeafUsage",
            fields=[
                (
                    "pool",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="usage",
                        serialize=False,
                        to="pools.pool",
                    ),
                ),
                ("used", models.BigIntegerField(default=0)),
                ("total_usage", models.BigIntegerField(default=0)),
                ("live_workflows", models.BigIntegerField(default=0)),
                ("committed", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("committed__gte", 0),
                            ("live_workflows__gte", 0),
                            ("total_usage__gte", models.F("used")),
                            ("used__gte", 0),
                        ),
                        name="usage_never_negative",
                        violation_error_message="Usage cannot be negative.",
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="leafusage",
            trigger=pgtrigger.compiler.Trigger(
                name="protect_derived",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="IF pg_trigger_depth() < 2 THEN RAISE EXCEPTION 'Usage counters follow the reservations; they cannot be edited.' USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_follows_reservations', TABLE = TG_TABLE_NAME; END IF; RETURN NULL;",
                    hash="68bdf99974757efffe9d31ed440649719bc5d88a",
                    level="STATEMENT",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_protect_derived_009e2",
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
        migrations.AddField(
            model_name="user",
            name="groups",
            field=models.ManyToManyField(
                blank=True, related_name="users", through="pools.RoleAssignment", to="auth.group"
            ),
        ),
    ]
