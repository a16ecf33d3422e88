"""The forecast starts of waiting gangs."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from pools.models.triggers import NoTruncateTrigger


class StartForecast(models.Model):
    """The newest forecast of a gang, and its first one, which is scored when the gang has started.

    `p10`, `p50`, `p90`: times by which it starts with that probability; null where so few of the `samples` sampled
    futures start it; `never` says why where none does. `facts_key`: of the facts from which it follows; it stands while
    they do. `sampled_waits` are the seconds from `made_at` in each sampled
    future (null: it did not start), with `gpus_before`, the GPUs that came before it in its queue, from which work that
    comes later reads its own. `first_made_at` with `first_middle` and `first_spread` (the
    shape of the sampled waits) and the quantiles `first_waits` in seconds is the first forecast with all quantiles;
    `wait` is then the true wait in seconds, from that time on."""

    group_id = models.UUIDField(primary_key=True)
    backend_id = models.BigIntegerField()
    made_at = models.DateTimeField()
    p10 = models.DateTimeField(null=True)
    p50 = models.DateTimeField(null=True)
    p90 = models.DateTimeField(null=True)
    samples = models.PositiveIntegerField()
    never = models.TextField(blank=True)
    facts_key = models.TextField(blank=True, default="")
    like_scored = models.PositiveSmallIntegerField(default=0)
    like_in_time = models.PositiveSmallIntegerField(default=0)
    gpus_before = models.BigIntegerField(null=True)
    sampled_waits = models.JSONField(null=True)
    first_made_at = models.DateTimeField(null=True)
    first_middle = models.FloatField(null=True)
    first_spread = models.FloatField(null=True)
    first_waits = models.JSONField(null=True)
    first_leaf_id = models.BigIntegerField(null=True)
    first_gpus = models.PositiveIntegerField(null=True)
    first_gpus_before = models.BigIntegerField(null=True)
    wait = models.FloatField(null=True)
    scored_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["scored_at"], name="start_forecast_scored"),
            models.Index(fields=["backend_id"], name="start_forecast_open", condition=Q(scored_at__isnull=True)),
        ]
        triggers = [NoTruncateTrigger("The table of start forecasts")]

    def __str__(self) -> str:
        return f"start of group {self.group_id}"
