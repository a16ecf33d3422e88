"""Reservations of active work, and the counters that make admission cost the same at any load."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Now

from pools.domain.quota.pool_balance import UsageCounts
from pools.models.change_tokens import MoveTokensTrigger, TokenKind, of_backends
from pools.models.pool import Pool
from pools.models.triggers import DerivedTrigger, NoTruncateTrigger, raise_message

PREEMPTIBLE_PRIORITY = "LOW"


class LeafUsage(models.Model):
    """Counters of one leaf (a subpool, or the shared leaf of a top-level pool): the sums over its reservations.

    Only triggers write them: those of :class:`Reservation` in the statement that changes a reservation, those of
    :class:`Pool` with the pool. `osmo-admin verify` recounts them. All are GPUs except `live_workflows`; `used` is
    guaranteed in use, `total_usage` total in use.
    """

    # A trigger of the pool deletes the row.
    pool = models.OneToOneField(Pool, on_delete=models.DO_NOTHING, primary_key=True, related_name="usage")
    used = models.BigIntegerField(default=0)
    total_usage = models.BigIntegerField(default=0)
    live_workflows = models.BigIntegerField(default=0)
    committed = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(used__gte=0, total_usage__gte=F("used"), live_workflows__gte=0, committed__gte=0),
                name="usage_never_negative",
                violation_error_message="Usage cannot be negative.",
            )
        ]
        triggers = [
            DerivedTrigger(
                "usage_follows_reservations", "Usage counters follow the reservations; they cannot be edited."
            ),
            # Rows come and go with their pools, which move the plan of the backend.
            MoveTokensTrigger(
                of_backends(
                    "SELECT root.backend_id FROM pools_pool pool JOIN pools_pool root"
                    " ON root.id = COALESCE(pool.parent_id, pool.id) WHERE pool.id = NEW.pool_id",
                    [TokenKind.WORK],
                ),
                operation=pgtrigger.Update,
            ),
            NoTruncateTrigger("The table of usage counters"),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.used} used"

    def as_usage(self) -> UsageCounts:
        """The counters as a domain value."""
        return UsageCounts(self.used, self.total_usage, self.live_workflows, self.committed)


class LiveWork(models.Model):
    """The number of live workflows of one user, `owner`, on one leaf: the number of the user's reservations there.

    Only the triggers of :class:`Reservation` write it. A row belongs to the tree of its leaf, whose lock every change
    of reservations holds; so users never wait for each other here, and the trees of one user do not either.
    """

    owner = models.TextField()
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflows = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "pool"], name="live_work_once")]
        triggers = [
            DerivedTrigger(
                "live_work_follows_reservations",
                "Counters of live work follow the reservations; they cannot be edited.",
            ),
            NoTruncateTrigger("The table of live work"),
        ]

    def __str__(self) -> str:
        return f"{self.workflows} of {self.owner}"


class FlavorUsage(models.Model):
    """The counters of one leaf in one GPU flavor, where its pool has quotas by flavor: the sums over `by_flavor` of its
    reservations. Together they are those of :class:`LeafUsage`, but for work that began before the pool had flavors.

    Only the triggers of :class:`Reservation` write them; a row stays with its leaf.
    """

    # A trigger of the pool deletes the row.
    pool = models.ForeignKey(Pool, on_delete=models.DO_NOTHING, related_name="flavor_usage", db_index=False)
    flavor = models.TextField()
    used = models.BigIntegerField(default=0)
    total_usage = models.BigIntegerField(default=0)
    committed = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool", "flavor"], name="flavor_usage_once"),
            models.CheckConstraint(
                condition=Q(used__gte=0, total_usage__gte=F("used"), committed__gte=0),
                name="flavor_usage_never_negative",
                violation_error_message="Usage cannot be negative.",
            ),
        ]
        triggers = [
            DerivedTrigger(
                "flavor_usage_follows_reservations", "Usage by flavor follows the reservations; it cannot be edited."
            ),
            NoTruncateTrigger("The table of usage by flavor"),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.used} {self.flavor} used"


def _sums(table: str, sign: str) -> str:
    return f"""
        SELECT pool_id, owner,
            {sign}CASE WHEN priority = '{PREEMPTIBLE_PRIORITY}' THEN 0 ELSE held_gpus END AS used,
            {sign}held_gpus AS total_usage,
            {sign}1 AS live_workflows,
            {sign}CASE WHEN priority = '{PREEMPTIBLE_PRIORITY}' THEN 0
                ELSE GREATEST(held_gpus, needed_gpus) END AS committed
        FROM {table}
    """


def _flavor_sums(table: str, sign: str) -> str:
    held, needed = "(count.value->>0)::bigint", "(count.value->>1)::bigint"
    return f"""
        SELECT pool_id, count.key AS flavor,
            {sign}CASE WHEN priority = '{PREEMPTIBLE_PRIORITY}' THEN 0 ELSE {held} END AS used,
            {sign}{held} AS total_usage,
            {sign}CASE WHEN priority = '{PREEMPTIBLE_PRIORITY}' THEN 0 ELSE GREATEST({held}, {needed}) END AS committed
        FROM {table}, jsonb_each(by_flavor) AS count
    """


def _counting(name: str, operation: pgtrigger.Operation, *, old: bool, new: bool) -> pgtrigger.Trigger:
    parts = ([_sums("old_rows", "-")] if old else []) + ([_sums("new_rows", "")] if new else [])
    flavors = ([_flavor_sums("old_rows", "-")] if old else []) + ([_flavor_sums("new_rows", "")] if new else [])
    return pgtrigger.Trigger(
        name=name,
        operation=operation,
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        referencing=pgtrigger.Referencing(old="old_rows" if old else None, new="new_rows" if new else None),
        func=f"""
            WITH moved AS MATERIALIZED (
                SELECT pool_id, owner, sum(used) AS used, sum(total_usage) AS total_usage,
                    sum(live_workflows) AS live_workflows, sum(committed) AS committed
                FROM ({" UNION ALL ".join(parts)}) rows GROUP BY pool_id, owner
            ), work AS (
                INSERT INTO pools_livework AS kept (pool_id, owner, workflows)
                    SELECT pool_id, owner, live_workflows FROM moved WHERE live_workflows <> 0 ORDER BY pool_id, owner
                    ON CONFLICT (owner, pool_id) DO UPDATE SET workflows = kept.workflows + excluded.workflows
            )
            UPDATE pools_leafusage leaf SET
                used = leaf.used + moved.used,
                total_usage = leaf.total_usage + moved.total_usage,
                live_workflows = leaf.live_workflows + moved.live_workflows,
                committed = leaf.committed + moved.committed
            FROM (
                SELECT pool_id, sum(used) AS used, sum(total_usage) AS total_usage,
                    sum(live_workflows) AS live_workflows, sum(committed) AS committed
                FROM moved GROUP BY pool_id
            ) moved
            WHERE leaf.pool_id = moved.pool_id;
            MERGE INTO pools_flavorusage kept USING (
                SELECT pool_id, flavor, sum(used) AS used, sum(total_usage) AS total_usage, sum(committed) AS committed
                FROM ({" UNION ALL ".join(flavors)}) rows GROUP BY pool_id, flavor
            ) moved ON moved.pool_id = kept.pool_id AND moved.flavor = kept.flavor
            WHEN MATCHED THEN UPDATE SET
                used = kept.used + moved.used,
                total_usage = kept.total_usage + moved.total_usage,
                committed = kept.committed + moved.committed
            WHEN NOT MATCHED THEN INSERT (pool_id, flavor, used, total_usage, committed)
                VALUES (moved.pool_id, moved.flavor, moved.used, moved.total_usage, moved.committed);
            RETURN NULL;
        """,
    )


class Reservation(models.Model):
    """The GPUs that one active workflow holds on its leaf, and the GPUs that its largest unfinished gang needs.
    `by_flavor` has the same by GPU flavor, `{"h100": [held, needed]}`, where the pool has quotas by flavor: a gang that
    has no flavor yet needs its GPUs in each one that it may use.

    The row exists from the submission to the end of the workflow. Only a leaf that accepts work accepts a new row.
    """

    workflow = models.UUIDField(primary_key=True)
    workflow_name = models.TextField()
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="reservations")
    owner = models.TextField()
    priority = models.TextField()
    held_gpus = models.PositiveIntegerField(default=0)
    needed_gpus = models.PositiveIntegerField(default=0)
    by_flavor = models.JSONField(default=dict, db_default=Value({}, models.JSONField()))
    created_at = models.DateTimeField(db_default=Now())
    held_since = models.DateTimeField(null=True)

    class Meta:
        triggers = [
            pgtrigger.Trigger(
                name="leaf_takes_work",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                declare=[("leaf", "pools_pool")],
                func=f"""
                    SELECT * INTO leaf FROM pools_pool WHERE id = NEW.pool_id FOR SHARE;
                    IF leaf.archived OR COALESCE(leaf.subpool_state, 'ACTIVE') <> 'ACTIVE' THEN
                        {raise_message("leaf_takes_work", "% accepts no new work.", "leaf.name")}
                    END IF;
                    RETURN NEW;
                """,
            ),
            _counting("count_insert", pgtrigger.Insert, old=False, new=True),
            _counting("count_update", pgtrigger.Update, old=True, new=True),
            _counting("count_delete", pgtrigger.Delete, old=True, new=False),
            NoTruncateTrigger("The table of reservations"),
        ]

    def __str__(self) -> str:
        return f"{self.workflow_name} on {self.pool_id}"

    @property
    def held_by_flavor(self) -> dict[str, int]:
        """`held_gpus` by flavor."""
        return {flavor: held for flavor, (held, _) in self.by_flavor.items()}
