"""The kinds of notices are no longer choices of their columns: another kind needs no migration."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0007_shared_gpus"),
    ]

    operations = [
        migrations.AlterField(model_name=name, name="kind", field=models.TextField())
        for name in ("inboxnotice", "notice", "noticecondition")
    ]
