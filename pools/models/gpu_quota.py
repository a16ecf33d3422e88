"""GPU quota by namespace: the caps, the allocations, and counters that keep the cost of a check constant.

Amounts are plain TFLOPS and bytes of vram with three decimals; those of an allocation are per GPU.
"""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.gpu_quota.spec import NAMESPACE_PATTERN
from pools.domain.values.counting import counted
from pools.models.backend import Backend
from pools.models.change_tokens import (
    MoveTokensTrigger,
    TokenKind,
    move_token,
    namespace_subject,
    note,
    plan_of_backends,
)
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, plain_actions_sql, raise_message

AMOUNTS = ("request_tflops", "request_vram", "limit_tflops", "limit_vram")
"""The columns of one worker, in the order of the checks; `families` and `written` follow it."""

COUNTERS = ("requests_tflops", "requests_vram", "limits_tflops", "limits_vram", "workers")
"""The sums over workers, in the same order."""

RECOUNTS = {
    f"{prefix}{counter}": f"COALESCE(sum({amount}) FILTER (WHERE state = '{state}'), 0)"
    for prefix, state in (("", "committed"), ("assumed_", "assumed"))
    for counter, amount in zip(COUNTERS, (*(f"count * {amount}" for amount in AMOUNTS), "1"), strict=True)
}
"""The columns of :class:`GpuUsage` that count, each with its sum over unreleased allocations (SQL)."""

SUM_COLUMNS, RECOUNT_SQL = tuple(RECOUNTS), ", ".join(RECOUNTS.values())


def _amount() -> Any:
    return models.DecimalField(max_digits=22, decimal_places=3, default=0)


def _sum() -> Any:
    return models.DecimalField(max_digits=40, decimal_places=3, default=0)


# Its conditions and alerts concern nobody who keeps anything.
MOVE_TOKENS_OF_CAPS = MoveTokensTrigger(
    f"""
        IF TG_OP = 'UPDATE' AND (NEW.namespace, NEW.spec) = (OLD.namespace, OLD.spec) THEN RETURN NULL; END IF;
        FOR concerned IN SELECT DISTINCT unnest(ARRAY[NEW.namespace, OLD.namespace]) AS name LOOP
            IF concerned.name IS NULL THEN CONTINUE; END IF;{
        move_token(TokenKind.WORK, namespace_subject("concerned.name"))
    }
        END LOOP;
        {
        plan_of_backends(
            "SELECT backend_id FROM pools_pool WHERE parent_id IS NULL AND NOT archived"
            f" AND config ->> '{GPU_NAMESPACE}' IN (NEW.namespace, OLD.namespace)"
        )
    }"""
)

# Those who wait for headroom are woken up where workers hold less than before.
MOVE_TOKENS_OF_WORKERS = MoveTokensTrigger(
    f"""
        {move_token(TokenKind.WORK, namespace_subject("COALESCE(NEW.namespace, OLD.namespace)"))}
        IF {" OR ".join(f"NEW.{column} < OLD.{column}" for column in SUM_COLUMNS)} THEN
            {note("namespace", "NEW.namespace")}
        END IF;"""
)


class GpuQuota(models.Model):
    """The caps on the workers of one namespace (`spec`, in the camelCase of the GPUResourceQuota object).

    `source` is the API or an object in a cluster. `faults` are messages about a newer spec of that object that is
    invalid. `conditions` holds type, status and the time of the last change of each status; `alerting` names the
    amounts that passed the threshold and are not yet below it again, `alert_since` is when the first of them passed it,
    and `alerts` counts the alerts.
    """

    namespace = models.TextField(unique=True)
    spec = models.JSONField()
    source = models.TextField(default="api")
    faults = models.JSONField(default=list)
    conditions = models.JSONField(default=list)
    alerting = models.JSONField(default=list)
    alert_since = models.DateTimeField(null=True)
    alerts = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["namespace"]
        constraints = [
            models.CheckConstraint(
                condition=Q(namespace__regex=f"^{NAMESPACE_PATTERN}$"),
                name="gpu_quota_namespace_rule",
                violation_error_message="A namespace has at most 63 lower-case letters, digits and hyphens.",
            ),
        ]
        triggers = [
            AuditTrigger(
                subject="'gpu_quota/' || COALESCE(NEW.namespace, OLD.namespace)",
                action=f"CASE WHEN TG_OP = 'UPDATE' AND NEW.alerts > OLD.alerts THEN '{AuditAction.GPU_QUOTA_ALERT}' "
                f"WHEN TG_OP = 'UPDATE' AND NEW.alerting <> OLD.alerting THEN '{AuditAction.GPU_QUOTA_CALM}' "
                f"ELSE {plain_actions_sql('gpu_quota')} END",
                ignore=["version", "conditions", "updated_at"],
            ),
            OwnedTrigger(
                OwnedKind.GPU_QUOTA,
                name="COALESCE(OLD.namespace, NEW.namespace)",
                unless="TG_OP = 'UPDATE' AND (NEW.namespace, NEW.spec, NEW.source) = "
                "(OLD.namespace, OLD.spec, OLD.source)",
            ),
            MOVE_TOKENS_OF_CAPS,
            NoTruncateTrigger("The table of GPU quotas"),
        ]

    def __str__(self) -> str:
        return self.namespace


class GpuUsage(models.Model):
    """The sums over the workers of one namespace, with or without a quota; its row is the lock of the namespace.

    Only the triggers of :class:`GpuAllocation` change the counters, in the statement that changes an allocation. An
    UPDATE under the setting `osmo.recount` sets them to the sums over the rows, whatever it asks for. Assumed amounts
    are reserved and not yet committed. `families` is the format in which each of the four sums is printed, `revision`
    grows with every change.
    """

    namespace = models.TextField(primary_key=True)
    requests_tflops = _sum()
    requests_vram = _sum()
    limits_tflops = _sum()
    limits_vram = _sum()
    workers = models.BigIntegerField(default=0)
    assumed_requests_tflops = _sum()
    assumed_requests_vram = _sum()
    assumed_limits_tflops = _sum()
    assumed_limits_vram = _sum()
    assumed_workers = models.BigIntegerField(default=0)
    families = models.TextField(default="DDDD")
    revision = models.BigIntegerField(default=0)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(**{f"{prefix}{name}__gte": 0 for prefix in ("", "assumed_") for name in COUNTERS}),
                name="gpu_usage_never_negative",
                violation_error_message="The usage of a namespace cannot be negative.",
            )
        ]
        triggers = [
            pgtrigger.Trigger(
                name="protect_counters",
                operation=pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
                when=pgtrigger.Before,
                func=f"""
                    IF pg_trigger_depth() > 1 AND TG_OP <> 'DELETE' THEN RETURN NEW; END IF;
                    IF TG_OP = 'INSERT' AND {" AND ".join(f"NEW.{column} = 0" for column in SUM_COLUMNS)} THEN
                        RETURN NEW;
                    END IF;
                    IF TG_OP = 'UPDATE' AND NEW.namespace = OLD.namespace
                        AND current_setting('osmo.recount', true) = 'on'
                    THEN
                        SELECT {RECOUNT_SQL} INTO {", ".join(f"NEW.{column}" for column in SUM_COLUMNS)}
                            FROM pools_gpuallocation WHERE namespace = OLD.namespace AND state <> 'released';
                        RETURN NEW;
                    END IF;
                    {
                    raise_message(
                        "gpu_usage_follows_allocations",
                        "The usage of a namespace follows its allocations; it cannot be edited.",
                    )
                }
                """,
            ),
            MOVE_TOKENS_OF_WORKERS,
            NoTruncateTrigger("The table of GPU usage"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace}: {counted(self.workers, 'worker')}"


def _sums(table: str, sign: str) -> str:
    """SQL for the amounts in a transition table, as signed columns: committed, then assumed."""
    parts = []
    for prefix, state in (("", "committed"), ("assumed_", "assumed")):
        here = f"CASE WHEN state = '{state}' THEN {sign}1 ELSE 0 END"
        for counter, amount in zip(COUNTERS, AMOUNTS, strict=False):
            parts.append(f"{here} * count * {amount} AS {prefix}{counter}")
        parts.append(f"{here} AS {prefix}workers")
    for place, amount in enumerate(AMOUNTS, 1):
        family = f"substr(families, {place}, 1)"
        parts.append(f"CASE WHEN state <> 'released' AND {amount} > 0 THEN {family} END AS f{place}")
    return f"SELECT namespace, {', '.join(parts)} FROM {table}"


def _counting(name: str, operation: pgtrigger.Operation, *, old: bool, new: bool) -> pgtrigger.Trigger:
    parts = ([_sums("old_rows", "-")] if old else []) + ([_sums("new_rows", "")] if new else [])
    columns = [f"{prefix}{counter}" for prefix in ("", "assumed_") for counter in COUNTERS]
    added = ", ".join(f"{column} = usage.{column} + moved.{column}" for column in columns)
    families = " || ".join(
        f"CASE WHEN usage.{counter} + usage.assumed_{counter} = 0 THEN COALESCE(moved.f{place}, "
        f"substr(usage.families, {place}, 1)) ELSE substr(usage.families, {place}, 1) END"
        for place, counter in enumerate(COUNTERS[:4], 1)
    )
    summed = ", ".join(f"sum({column}) AS {column}" for column in columns)
    shown = ", ".join(f"min(f{place}) AS f{place}" for place in range(1, 5))
    zeros = ", ".join("0" for _ in columns)
    first = f"""
        INSERT INTO pools_gpuusage (namespace, {", ".join(columns)}, families, revision)
        SELECT DISTINCT namespace, {zeros}, 'DDDD', 0 FROM new_rows ORDER BY 1 ON CONFLICT DO NOTHING;
    """
    return pgtrigger.Trigger(
        name=name,
        operation=operation,
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        referencing=pgtrigger.Referencing(old="old_rows" if old else None, new="new_rows" if new else None),
        func=f"""
            {first if new and not old else ""}
            UPDATE pools_gpuusage usage SET {added}, families = {families},
                revision = usage.revision + 1, changed_at = clock_timestamp()
            FROM (
                SELECT namespace, {summed}, {shown} FROM ({" UNION ALL ".join(parts)}) rows GROUP BY namespace
            ) moved
            WHERE usage.namespace = moved.namespace;
            RETURN NULL;
        """,
    )


class _AuditedApiAllocations(AuditTrigger):
    """Audits allocations made through the API. Workflows and pods have audit entries and objects of their own."""

    def __init__(self) -> None:
        super().__init__(
            subject="'gpu_allocation/' || COALESCE(NEW.namespace, OLD.namespace) || '/' "
            "|| COALESCE(NEW.name, OLD.name)",
            action="CASE WHEN TG_OP = 'INSERT' THEN 'gpu_allocation.' || NEW.state WHEN TG_OP = 'DELETE' THEN "
            f"'{AuditAction.GPU_ALLOCATION_DELETED}' WHEN NEW.state <> OLD.state THEN 'gpu_allocation.' || NEW.state "
            f"ELSE '{AuditAction.GPU_ALLOCATION_ADJUSTED}' END",
            ignore=["changed_at", "families", "written", "uncounted"],
        )
        self.func = f"IF COALESCE(NEW.source, OLD.source) <> 'api' THEN RETURN NULL; END IF; {self.func}"


def _raise_one_way(message: str) -> str:
    return raise_message("gpu_allocation_one_way", message, "OLD.name")


class GpuAllocation(models.Model):
    """One worker in a namespace: `count` GPUs, each with these amounts. `name` is the id given by its client, unique
    among unreleased allocations; a released row stays as history and is final.

    `source` is the entry point of the allocation. An assumed allocation is a reservation that ends at `expires_at`.
    `holder` is the gang of a workflow's worker, `backend` the cluster of a pod. `written` keeps the four amounts as
    they were typed. `uncounted` are the annotations of a pod, with spaces between them, that say an amount that is not
    counted: they cannot be read, or they are percentages of a GPU.
    """

    class State(models.TextChoices):
        ASSUMED = "assumed"
        COMMITTED = "committed"
        RELEASED = "released"

    class Source(models.TextChoices):
        API = "api"
        WORKFLOW = "workflow"
        POD = "pod"

    namespace = models.TextField()
    name = models.TextField()
    workload = models.TextField(blank=True)
    request_tflops = _amount()
    request_vram = _amount()
    limit_tflops = _amount()
    limit_vram = _amount()
    count = models.PositiveIntegerField(default=1)
    families = models.TextField(default="DDDD")
    written = models.JSONField(default=list)
    uncounted = models.TextField(blank=True, default="", db_default="")
    state = models.TextField(choices=State.choices, default=State.COMMITTED)
    source = models.TextField(choices=Source.choices, default=Source.API)
    holder = models.UUIDField(null=True)
    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, null=True, related_name="+")
    expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    released_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "name"],
                condition=~Q(state="released"),
                name="gpu_allocation_live_once",
                violation_error_message="An active allocation with that id exists already.",
            ),
            models.CheckConstraint(
                condition=Q(count__gte=1, **{f"{name}__gte": 0 for name in AMOUNTS}),
                name="gpu_allocation_amounts",
                violation_error_message="An allocation has at least one GPU and no negative amount.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["assumed", "committed", "released"])
                & (Q(state="assumed", expires_at__isnull=False) | ~Q(state="assumed") & Q(expires_at__isnull=True)),
                name="gpu_allocation_state",
                violation_error_message="An allocation is assumed with an expiry, committed, or released.",
            ),
        ]
        indexes = [
            models.Index(fields=["namespace", "-id"], name="gpu_allocation_newest"),
            models.Index(fields=["namespace", "name"], name="gpu_allocation_by_name"),
            models.Index(fields=["holder"], name="gpu_allocation_holder", condition=~Q(state="released")),
            models.Index(
                fields=["namespace"],
                name="gpu_allocation_uncounted",
                condition=~Q(state="released") & ~Q(uncounted=""),
            ),
            models.Index(fields=["expires_at"], name="gpu_allocation_expiry", condition=Q(state="assumed")),
            models.Index(
                fields=["released_at"], name="gpu_allocation_released", condition=Q(released_at__isnull=False)
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="one_way",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                func=f"""
                    IF OLD.state = 'released' THEN
                        {_raise_one_way("Allocation % was released and cannot change.")}
                    END IF;
                    IF OLD.state = 'committed' AND NEW.state = 'assumed' THEN
                        {_raise_one_way("Allocation % is committed and cannot become assumed again.")}
                    END IF;
                    IF (NEW.namespace, NEW.name, NEW.source) IS DISTINCT FROM (OLD.namespace, OLD.name, OLD.source) THEN
                        {_raise_one_way("The namespace, id and source of allocation % cannot change.")}
                    END IF;
                    NEW.changed_at := clock_timestamp();
                    IF NEW.state = 'released' THEN
                        NEW.released_at := clock_timestamp();
                        NEW.expires_at := NULL;
                    END IF;
                    RETURN NEW;
                """,
            ),
            _counting("count_insert", pgtrigger.Insert, old=False, new=True),
            _counting("count_update", pgtrigger.Update, old=True, new=True),
            _counting("count_delete", pgtrigger.Delete, old=True, new=False),
            pgtrigger.Trigger(
                name="release_first",
                operation=pgtrigger.Delete,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition("OLD.state <> 'released'"),
                func=raise_message(
                    "gpu_allocation_release_first",
                    "Allocation % is not released and cannot be deleted.",
                    "OLD.name",
                ),
            ),
            _AuditedApiAllocations(),
            NoTruncateTrigger("The table of GPU allocations"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GpuUsageSample(models.Model):
    """The committed amounts of a namespace at one time, stored if they differ from the previous sample."""

    namespace = models.TextField()
    at = models.DateTimeField(db_default=Now())
    requests_tflops = _sum()
    requests_vram = _sum()
    limits_tflops = _sum()
    limits_vram = _sum()
    workers = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["namespace", "-at"]
        indexes = [
            models.Index(fields=["namespace", "-at"], name="gpu_usage_sample_newest"),
            models.Index(fields=["at"], name="gpu_usage_sample_age"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace} at {self.at:%Y-%m-%d %H:%M}"
