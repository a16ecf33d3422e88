from django.db import migrations, models


def _fields(time: str) -> list[tuple[str, models.Field]]:
    return [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
        *((name, models.BigIntegerField()) for name in ("backend_id", "pool_id", "quota", "idle", "lent")),
        (time, models.DateTimeField()),
    ]


def _add_up(time: str) -> str:
    return f"""
        INSERT INTO scheduling_poolusage{time} ({time}, backend_id, pool_id, quota, idle, lent)
        SELECT {time}, entry.backend_id, COALESCE(leaf.parent_id, entry.leaf_id), sum(quota)::bigint, sum(idle)::bigint,
            sum(lent)::bigint
        FROM scheduling_leafusage{time} entry LEFT JOIN pools_pool leaf ON leaf.id = entry.leaf_id
        GROUP BY {time}, entry.backend_id, COALESCE(leaf.parent_id, entry.leaf_id);
    """


# The milliseconds that are left when idle time is shared go to other leaves than before, so that the leaves of a pool
# may count together. A recount covers two days.
_COMPUTE_NEWEST_HOURS_AGAIN = """
    INSERT INTO scheduling_lateusage (since)
    SELECT closed_until - interval '3 days' FROM scheduling_usageprogress WHERE closed_until IS NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0030_request_ids")]

    operations = [
        migrations.CreateModel(
            name="PoolUsageDay",
            fields=_fields("day"),
            options={"indexes": [models.Index(fields=["day", "pool_id"], name="pool_usage_day")]},
        ),
        migrations.CreateModel(
            name="PoolUsageHour",
            fields=_fields("hour"),
            options={"indexes": [models.Index(fields=["hour", "pool_id"], name="pool_usage_hour")]},
        ),
        migrations.RunSQL(_add_up("hour") + _add_up("day") + _COMPUTE_NEWEST_HOURS_AGAIN, migrations.RunSQL.noop),
    ]
