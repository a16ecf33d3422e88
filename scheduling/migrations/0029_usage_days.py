from django.db import migrations, models

_WORK_SUMS = (
    "guaranteed", "low_inside", "over_quota", "borrowed", "waiting_own_quota", "waiting_limit", "waiting_room",
    "waiting_offline", "waiting_order", "workflows", "preemptions",
)  # fmt: skip


def _add_up(kind: str, keys: tuple[str, ...], sums: tuple[str, ...]) -> str:
    """The sums of the days whose hours are all stored."""
    day = "date_trunc('day', hour, 'UTC')"
    return f"""
        INSERT INTO scheduling_{kind}usageday (day, {", ".join((*keys, *sums))})
        SELECT {day}, {", ".join((*keys, *(f"sum({column})::bigint" for column in sums)))}
        FROM scheduling_{kind}usagehour
        WHERE hour < (SELECT date_trunc('day', closed_until, 'UTC') FROM scheduling_usageprogress)
        GROUP BY {", ".join((day, *keys))};
    """


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0028_history_replay")]

    operations = [
        migrations.CreateModel(
            name="BackendUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("capacity", models.BigIntegerField()),
                ("offline", models.BigIntegerField()),
                ("unallocated", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["day"], name="backend_usage_day")]},
        ),
        migrations.CreateModel(
            name="LeafUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("quota", models.BigIntegerField()),
                ("idle", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("day", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["day", "leaf_id"], name="leaf_usage_day")]},
        ),
        migrations.CreateModel(
            name="WorkUsageDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("backend_id", models.BigIntegerField()),
                ("leaf_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("priority", models.TextField()),
                *((column, models.BigIntegerField(default=0)) for column in _WORK_SUMS),
                ("day", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["day", "leaf_id"], name="work_usage_day")]},
        ),
        migrations.RunSQL(
            _add_up("backend", ("backend_id",), ("capacity", "offline", "unallocated"))
            + _add_up("leaf", ("backend_id", "leaf_id"), ("quota", "idle", "lent"))
            + _add_up("work", ("backend_id", "leaf_id", "user_id", "priority"), _WORK_SUMS),
            migrations.RunSQL.noop,
        ),
    ]
