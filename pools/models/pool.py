"""Pools and subpools, in one table with a parent edge."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Now

from pools.domain import names
from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.flavors import FLAVOR_NAME_PATTERN, parts_among
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.people.roles import Actor, Permission
from pools.domain.quota.stored_quotas import FLAVOR_LIMITS, flavor_quotas
from pools.domain.quota.tree import LIMIT_KEYS, NodeQuota
from pools.domain.subpool_lifecycle import TRANSITIONS, SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, NO_LIMIT, Gpus, decode_gpus
from pools.models.backend import Backend
from pools.models.change_tokens import (
    COHORTS,
    MoveTokensTrigger,
    TokenKind,
    in_cohort_trees,
    move_token,
    plan_of_backends,
)
from pools.models.cohort import Cohort
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, raise_message

_STEPS = ", ".join(f"'{step.source}>{step.target}'" for step in TRANSITIONS)

STATE_MACHINE = pgtrigger.Trigger(
    name="state_machine",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.Before,
    func=f"""
        IF TG_OP = 'INSERT' THEN
            IF NEW.subpool_state <> '{SubpoolState.ACTIVE}' THEN
                {raise_message("subpool_state_machine", "A new subpool is ACTIVE, not %.", "NEW.subpool_state")}
            END IF;
            RETURN NEW;
        END IF;
        IF NEW.parent_id IS DISTINCT FROM OLD.parent_id OR NEW.subpool_name IS DISTINCT FROM OLD.subpool_name THEN
            {raise_message("subpool_identity", "The parent and the short name of a subpool cannot change.")}
        END IF;
        IF NEW.subpool_state <> OLD.subpool_state
            AND OLD.subpool_state || '>' || NEW.subpool_state NOT IN ({_STEPS})
        THEN
            {
        raise_message(
            "subpool_state_machine", "A subpool cannot go from % to %.", "OLD.subpool_state", "NEW.subpool_state"
        )
    }
        END IF;
        IF OLD.subpool_state <> '{SubpoolState.ACTIVE}' AND NEW.subpool_state = OLD.subpool_state
            AND (NEW.last_quota <> OLD.last_quota OR NEW.flavors <> OLD.flavors)
        THEN
            {raise_message("subpool_frozen", "The quota of a subpool in state % cannot change.", "OLD.subpool_state")}
        END IF;
        IF (NEW.subpool_state = '{SubpoolState.ARCHIVED}' AND OLD.subpool_state <> NEW.subpool_state
                OR NEW.archived AND NOT OLD.archived)
            AND EXISTS (SELECT FROM pools_reservation WHERE pool_id = NEW.id)
        THEN
            {
        raise_message("archived_has_no_live_work", "% still has active workflows and cannot be archived.", "NEW.name")
    }
        END IF;
        IF NEW.archived AND EXISTS (
            SELECT FROM pools_pool WHERE parent_id = NEW.id AND subpool_state <> '{SubpoolState.ARCHIVED}'
        ) THEN
            {raise_message("archived_has_no_slices", "% still has subpools and cannot be archived.", "NEW.name")}
        END IF;
        IF to_jsonb(NEW) - ARRAY['version', 'updated_at']
            IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at']
        THEN
            NEW.version := OLD.version + 1;
            -- A drain begins with the last change of the row, so its deadline is none.
            NEW.updated_at := CASE
                WHEN to_jsonb(NEW) - ARRAY['version', 'updated_at', 'drain_by']
                    IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at', 'drain_by']
                THEN clock_timestamp() ELSE OLD.updated_at END;
        ELSE
            NEW.version := OLD.version;
        END IF;
        RETURN NEW;
    """,
)

# Deferred, so that one transaction may shrink one subpool and grow another in any order. The lock of the parent's row
# orders two transactions, each of which would be valid on its own.
SUBPOOLS_WITHIN_GUARANTEE = pgtrigger.Trigger(
    name="subpools_within_guarantee",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    declare=[("root", "bigint"), ("guaranteed", "integer"), ("allocated", "bigint"), ("subpools", "bigint")],
    func=f"""
        root := COALESCE(NEW.parent_id, NEW.id);
        SELECT guarantee INTO guaranteed FROM pools_pool WHERE id = root FOR NO KEY UPDATE;
        SELECT COALESCE(sum(last_quota), 0), count(*) INTO allocated, subpools
            FROM pools_pool WHERE parent_id = root AND subpool_state = '{SubpoolState.ACTIVE}';
        IF subpools > 0 AND COALESCE(guaranteed, -1) = -1 THEN
            {raise_message("slices_within_guarantee", "A pool with subpools needs a finite quota (guarantee).")}
        END IF;
        IF subpools > 0 AND allocated > guaranteed THEN
            {
        raise_message(
            "slices_within_guarantee",
            "The subpools of a pool have quotas of % GPUs together, the quota of the pool is %.",
            "allocated",
            "guaranteed",
        )
    }
        END IF;
        RETURN NULL;
    """,
)


def _wrong_rows(column: str, keys: str) -> str:
    """SQL: whether a row of quotas by flavor has no name, no whole number, or another key."""
    return f"""
        jsonb_typeof(NEW.{column}) <> 'array' OR EXISTS (
            SELECT FROM jsonb_array_elements(NEW.{column}) each
            WHERE jsonb_typeof(each) <> 'object'
                OR NOT COALESCE(each ->> 'flavor' ~ '{FLAVOR_NAME_PATTERN}', false)
                OR COALESCE(jsonb_typeof(each -> 'quota'), '') <> 'number'
                OR EXISTS (
                    SELECT FROM jsonb_each_text(each - 'flavor') amount
                    WHERE amount.key NOT IN ({keys}) OR NOT COALESCE(amount.value ~ '^[0-9]{{1,10}}$', false)
                )
        ) OR (SELECT count(*) <> count(DISTINCT each ->> 'flavor') FROM jsonb_array_elements(NEW.{column}) each)"""


_AMOUNTS = ", ".join(f"'{key}'" for key in ("quota", *FLAVOR_LIMITS))
CHECK_FLAVORS = pgtrigger.Trigger(
    name="check_flavors",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.Before,
    condition=pgtrigger.Condition("NEW.flavors <> '[]' OR NEW.flavors_after <> '[]'"),
    func=f"""
        IF NEW.parent_id IS NULL AND ({_wrong_rows("flavors", _AMOUNTS)})
            OR NEW.parent_id IS NOT NULL AND ({_wrong_rows("flavors", "'quota'")})
            OR {_wrong_rows("flavors_after", "'quota'")}
        THEN
            {
        raise_message(
            "pool_flavors",
            "The quotas of % by flavor are a list: the name of each flavor once, and whole numbers of 0 or more.",
            "NEW.name",
        )
    }
        END IF;
        IF EXISTS (
            SELECT FROM jsonb_array_elements(NEW.flavors) each
            WHERE (each ->> 'maximum')::bigint < (each ->> 'quota')::bigint
                OR (each ->> 'lending_limit')::bigint > (each ->> 'quota')::bigint
        ) THEN
            {
        raise_message(
            "pool_flavors", "A flavor of % has a maximum below its quota, or lends more than its quota.", "NEW.name"
        )
    }
        END IF;
        IF NEW.cohort_id IS NULL AND EXISTS (
            SELECT FROM jsonb_array_elements(NEW.flavors) each
            WHERE each ? 'borrowing_limit' OR each ? 'lending_limit'
        ) THEN
            {
        raise_message(
            "pool_flavors", "Only a pool in a cohort has a borrowing or a lending limit: % is in none.", "NEW.name"
        )
    }
        END IF;
        IF NEW.flavors <> '[]' AND (NEW.borrowing_limit IS NOT NULL OR NEW.lending_limit IS NOT NULL) THEN
            {raise_message("pool_flavors", "The limits of % in its cohort are those of its flavors.", "NEW.name")}
        END IF;
        RETURN NEW;
    """,
)

# Deferred, because one transaction may change a quota and its parts, a pool and its subpools, in any order.
FLAVORS_WITHIN_QUOTA = pgtrigger.Trigger(
    name="flavors_within_quota",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    declare=[("root", "pools_pool"), ("changed", "pools_pool"), ("wrong", "record")],
    func=f"""
        SELECT * INTO changed FROM pools_pool WHERE id = NEW.id;
        IF NOT FOUND THEN RETURN NULL; END IF;
        SELECT * INTO root FROM pools_pool WHERE id = COALESCE(changed.parent_id, changed.id) FOR NO KEY UPDATE;
        IF root.flavors = '[]' AND NOT EXISTS (
            SELECT FROM pools_pool WHERE parent_id = root.id AND subpool_state <> '{SubpoolState.ARCHIVED}'
                AND (flavors <> '[]' OR flavors_after <> '[]')
        ) THEN
            RETURN NULL;
        END IF;
        SELECT pool.name, sums.parts, sums.whole INTO wrong
            FROM pools_pool pool, LATERAL (
                VALUES (
                    (SELECT sum((each ->> 'quota')::bigint) FROM jsonb_array_elements(pool.flavors) each),
                    CASE WHEN pool.parent_id IS NULL THEN pool.guarantee ELSE pool.last_quota END
                ), (
                    (SELECT sum((each ->> 'quota')::bigint) FROM jsonb_array_elements(pool.flavors_after) each),
                    pool.quota_after
                )
            ) sums (parts, whole)
            WHERE (pool.id = root.id OR pool.parent_id = root.id
                    AND pool.subpool_state <> '{SubpoolState.ARCHIVED}')
                AND sums.parts IS DISTINCT FROM sums.whole
                AND NOT (sums.parts IS NULL AND (sums.whole IS NULL OR pool.flavors = '[]'
                    AND (pool.parent_id IS NULL OR root.flavors = '[]' OR pool.last_quota = 0)))
            LIMIT 1;
        IF wrong.name IS NOT NULL THEN
            {
        raise_message(
            "flavors_sum_to_quota",
            "The flavors of % have % GPUs together, its quota is %. Set its quotas by flavor first, each of them.",
            "wrong.name",
            "COALESCE(wrong.parts, 0)",
            "COALESCE(wrong.whole::text, 'not finite')",
        )
    }
        END IF;
        SELECT part.name, after.flavor, after.gpus, COALESCE(now.gpus, 0) AS now INTO wrong
            FROM pools_pool part
            CROSS JOIN LATERAL (
                SELECT each ->> 'flavor' AS flavor, (each ->> 'quota')::bigint AS gpus
                    FROM jsonb_array_elements(part.flavors_after) each
            ) after
            LEFT JOIN LATERAL (
                SELECT (each ->> 'quota')::bigint AS gpus FROM jsonb_array_elements(part.flavors) each
                    WHERE each ->> 'flavor' = after.flavor
            ) now ON true
            WHERE part.parent_id = root.id AND after.gpus > COALESCE(now.gpus, 0) LIMIT 1;
        IF wrong.name IS NOT NULL THEN
            {
        raise_message(
            "flavors_within_quota",
            "% has % % GPUs after its temporary quota, more than the % that it has now.",
            "wrong.name",
            "wrong.gpus",
            "wrong.flavor",
            "wrong.now",
        )
    }
        END IF;
        WITH owned AS (
            SELECT each ->> 'flavor' AS flavor, (each ->> 'quota')::bigint AS gpus
                FROM jsonb_array_elements(root.flavors) each WHERE root.flavors <> '[]'
            UNION ALL SELECT '{DEFAULT_FLAVOR}', root.guarantee WHERE root.flavors = '[]'
        ), given AS (
            SELECT part.name, part.subpool_state, each ->> 'flavor' AS flavor, (each ->> 'quota')::bigint AS gpus
                FROM pools_pool part CROSS JOIN LATERAL jsonb_array_elements(part.flavors) each
                WHERE part.parent_id = root.id AND part.subpool_state <> '{SubpoolState.ARCHIVED}'
            UNION ALL SELECT part.name, part.subpool_state, '{DEFAULT_FLAVOR}', part.last_quota FROM pools_pool part
                WHERE part.parent_id = root.id AND part.subpool_state <> '{SubpoolState.ARCHIVED}'
                    AND part.flavors = '[]' AND part.last_quota > 0
        )
        SELECT given.flavor, owned.gpus AS quota, min(given.name) AS name,
                COALESCE(sum(given.gpus) FILTER (WHERE given.subpool_state = '{
        SubpoolState.ACTIVE
    }'), 0) AS given INTO wrong
            FROM given LEFT JOIN owned USING (flavor)
            GROUP BY given.flavor, owned.gpus
            HAVING owned.gpus IS NULL
                OR sum(given.gpus) FILTER (WHERE given.subpool_state = '{SubpoolState.ACTIVE}') > owned.gpus
            LIMIT 1;
        IF wrong.flavor IS NOT NULL AND wrong.quota IS NULL THEN
            {
        raise_message(
            "flavors_within_quota",
            "% has a quota of % GPUs, a flavor that pool % does not have.",
            "wrong.name",
            "wrong.flavor",
            "root.name",
        )
    }
        END IF;
        IF wrong.flavor IS NOT NULL THEN
            {
        raise_message(
            "flavors_within_quota",
            "The subpools of % have % % GPUs together, the quota of the pool is %.",
            "root.name",
            "wrong.given",
            "wrong.flavor",
            "wrong.quota",
        )
    }
        END IF;
        SELECT each ->> 'flavor' AS flavor, backend.name AS backend INTO wrong
            FROM jsonb_array_elements(root.flavors) each, pools_backend backend
            WHERE backend.id = root.backend_id AND NOT root.archived AND each ->> 'flavor' <> '{DEFAULT_FLAVOR}'
                AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', each ->> 'flavor'))
            LIMIT 1;
        IF wrong.flavor IS NOT NULL THEN
            {
        raise_message(
            "pool_flavor_known",
            "Pool % has a quota of % GPUs, a flavor that cluster % does not name.",
            "root.name",
            "wrong.flavor",
            "wrong.backend",
        )
    }
        END IF;
        RETURN NULL;
    """,
)

# Deferred, because a rename changes the parent's row first and the rows of its subpools after it.
CHECK_NAMES = pgtrigger.Trigger(
    name="check_names",
    operation=pgtrigger.Insert | pgtrigger.UpdateOf("name", "backend_id"),
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    declare=[("wrong", "text")],
    func=f"""
        SELECT child.name INTO wrong
            FROM pools_pool child JOIN pools_pool parent ON parent.id = child.parent_id
            WHERE (child.id = NEW.id OR child.parent_id = NEW.id)
                AND child.name <> parent.name || '{names.SEPARATOR}' || child.subpool_name LIMIT 1;
        IF wrong IS NOT NULL THEN
            {
        raise_message("subpool_name_follows_parent", "The name % does not begin with the name of its parent.", "wrong")
    }
        END IF;
        SELECT pool.name INTO wrong
            FROM pools_pool pool
            JOIN pools_pool root ON root.id = COALESCE(pool.parent_id, pool.id)
            JOIN pools_backend backend ON backend.id = root.backend_id
            WHERE (pool.id = NEW.id OR pool.parent_id = NEW.id)
                AND length('osmo-pool-' || backend.namespace || '-' || pool.name
                    || CASE WHEN pool.parent_id IS NULL THEN '{names.SEPARATOR}{names.SHARED_QUEUE}' ELSE '' END)
                    > {names.LABEL_LIMIT}
            LIMIT 1;
        IF wrong IS NOT NULL THEN
            {
        raise_message(
            "queue_name_length",
            f"The queue name of % would be longer than {names.LABEL_LIMIT} characters.",
            "wrong",
        )
    }
        END IF;
        RETURN NULL;
    """,
)

_TREE_COLUMNS = ("name", "cohort_id", "guarantee", "maximum", "borrowing_limit", "lending_limit", "flavors")
MOVE_TOKENS = MoveTokensTrigger(
    plan_of_backends(
        f"""
        SELECT NEW.backend_id UNION SELECT OLD.backend_id
        UNION SELECT backend_id FROM pools_pool WHERE id IN (NEW.parent_id, OLD.parent_id)
        UNION ({in_cohort_trees("NEW.cohort_id", "OLD.cohort_id")})
        """,
        TokenKind.QUOTAS,
    )
    + f"""
        IF COALESCE(NEW.cohort_id, OLD.cohort_id) IS NOT NULL
            AND ({", ".join(f"NEW.{column}" for column in _TREE_COLUMNS)})
                IS DISTINCT FROM ({", ".join(f"OLD.{column}" for column in _TREE_COLUMNS)})
        THEN{move_token(TokenKind.QUOTAS, f"'{COHORTS}'")}
        END IF;"""
)

PROTECT_HISTORY = pgtrigger.Trigger(
    name="protect_history",
    operation=pgtrigger.Delete,
    when=pgtrigger.Before,
    func=f"""
        IF OLD.parent_id IS NOT NULL THEN
            {raise_message("subpool_never_deleted", "Subpool % can be archived, not deleted.", "OLD.name")}
        END IF;
        IF OLD.archived THEN
            {raise_message("archived_never_deleted", "Pool % is archived and keeps its history.", "OLD.name")}
        END IF;
        RETURN OLD;
    """,
)

CREATE_COUNTERS = pgtrigger.Trigger(
    name="create_counters",
    operation=pgtrigger.Insert,
    when=pgtrigger.After,
    func="""
        INSERT INTO pools_leafusage (pool_id, used, total_usage, live_workflows, committed)
            VALUES (NEW.id, 0, 0, 0, 0);
        RETURN NULL;
    """,
)

DELETE_COUNTERS = pgtrigger.Trigger(
    name="delete_counters",
    operation=pgtrigger.Delete,
    when=pgtrigger.After,
    func="""
        DELETE FROM pools_leafusage WHERE pool_id = OLD.id;
        DELETE FROM pools_flavorusage WHERE pool_id = OLD.id;
        RETURN NULL;
    """,
)

_ACTION = f"""
    CASE
        WHEN COALESCE(NEW.parent_id, OLD.parent_id) IS NULL THEN CASE
            WHEN TG_OP = 'INSERT' THEN '{AuditAction.POOL_CREATED}'
            WHEN TG_OP = 'DELETE' THEN '{AuditAction.POOL_DELETED}'
            WHEN NEW.archived AND NOT OLD.archived THEN '{AuditAction.POOL_ARCHIVED}'
            WHEN OLD.archived AND NOT NEW.archived THEN '{AuditAction.POOL_REACTIVATED}'
            WHEN NEW.name <> OLD.name THEN '{AuditAction.POOL_RENAMED}'
            ELSE '{AuditAction.POOL_UPDATED}' END
        WHEN TG_OP = 'INSERT' THEN '{AuditAction.SUBPOOL_CREATED}'
        WHEN TG_OP = 'DELETE' THEN '{AuditAction.SUBPOOL_DELETED}'
        WHEN NEW.subpool_state = OLD.subpool_state THEN
            CASE WHEN NEW.name <> OLD.name THEN '{AuditAction.SUBPOOL_RENAMED}' ELSE '{AuditAction.SUBPOOL_UPDATED}' END
        WHEN NEW.subpool_state = '{SubpoolState.DELETING}' THEN '{AuditAction.SUBPOOL_DELETING}'
        WHEN NEW.subpool_state = '{SubpoolState.ARCHIVED}' THEN '{AuditAction.SUBPOOL_ARCHIVED}'
        ELSE '{AuditAction.SUBPOOL_REACTIVATED}'
    END
"""


class PoolQuerySet(models.QuerySet["Pool"]):
    """Reads of pools, by name."""

    def visible_to(self, actor: Actor) -> PoolQuerySet:
        """The pools, with their subpools, on which `actor` has a role; all pools for platform readers (design, D10)."""
        if actor.can_read_all:
            return self
        readable = actor.pools_with(Permission.POOL_READ)
        return self.filter(Q(parent__isnull=True, name__in=readable) | Q(parent__name__in=readable))

    def not_archived(self) -> PoolQuerySet:
        """Without archived pools and ARCHIVED subpools, as lists show them."""
        return self.filter(archived=False).exclude(subpool_state=SubpoolState.ARCHIVED)

    def roots(self) -> PoolQuerySet:
        """Top-level pools."""
        return self.filter(parent__isnull=True)

    def in_tree_order(self) -> PoolQuerySet:
        """By parent's name, each parent before its subpools, subpools by name (design, O5.2: the order matters)."""
        return self.annotate(
            _root=Coalesce("parent__name", "name"), _short=Coalesce("subpool_name", Value(""))
        ).order_by("_root", F("parent_id").asc(nulls_first=True), "_short")


class Pool(models.Model):
    """A named share of GPUs on a backend, or (with a parent) a subpool: a part of a pool with a quota of its own.

    A subpool owns its name, its quota and its state; everything else is read from the parent. `last_quota` is the
    quota of the subpool while it is ACTIVE, and its last quota afterwards. A top-level row also represents its hidden
    shared leaf. `guarantee` is the quota of a pool and `maximum` its limit, in GPUs; -1 is unlimited, null is "not
    configured", which means the same. `borrowing_limit` and `lending_limit` are GPUs too, null means no limit; only a
    pool in a cohort has them. A temporary quota of a subpool ends at `quota_until`; a background job then sets the
    quota to `quota_after`, which is lower. `flavors` divides the quota of a pool or subpool by flavor, in the pool's
    order of preference, and `flavors_after` does so with `quota_after` (:mod:`pools.domain.quota.stored_quotas`);
    empty, all of it is of the flavor `default`. A draining subpool may have a deadline, `drain_by`: the time at which
    somebody wants its work to have ended, which stops no work; a change of it leaves `updated_at`. `version` grows
    with configuration and state, never with usage.
    """

    name = models.TextField(unique=True)
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="subpools")
    subpool_name = models.TextField(null=True)
    subpool_state = models.TextField(null=True, choices=[(state, state) for state in SubpoolState])
    last_quota = models.IntegerField(null=True)
    quota_until = models.DateTimeField(null=True)
    quota_after = models.IntegerField(null=True)
    flavors = models.JSONField(default=list, db_default=[])
    flavors_after = models.JSONField(default=list, db_default=[])
    drain_by = models.DateTimeField(null=True)
    archived = models.BooleanField(default=False)

    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, null=True, related_name="pools")
    description = models.TextField(blank=True)
    guarantee = models.IntegerField(null=True)
    maximum = models.IntegerField(null=True)
    weight = models.IntegerField(null=True)
    cohort = models.ForeignKey(Cohort, on_delete=models.PROTECT, null=True, related_name="pools")
    borrowing_limit = models.IntegerField(null=True)
    lending_limit = models.IntegerField(null=True)
    enable_maintenance = models.BooleanField(default=False)
    config = models.JSONField(default=dict)

    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    objects = PoolQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        indexes = [
            models.Index(fields=["quota_until"], name="pool_quota_until", condition=Q(quota_until__isnull=False)),
            # Every release of a GPU worker asks for the pools of its namespace.
            models.Index(
                KT(f"config__{GPU_NAMESPACE}"),
                name="pool_of_gpu_namespace",
                condition=Q(parent__isnull=True, archived=False, backend__isnull=False),
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["parent", "subpool_name"], name="subpool_name_once_per_parent"),
            models.CheckConstraint(
                condition=Q(
                    parent__isnull=True,
                    subpool_name__isnull=True,
                    subpool_state__isnull=True,
                    last_quota__isnull=True,
                    backend__isnull=False,
                )
                | Q(
                    parent__isnull=False,
                    subpool_name__isnull=False,
                    subpool_state__in=list(SubpoolState),
                    last_quota__gte=0,
                    archived=False,
                    backend__isnull=True,
                    description="",
                    guarantee__isnull=True,
                    maximum__isnull=True,
                    weight__isnull=True,
                    cohort__isnull=True,
                    enable_maintenance=False,
                    config={},
                ),
                name="pool_is_root_or_slice",
                violation_error_message="A subpool owns only name, quota and state; all else belongs to its parent.",
            ),
            models.CheckConstraint(
                condition=Q(quota_until__isnull=True, quota_after__isnull=True)
                | Q(
                    parent__isnull=False,
                    subpool_state=SubpoolState.ACTIVE,
                    quota_until__isnull=False,
                    quota_after__isnull=False,
                    quota_after__gte=0,
                    quota_after__lt=F("last_quota"),
                ),
                name="temporary_quota_is_a_raise",
                violation_error_message="A temporary quota belongs to an ACTIVE subpool, ends, and is above the quota "
                "that follows it.",
            ),
            models.CheckConstraint(
                condition=Q(drain_by__isnull=True) | Q(parent__isnull=False, subpool_state=SubpoolState.DELETING),
                name="deadline_is_of_a_drain",
                violation_error_message="Only a draining (DELETING) subpool has a deadline.",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, name__regex=names.SHORT_NAME_PATTERN)
                | Q(parent__isnull=False, subpool_name__regex=names.SHORT_NAME_PATTERN),
                name="pool_name_rule",
                violation_error_message="Names have lower-case letters, digits and hyphens, a letter first.",
            ),
            models.CheckConstraint(
                condition=~Q(parent__isnull=True, name__contains=names.SEPARATOR)
                & ~Q(parent__isnull=False, subpool_name__contains=names.SEPARATOR),
                name="pool_name_separator",
                violation_error_message="A name cannot contain '--', which separates a pool from its subpool.",
            ),
            models.CheckConstraint(
                condition=(Q(guarantee__isnull=True) | Q(guarantee__gte=-1))
                & (Q(maximum__isnull=True) | Q(maximum__gte=-1))
                & (Q(weight__isnull=True) | Q(weight__gte=0)),
                name="pool_no_negative_quota",
                violation_error_message="A quota is 0 or more GPUs; -1 means unlimited.",
            ),
            models.CheckConstraint(
                condition=Q(cohort__isnull=False) | Q(borrowing_limit__isnull=True, lending_limit__isnull=True),
                name="pool_limits_need_cohort",
                violation_error_message="Only a pool in a cohort has a borrowing or a lending limit.",
            ),
            models.CheckConstraint(
                condition=(Q(borrowing_limit__isnull=True) | Q(borrowing_limit__gte=0))
                & (Q(lending_limit__isnull=True) | Q(lending_limit__gte=0)),
                name="pool_no_negative_limit",
                violation_error_message="A limit is 0 or more GPUs.",
            ),
            models.CheckConstraint(
                condition=Q(lending_limit__isnull=True)
                | Q(guarantee__isnull=True)
                | Q(guarantee=NO_LIMIT)
                | Q(lending_limit__lte=F("guarantee")),
                name="pool_lends_what_it_has",
                violation_error_message="A pool cannot lend more than its quota (guarantee).",
            ),
            models.CheckConstraint(
                condition=Q(archived=False) | Q(cohort__isnull=True),
                name="pool_archived_has_no_cohort",
                violation_error_message="An archived pool cannot be in a cohort.",
            ),
        ]
        triggers = [
            STATE_MACHINE,
            SUBPOOLS_WITHIN_GUARANTEE,
            CHECK_FLAVORS,
            FLAVORS_WITHIN_QUOTA,
            CHECK_NAMES,
            MOVE_TOKENS,
            PROTECT_HISTORY,
            CREATE_COUNTERS,
            DELETE_COUNTERS,
            AuditTrigger(
                subject="'pool/' || COALESCE(NEW.name, OLD.name)",
                action=_ACTION,
                pool_id="COALESCE(NEW.parent_id, NEW.id, OLD.id)",
                ignore=["version", "updated_at"],
                named={"cohort": "(SELECT name FROM pools_cohort WHERE id = ROW.cohort_id)"},
            ),
            OwnedTrigger(
                OwnedKind.POOL,
                name="COALESCE(OLD.name, NEW.name)",
                unless="COALESCE(OLD.parent_id, NEW.parent_id) IS NOT NULL OR TG_OP = 'UPDATE' AND"
                " to_jsonb(NEW) - ARRAY['version', 'updated_at'] = to_jsonb(OLD) - ARRAY['version', 'updated_at']",
            ),
            # A subpool that drained, and a temporary quota that ended, follow from earlier changes.
            OwnedTrigger(
                OwnedKind.POOL,
                only_subpools=True,
                name="(SELECT name FROM pools_pool WHERE id = COALESCE(OLD.parent_id, NEW.parent_id))",
                unless=f"""COALESCE(OLD.parent_id, NEW.parent_id) IS NULL OR TG_OP = 'UPDATE' AND (
                    (NEW.subpool_state, NEW.last_quota, NEW.flavors, NEW.quota_until) IS NOT DISTINCT FROM
                        (OLD.subpool_state, OLD.last_quota, OLD.flavors, OLD.quota_until)
                    OR OLD.subpool_state = '{SubpoolState.DELETING}'
                    OR OLD.quota_until <= clock_timestamp() AND NEW.quota_until IS NULL
                        AND NEW.last_quota = OLD.quota_after AND NEW.flavors = OLD.flavors_after
                        AND NEW.subpool_state = OLD.subpool_state
                )""",
            ),
            NoTruncateTrigger("The table of pools"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def root(self) -> Pool:
        """The top-level pool whose configuration applies."""
        return self.parent or self

    @property
    def namespace(self) -> str:
        """The `{ns}` of its queue names."""
        backend = self.root.backend
        assert backend is not None, "a top-level pool has a backend (constraint pool_is_root_or_slice)"
        return backend.namespace

    @property
    def queue(self) -> str:
        """The logical leaf queue of submissions to this pool (design, D2)."""
        return names.queue_name(self.namespace, self.root.name, self.subpool_name or names.SHARED_QUEUE)

    @property
    def k8s_queue(self) -> str:
        """The same leaf as a Kubernetes object name."""
        return names.k8s_queue_name(self.queue)

    @property
    def takes_no_work(self) -> bool:
        """Whether a top-level pool admits no new work: archived, or in maintenance."""
        return self.archived or self.enable_maintenance

    @property
    def effective_guarantee(self) -> Gpus:
        """The quota of a pool (`guarantee`); `UNLIMITED` without one."""
        return decode_gpus(self.guarantee)

    @property
    def limits_by_flavor(self) -> dict[str, NodeQuota]:
        """The same by GPU flavor; a pool without flavors has `default` alone."""
        if not self.flavors:
            return {DEFAULT_FLAVOR: self.limits}
        return {each.flavor: each.limits for each in flavor_quotas(self.flavors)}

    @property
    def gpu_flavors(self) -> tuple[str, ...]:
        """The GPU flavors that it has quotas of, in its order of preference; none if all of its quota is `default`."""
        return tuple(row["flavor"] for row in self.flavors)

    @property
    def part_flavors(self) -> frozenset[str]:
        """Those of the cluster of a top-level pool that count parts of shared GPUs; none for a pool without flavors."""
        return parts_among(self.backend.flavors) if self.flavors and self.backend else frozenset()

    @property
    def effective_maximum(self) -> Gpus:
        """The maximum; `UNLIMITED` without one."""
        return decode_gpus(self.maximum)

    @property
    def limits(self) -> NodeQuota:
        """What it may borrow and lend in its cohort, as it is configured."""
        return NodeQuota(0, decode_gpus(self.borrowing_limit), decode_gpus(self.lending_limit))

    def leave_cohort(self) -> list[str]:
        """Take the pool out of its cohort, with its limits there, which need a cohort. Returns the columns to save."""
        columns = ["cohort", *LIMIT_KEYS]
        for column in columns:
            setattr(self, column, None)
        return columns

    @property
    def topology_labels(self) -> dict[str, str]:
        """The topology keys of a top-level pool with their node labels, coarse to fine."""
        return {row["key"]: row["label"] for row in self.config.get("topology_keys") or ()}

    @property
    def platforms(self) -> dict[str, Any]:
        """Platforms of the pool's nodes by name; without any the pool has `default`."""
        return self.root.config.get("platforms") or {"default": {}}
