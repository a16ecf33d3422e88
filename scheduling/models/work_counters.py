"""Counters for metrics, kept by triggers: starts of gangs by their wait, decisions by their kind, promised starts by
their outcome, lost work by its cause.

Each process of an installation shows the same values, a restart loses none, and no counter goes back when old rows are
deleted. Cost: one row changed for each start and for the end of a promise, and one for each leaf and action of a plan,
and for each leaf and cause of its receipts.
"""

from __future__ import annotations

import pgtrigger
from django.db import models

from pools.models import Pool
from pools.models.triggers import NoTruncateTrigger
from scheduling.domain.timelines.wait_buckets import WAIT_BUCKETS


class StartCount(models.Model):
    """Gangs of a leaf (`pool`: its row) and priority that started after a wait of this bucket: the index into
    :data:`WAIT_BUCKETS` of the first bound that is not below the wait, or their number for a longer wait. `seconds` is
    the sum of the waits."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    priority = models.TextField()
    bucket = models.PositiveSmallIntegerField()
    count = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool", "priority", "bucket"], name="start_count_once"),
        ]
        triggers = [NoTruncateTrigger("The table of start counts")]

    def __str__(self) -> str:
        return f"{self.count} starts of {self.priority} in {self.pool_id}"


class DecisionCount(models.Model):
    """Decisions about work of a leaf (`pool`: its row), by action, and the GPUs of their tasks."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    action = models.TextField()
    count = models.PositiveBigIntegerField(default=0)
    gpus = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "action"], name="decision_count_once")]
        triggers = [NoTruncateTrigger("The table of decision counts")]

    def __str__(self) -> str:
        return f"{self.count} × {self.action} in {self.pool_id}"


class PromiseCount(models.Model):
    """Promised starts on a backend that have ended, by their outcome."""

    backend_id = models.BigIntegerField()
    outcome = models.TextField()
    count = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["backend_id", "outcome"], name="promise_count_once")]
        triggers = [NoTruncateTrigger("The table of promise counts")]

    def __str__(self) -> str:
        return f"{self.count} × {self.outcome} on backend {self.backend_id}"


class LostCount(models.Model):
    """Attempts of a leaf (`pool`: its row) that something else ended, by cause, and the GPU-milliseconds that they
    lost."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    cause = models.TextField()
    count = models.PositiveBigIntegerField(default=0)
    gpu_ms = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "cause"], name="lost_count_once")]
        triggers = [NoTruncateTrigger("The table of lost attempts")]

    def __str__(self) -> str:
        return f"{self.count} × {self.cause} in {self.pool_id}"


class JobFailureCount(models.Model):
    """Runs of a background job (`task`: the name of its Celery task) that ended with an error, and the kind of the last
    one. Kept by the worker."""

    task = models.TextField(primary_key=True)
    count = models.PositiveBigIntegerField(default=0)
    last = models.DateTimeField()
    error = models.TextField()

    class Meta:
        triggers = [NoTruncateTrigger("The table of failed jobs")]

    def __str__(self) -> str:
        return f"{self.count} failed runs of {self.task}"


_BOUNDS = ", ".join(str(bound) for bound in WAIT_BUCKETS)

COUNT_START = pgtrigger.Trigger(
    name="count_start",
    operation=pgtrigger.Insert,
    when=pgtrigger.After,
    condition=pgtrigger.Condition("NEW.started"),
    declare=[("waited", "double precision")],
    func=f"""
        waited := extract(epoch FROM NEW.until - NEW.since);
        INSERT INTO scheduling_startcount AS kept (pool_id, priority, bucket, count, seconds)
            SELECT work.pool_id, work.priority,
                (SELECT count(*) FROM unnest(ARRAY[{_BOUNDS}]) AS bound WHERE bound < waited), 1, waited
            FROM scheduling_workflow work WHERE work.uuid = NEW.workflow_id
            ON CONFLICT (pool_id, priority, bucket)
            DO UPDATE SET count = kept.count + 1, seconds = kept.seconds + excluded.seconds;
        RETURN NULL;
    """,
)

COUNT_DECISIONS = pgtrigger.Trigger(
    name="count_decisions",
    level=pgtrigger.Statement,
    operation=pgtrigger.Insert,
    when=pgtrigger.After,
    referencing=pgtrigger.Referencing(new="made"),
    func="""
        INSERT INTO scheduling_decisioncount AS kept (pool_id, action, count, gpus)
            SELECT pool_id, action, count(*), sum(gpus) FROM made GROUP BY pool_id, action ORDER BY pool_id, action
            ON CONFLICT (pool_id, action)
            DO UPDATE SET count = kept.count + excluded.count, gpus = kept.gpus + excluded.gpus;
        RETURN NULL;
    """,
)

COUNT_LOST = pgtrigger.Trigger(
    name="count_lost",
    level=pgtrigger.Statement,
    operation=pgtrigger.Insert,
    when=pgtrigger.After,
    referencing=pgtrigger.Referencing(new="made"),
    func="""
        INSERT INTO scheduling_lostcount AS kept (pool_id, cause, count, gpu_ms)
            SELECT why.pool_id, why.cause, count(*), sum(made.lost_gpu_ms)
            FROM made JOIN scheduling_interruption why ON why.id = made.interruption_id
            GROUP BY why.pool_id, why.cause ORDER BY why.pool_id, why.cause
            ON CONFLICT (pool_id, cause)
            DO UPDATE SET count = kept.count + excluded.count, gpu_ms = kept.gpu_ms + excluded.gpu_ms;
        RETURN NULL;
    """,
)

COUNT_PROMISES = pgtrigger.Trigger(
    name="count_promises",
    operation=pgtrigger.Update,
    when=pgtrigger.After,
    condition=pgtrigger.Condition("NEW.outcome <> OLD.outcome"),
    func="""
        INSERT INTO scheduling_promisecount AS kept (backend_id, outcome, count) VALUES (NEW.backend_id, NEW.outcome, 1)
            ON CONFLICT (backend_id, outcome) DO UPDATE SET count = kept.count + 1;
        RETURN NULL;
    """,
)
