"""The record of use: who held which GPUs when, what was promised and what there was, and why work waited.

The truth are rows that nothing can forget to write: the attempts of tasks, the audit trail, and the rows of this module
that triggers write from them (:mod:`scheduling.models.usage_triggers`). Hourly sums are computed from the truth by one
statement (:mod:`scheduling.selectors.usage.computed_sums`) and can be computed again at any time. A full day also has
the sums of its hours, so that a month of a large installation is read quickly.
"""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q

from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.counting import counted
from pools.models.audit import TransactionIdField
from pools.models.triggers import NoTruncateTrigger, raise_message
from scheduling.models.work_counters import COUNT_START


class FlavorColumn(models.Model):
    """A row of one GPU flavor; `default` where no flavors are named."""

    flavor = models.TextField(default=DEFAULT_FLAVOR, db_default=DEFAULT_FLAVOR)

    class Meta:
        abstract = True


class SpanColumns(models.Model):
    """A fact that holds from `since` to `until`; null is now."""

    since = models.DateTimeField()
    until = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class QuotaSpan(FlavorColumn, SpanColumns):
    """The quota of a pool or subpool in one GPU flavor, from one entry of the audit trail to the next.

    `quota` in GPUs is 0 where nothing is promised. A pool without a finite quota `is_unlimited`; a draining subpool
    `is_draining`: its running work keeps its quota. A subpool has a `parent_id`, a pool a `backend_id`. The ids are
    plain numbers, because the record outlives the rows."""

    pool_id = models.BigIntegerField()
    parent_id = models.BigIntegerField(null=True)
    backend_id = models.BigIntegerField(null=True)
    quota = models.BigIntegerField(default=0)
    is_unlimited = models.BooleanField(default=False)
    is_draining = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["pool_id", "since"], name="quota_span_of_pool"),
            models.Index(fields=["pool_id"], name="quota_span_open", condition=Q(until__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{counted(self.quota, 'GPU')} of pool {self.pool_id}"


class NodeSpan(FlavorColumn, SpanColumns):
    """The GPUs of a node and their flavor, from one entry of the audit trail to the next."""

    node_id = models.BigIntegerField()
    backend_id = models.BigIntegerField()
    gpus = models.BigIntegerField()

    class Meta:
        indexes = [
            models.Index(fields=["node_id"], name="node_span_open", condition=Q(until__isnull=True)),
            models.Index(fields=["backend_id", "since"], name="node_span_of_backend"),
        ]

    def __str__(self) -> str:
        return f"{counted(self.gpus, 'GPU')} of node {self.node_id}"


class OfflineSpan(SpanColumns):
    """The time in which a backend (`node_id` null) was offline, by the audit trail, or in which a node of a cluster
    accepted no pods, by a trigger of its state."""

    backend_id = models.BigIntegerField()
    node_id = models.BigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(fields=["backend_id", "since"], name="offline_span_of_backend")]

    def __str__(self) -> str:
        return f"backend {self.backend_id} offline"


class WaitSpan(SpanColumns):
    """The time in which a gang waited for GPUs, until it started or ended. Work that still waits has no row: its group
    says since when. `started` is false where it ended without a start."""

    group_id = models.UUIDField()
    workflow_id = models.UUIDField()
    gpus = models.BigIntegerField()
    started = models.BooleanField()

    class Meta:
        indexes = [
            models.Index(fields=["until"], name="wait_span_ended"),
            models.Index(fields=["workflow_id"], name="wait_span_of_workflow"),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="append_only",
                operation=pgtrigger.Update | pgtrigger.Delete,
                when=pgtrigger.Before,
                func=f"""
                    IF TG_OP = 'DELETE' AND OLD.until < now() - interval '1 day' THEN
                        RETURN OLD;
                    END IF;
                    {raise_message("append_only", "Waits are history: no change, and no deletion while recent.")}
                """,
            ),
            NoTruncateTrigger("The table of waits"),
            COUNT_START,
        ]

    def __str__(self) -> str:
        return f"wait of group {self.group_id}"


class WaitCauseChange(models.Model):
    """From `since` on, a waiting gang waited for another cause (:class:`scheduling.domain.usage.WaitCause`). Before its
    first row it waited for its turn."""

    group_id = models.UUIDField()
    since = models.DateTimeField()
    cause = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["group_id", "since"], name="wait_cause_of_group"),
            models.Index(fields=["since"], name="wait_cause_since"),
        ]
        triggers = [NoTruncateTrigger("The table of causes of waiting")]

    def __str__(self) -> str:
        return f"{self.cause} of group {self.group_id}"


class LateUsage(models.Model):
    """A start or end that was written after its hour: the sums from `since` on are computed again. A cluster may report
    a start late."""

    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"late since {self.since}"


class UsageProgress(models.Model):
    """One row: the hourly sums are complete until `closed_until`. `pending_until` is the end of the last full hour, and
    `horizon` the transaction id before which every transaction has to end first, because it may write into that
    hour."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    closed_until = models.DateTimeField(null=True)
    pending_until = models.DateTimeField(null=True)
    horizon = TransactionIdField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(id=1), name="one_usage_progress", violation_error_message="There is one record of use."
            )
        ]

    def __str__(self) -> str:
        return f"closed until {self.closed_until}"


class BackendSums(FlavorColumn):
    """GPU-milliseconds of one flavor of one backend that no leaf owns."""

    backend_id = models.BigIntegerField()
    capacity = models.BigIntegerField()
    offline = models.BigIntegerField()
    unallocated = models.BigIntegerField()

    class Meta:
        abstract = True


class LeafSums(FlavorColumn):
    """GPU-milliseconds of the quota of one leaf in one flavor: promised, promised and idle, lent to other leaves."""

    backend_id = models.BigIntegerField()
    leaf_id = models.BigIntegerField()
    quota = models.BigIntegerField()
    idle = models.BigIntegerField()
    lent = models.BigIntegerField()

    class Meta:
        abstract = True


class PoolSums(FlavorColumn):
    """GPU-milliseconds of the quotas of a pool: the sums of its leaves, which are twenty times as many rows in a large
    installation."""

    backend_id = models.BigIntegerField()
    pool_id = models.BigIntegerField()
    quota = models.BigIntegerField()
    idle = models.BigIntegerField()
    lent = models.BigIntegerField()

    class Meta:
        abstract = True


class WorkSums(FlavorColumn):
    """GPU-milliseconds that the work of one user with one priority held on one leaf, and for which it waited, by cause;
    `workflows` is the number that started for the first time, `preemptions` the number of gangs that lost GPUs. The
    flavor is empty for what has none: work that waits for one of several, and starts of work without GPUs."""

    backend_id = models.BigIntegerField()
    leaf_id = models.BigIntegerField()
    user_id = models.BigIntegerField()
    priority = models.TextField()
    guaranteed = models.BigIntegerField(default=0)
    low_inside = models.BigIntegerField(default=0)
    over_quota = models.BigIntegerField(default=0)
    borrowed = models.BigIntegerField(default=0)
    waiting_own_quota = models.BigIntegerField(default=0)
    waiting_limit = models.BigIntegerField(default=0)
    waiting_room = models.BigIntegerField(default=0)
    waiting_offline = models.BigIntegerField(default=0)
    waiting_order = models.BigIntegerField(default=0)
    workflows = models.BigIntegerField(default=0)
    preemptions = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class BackendUsageHour(BackendSums):
    """The sums of one backend in one hour."""

    hour = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["hour"], name="backend_usage_hour")]

    def __str__(self) -> str:
        return f"backend {self.backend_id} at {self.hour}"


class LeafUsageHour(LeafSums):
    """The sums of one leaf in one hour."""

    hour = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["hour", "leaf_id"], name="leaf_usage_hour")]

    def __str__(self) -> str:
        return f"leaf {self.leaf_id} at {self.hour}"


class PoolUsageHour(PoolSums):
    """The sums of the leaves of one pool in one hour."""

    hour = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["hour", "pool_id"], name="pool_usage_hour")]

    def __str__(self) -> str:
        return f"pool {self.pool_id} at {self.hour}"


class WorkUsageHour(WorkSums):
    """The sums of work in one hour."""

    hour = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["hour", "leaf_id"], name="work_usage_hour")]

    def __str__(self) -> str:
        return f"work on leaf {self.leaf_id} at {self.hour}"


class BackendUsageDay(BackendSums):
    """The sums of one backend in one full day in UTC: those of its stored hours."""

    day = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["day"], name="backend_usage_day")]

    def __str__(self) -> str:
        return f"backend {self.backend_id} on {self.day}"


class LeafUsageDay(LeafSums):
    """The sums of one leaf in one full day in UTC: those of its stored hours."""

    day = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["day", "leaf_id"], name="leaf_usage_day")]

    def __str__(self) -> str:
        return f"leaf {self.leaf_id} on {self.day}"


class PoolUsageDay(PoolSums):
    """The sums of the leaves of one pool in one full day in UTC: those of its stored hours."""

    day = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["day", "pool_id"], name="pool_usage_day")]

    def __str__(self) -> str:
        return f"pool {self.pool_id} on {self.day}"


class WorkUsageDay(WorkSums):
    """The sums of work in one full day in UTC: those of its stored hours."""

    day = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["day", "leaf_id"], name="work_usage_day")]

    def __str__(self) -> str:
        return f"work on leaf {self.leaf_id} on {self.day}"
