"""Why a gang of a cluster got none of the flavors before its own."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0015_effects_not_judged")]

    operations = [
        migrations.AddField(
            model_name="group",
            name="passed_flavors",
            field=models.JSONField(default=list, db_default=Value([], models.JSONField())),
        ),
    ]
