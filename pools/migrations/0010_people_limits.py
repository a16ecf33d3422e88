"""Keys of repeated requests belong to one credential, tokens to the token that made them.

Stored answers do not say which token asked for them, and some hold what a token's secret follows from. None of them may
be repeated, so those of the last day are deleted.
"""

import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0009_field_words"),
    ]

    operations = [
        migrations.RunSQL("DELETE FROM pools_idempotencyrecord", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name="idempotencyrecord",
            name="idempotency_key_once",
        ),
        migrations.RemoveField(
            model_name="idempotencyrecord",
            name="user",
        ),
        migrations.AddField(
            model_name="accesstoken",
            name="parent",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="children",
                to="pools.accesstoken",
            ),
        ),
        migrations.AddField(
            model_name="idempotencyrecord",
            name="size",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="idempotencyrecord",
            name="token_id",
            field=models.BigIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="idempotencyrecord",
            name="user_id",
            field=models.BigIntegerField(default=0),
            preserve_default=False,
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
        migrations.AddConstraint(
            model_name="idempotencyrecord",
            constraint=models.UniqueConstraint(
                fields=("user_id", "token_id", "address", "key"), name="idempotency_key_once"
            ),
        ),
    ]
