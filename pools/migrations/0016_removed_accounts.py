"""A removed account that keeps its row says so. Before, it was told from a disabled one by having nothing left."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


REMOVED = """
    UPDATE pools_user account SET is_removed = true
    WHERE NOT is_active AND password LIKE '!%' AND email = '' AND default_pool = ''
        AND NOT EXISTS (SELECT FROM pools_roleassignment WHERE user_id = account.id)
        AND NOT EXISTS (SELECT FROM pools_accesstoken WHERE owner_id = account.id)
        AND NOT EXISTS (SELECT FROM pools_signonidentity WHERE user_id = account.id)
"""


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0015_queue_pools"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="audit",
        ),
        migrations.AddField(
            model_name="user",
            name="is_removed",
            field=models.BooleanField(db_default=False, default=False),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="audit",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    declare="DECLARE before_row jsonb; after_row jsonb; audit_action text;",
                    func="\n                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD) - ARRAY['last_login', 'is_removed']::text[]; END IF;\n                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW) - ARRAY['last_login', 'is_removed']::text[]; END IF;\n                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;\n                audit_action := CASE TG_OP WHEN 'INSERT' THEN 'user.created' WHEN 'DELETE' THEN 'user.deleted' ELSE CASE WHEN OLD.password <> NEW.password THEN 'user.password_changed' WHEN NEW.password_login_at IS DISTINCT FROM OLD.password_login_at THEN 'user.logged_in_by_password' ELSE 'user.updated' END END;\n                INSERT INTO pools_auditentry\n                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)\n                VALUES (\n                    clock_timestamp(),\n                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),\n                    audit_action, 'user/' || COALESCE(NEW.username, OLD.username), before_row - ARRAY['password']::text[], after_row - ARRAY['password']::text[],\n                    COALESCE(current_setting('osmo.description', true), ''),\n                    COALESCE(current_setting('osmo.request_id', true), ''),\n                    NULL::bigint, COALESCE(NEW.username, OLD.username), pg_current_xact_id()\n                );\n                RETURN NULL;\n            ",
                    hash="0ce67d2d318946106bb2d6d392bff3cb71d31e36",
                    operation="INSERT OR UPDATE OR DELETE",
                    pgid="pgtrigger_audit_899d2",
                    table="pools_user",
                    when="AFTER",
                ),
            ),
        ),
        migrations.RunSQL(REMOVED, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_removed", False), ("is_active", False), _connector="OR"),
                name="removed_user_is_inactive",
                violation_error_message="A removed account is not enabled; create the user again.",
            ),
        ),
    ]
