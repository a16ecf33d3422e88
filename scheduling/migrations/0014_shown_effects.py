"""What previews showed is compared with what happened."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
import scheduling.domain.promised_starts
import scheduling.domain.judgement.shown_effects
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0013_usage_flavors"),
    ]

    operations = [
        migrations.CreateModel(
            name="ShownEffect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField(null=True)),
                ("title", models.TextField()),
                ("shown_at", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                ("clock", models.TextField(blank=True, default="")),
                ("tokens", models.JSONField()),
                ("lost", models.JSONField()),
                ("started", models.JSONField()),
                ("found_lost", models.JSONField(null=True)),
                ("found_started", models.JSONField(null=True)),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                                scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["KEPT"],
                                scheduling.domain.promised_starts.PromiseOutcome["KEPT"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                                scheduling.domain.promised_starts.PromiseOutcome["BROKEN"],
                            ),
                            (
                                scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"],
                                scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"],
                            ),
                        ],
                        default=scheduling.domain.promised_starts.PromiseOutcome["OPEN"],
                    ),
                ),
                (
                    "reason",
                    models.TextField(
                        blank=True,
                        choices=[
                            (
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["CHANGED"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["CHANGED"],
                            ),
                            (
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["TIME"],
                                scheduling.domain.judgement.shown_effects.EffectWithdrawal["TIME"],
                            ),
                        ],
                        default="",
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("outcome", scheduling.domain.promised_starts.PromiseOutcome["OPEN"])),
                        fields=["backend_id"],
                        name="effect_open",
                    ),
                    models.Index(fields=["ended_at"], name="effect_ended"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("ended_at__isnull", True),
                                ("found_lost__isnull", True),
                                ("outcome", scheduling.domain.promised_starts.PromiseOutcome["OPEN"]),
                                ("reason", ""),
                            ),
                            models.Q(
                                ("ended_at__gte", models.F("made_at")),
                                ("found_lost", models.F("lost")),
                                ("found_started", models.F("started")),
                                ("outcome", scheduling.domain.promised_starts.PromiseOutcome["KEPT"]),
                                ("reason", ""),
                            ),
                            models.Q(
                                ("ended_at__gte", models.F("made_at")),
                                ("outcome", scheduling.domain.promised_starts.PromiseOutcome["BROKEN"]),
                                ("reason", ""),
                                ("found_lost__isnull", False),
                                ("found_started__isnull", False),
                                models.Q(
                                    ("found_lost", models.F("lost")),
                                    ("found_started", models.F("started")),
                                    _negated=True,
                                ),
                            ),
                            models.Q(
                                ("ended_at__gte", models.F("made_at")),
                                ("outcome", scheduling.domain.promised_starts.PromiseOutcome["WITHDRAWN"]),
                                (
                                    "reason__in",
                                    [
                                        scheduling.domain.judgement.shown_effects.EffectWithdrawal["CHANGED"],
                                        scheduling.domain.judgement.shown_effects.EffectWithdrawal["TIME"],
                                    ],
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="effect_ends_truly",
                        violation_error_message="A shown effect is open without an end, kept if the same happened, broken if not, or withdrawn for a reason.",
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="showneffect",
            trigger=pgtrigger.compiler.Trigger(
                name="effect_stands",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n        IF TG_OP = 'DELETE' THEN\n            IF COALESCE(OLD.ended_at, OLD.made_at) >= now() - interval '1 day' THEN\n                RAISE EXCEPTION 'A shown effect is history: it is not deleted while it is open or recent.' USING ERRCODE = 'check_violation', CONSTRAINT = 'effect_stands', TABLE = TG_TABLE_NAME;\n            END IF;\n            RETURN OLD;\n        END IF;\n        IF OLD.outcome <> 'open'\n            OR (NEW.id, NEW.backend_id, NEW.user_id, NEW.title, NEW.shown_at, NEW.made_at, NEW.clock, NEW.tokens, NEW.lost, NEW.started)\n            IS DISTINCT FROM (OLD.id, OLD.backend_id, OLD.user_id, OLD.title, OLD.shown_at, OLD.made_at, OLD.clock, OLD.tokens, OLD.lost, OLD.started) THEN\n            RAISE EXCEPTION 'What a preview showed, and what became of it, stays as it is.' USING ERRCODE = 'check_violation', CONSTRAINT = 'effect_stands', TABLE = TG_TABLE_NAME;\n        END IF;\n        RETURN NEW;\n    ",
                    hash="4bf9e128215f61ead27f266a74e53c30fc44acfd",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_effect_stands_d9e24",
                    table="scheduling_showneffect",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="showneffect",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The table of shown effects cannot be truncated: the ledger keeps its history.' USING ERRCODE = 'check_violation', CONSTRAINT = 'no_truncate', TABLE = TG_TABLE_NAME;",
                    hash="ac1f06a9c271ae8cad3d6c0f29ebe66f97792cbe",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_7c5b7",
                    table="scheduling_showneffect",
                    when="BEFORE",
                ),
            ),
        ),
    ]
