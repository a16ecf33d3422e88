"""Quiet hours of the targets of notices."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pools", "0004_drained_nodes"),
    ]

    operations = [
        migrations.AddField(
            model_name="noticetarget",
            name="quiet_hours",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AddConstraint(
            model_name="noticetarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("quiet_hours", ""),
                    (
                        "quiet_hours__regex",
                        "^([01]\\d|2[0-3]):[0-5]\\d-([01]\\d|2[0-3]):[0-5]\\d( [A-Za-z][A-Za-z0-9_+/-]{0,63})?$",
                    ),
                    _connector="OR",
                ),
                name="notice_target_quiet_hours",
                violation_error_message="Quiet hours are two different times and a time zone: 22:00-07:00 Europe/Berlin. Without a zone they are in UTC.",
            ),
        ),
    ]
