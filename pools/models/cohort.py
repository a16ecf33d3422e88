"""Cohorts: groups of pools, and of other cohorts, that lend to and borrow from one another."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from pools.domain import names
from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.cohort_config import MAX_WEIGHT, WEIGHT_DECIMALS, CohortSettings
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.quota.rules import MAX_QUOTA_ROWS
from pools.domain.quota.stored_quotas import rows_from_stored
from pools.domain.quota.tree import AMOUNT_KEYS
from pools.domain.values.amounts import simplify
from pools.models.change_tokens import (
    COHORTS,
    MoveTokensTrigger,
    TokenKind,
    in_cohort_trees,
    move_token,
    plan_of_backends,
)
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import CONFIGURATION_LOCK, AuditTrigger, NoTruncateTrigger, raise_message

_NAME = rf"^[a-z]([a-z0-9-]{{0,{names.LABEL_LIMIT - 2}}}[a-z0-9])?$"

# All writers of parents take one lock, raw SQL too: two writes, each valid on its own, could form a cycle together.
NO_CYCLE = pgtrigger.Trigger(
    name="no_cycle",
    operation=pgtrigger.Insert | pgtrigger.UpdateOf("parent_id"),
    when=pgtrigger.Before,
    declare=[("cycle_names", "text[]")],
    func=f"""
        IF NEW.parent_id IS NULL THEN RETURN NEW; END IF;
        PERFORM pg_advisory_xact_lock({CONFIGURATION_LOCK});
        WITH RECURSIVE path (id, parent_id, names) AS (
            SELECT id, parent_id, ARRAY[NEW.name, name] FROM pools_cohort WHERE id = NEW.parent_id
            UNION ALL
            SELECT above.id, above.parent_id, path.names || above.name
            FROM path JOIN pools_cohort above ON above.id = path.parent_id
            WHERE path.id <> NEW.id AND above.name <> ALL (path.names[2:])
        )
        SELECT names INTO cycle_names FROM path WHERE id = NEW.id;
        IF cycle_names IS NOT NULL THEN
            {
        raise_message(
            "cohort_no_circle", "The parents of cohorts would form a cycle: %.", "array_to_string(cycle_names, ' → ')"
        )
    }
        END IF;
        RETURN NEW;
    """,
)

CHECK_SETTINGS = pgtrigger.Trigger(
    name="rules",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.Before,
    declare=[("wrong", "text")],
    func=f"""
        IF jsonb_typeof(NEW.quotas) <> 'object' THEN
            {raise_message("cohort_quotas", "The quotas of a cohort must be an object with keys flavor/resource.")}
        END IF;
        IF (SELECT count(*) FROM jsonb_object_keys(NEW.quotas)) > {MAX_QUOTA_ROWS} THEN
            {raise_message("cohort_quotas", f"A cohort has quotas of at most {MAX_QUOTA_ROWS} resources.")}
        END IF;
        SELECT key INTO wrong FROM jsonb_each(NEW.quotas)
            WHERE key NOT LIKE '_%/_%' OR jsonb_typeof(value) <> 'object'
                OR COALESCE(jsonb_typeof(value -> 'nominal'), '') <> 'number' LIMIT 1;
        IF wrong IS NOT NULL THEN
            {raise_message("cohort_quotas", "% is not a valid flavor/resource with a nominal quota.", "wrong")}
        END IF;
        SELECT quota.key || ' ' || amount.key INTO wrong
            FROM jsonb_each(NEW.quotas) quota, jsonb_each_text(quota.value) amount
            WHERE amount.key NOT IN {AMOUNT_KEYS} OR amount.value !~ '^[0-9]{{1,16}}$'
            LIMIT 1;
        IF wrong IS NOT NULL THEN
            {raise_message("cohort_no_negative_quota", "% is not a whole number of 0 or more.", "wrong")}
        END IF;
        IF NEW.parent_id IS NULL AND jsonb_path_exists(
            NEW.quotas, '$.*.keyvalue() ? (@.key != "nominal" && @.value != null)'
        ) THEN
            {raise_message("cohort_limits_need_parent", "Cohort % has limits but no parent.", "NEW.name")}
        END IF;
        IF TG_OP = 'UPDATE' THEN
            IF to_jsonb(NEW) - ARRAY['version', 'updated_at', 'inactive_since']
                IS DISTINCT FROM to_jsonb(OLD) - ARRAY['version', 'updated_at', 'inactive_since']
            THEN
                NEW.version := OLD.version + 1;
                NEW.updated_at := clock_timestamp();
            ELSE
                NEW.version := OLD.version;
            END IF;
        END IF;
        RETURN NEW;
    """,
)

MOVE_TOKENS = MoveTokensTrigger(
    plan_of_backends(in_cohort_trees("NEW.id", "OLD.id", "NEW.parent_id", "OLD.parent_id"), TokenKind.QUOTAS)
    + move_token(TokenKind.QUOTAS, f"'{COHORTS}'")
)


def _of_explicit_sql(row: str, explicit: AuditAction, implicit: AuditAction) -> str:
    return f"CASE WHEN {row}.explicit THEN '{explicit}' ELSE '{implicit}' END"


_ACTION = f"""
    CASE
        WHEN TG_OP = 'INSERT' THEN {_of_explicit_sql("NEW", AuditAction.COHORT_CREATED, AuditAction.COHORT_NAMED)}
        WHEN TG_OP = 'DELETE' THEN {_of_explicit_sql("OLD", AuditAction.COHORT_DELETED, AuditAction.COHORT_FORGOTTEN)}
        WHEN NEW.explicit AND NOT OLD.explicit THEN '{AuditAction.COHORT_CREATED}'
        WHEN NEW.parent_id IS DISTINCT FROM OLD.parent_id THEN '{AuditAction.COHORT_MOVED}'
        WHEN OLD.inactive_since IS NULL AND NEW.inactive_since IS NOT NULL THEN '{AuditAction.COHORT_INACTIVE}'
        WHEN OLD.inactive_since IS NOT NULL AND NEW.inactive_since IS NULL THEN '{AuditAction.COHORT_ACTIVE}'
        ELSE '{AuditAction.COHORT_UPDATED}'
    END
"""


class Cohort(models.Model):
    """A node above the pools. All pools and cohorts below it share its quotas, in addition to their own; it runs no
    work.

    A cohort that is only named (by a pool, or by another cohort as its parent) is implicit: it has no quota, no limits
    and no parent. It becomes `explicit` when it is configured, and is deleted when no pool or cohort names it. `quotas`
    is by `flavor/resource` (:data:`pools.domain.quota.stored_quotas.StoredQuotas`). `inactive_since` is the
    time when a check found its parents in a cycle, which only a write past the triggers can cause.
    """

    name = models.TextField(unique=True)
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    explicit = models.BooleanField(default=True)
    quotas = models.JSONField(default=dict)
    weight = models.DecimalField(max_digits=10 + WEIGHT_DECIMALS, decimal_places=WEIGHT_DECIMALS, default=Decimal(1))

    inactive_since = models.DateTimeField(null=True)

    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(name__regex=_NAME) & ~Q(name__contains=names.SEPARATOR),
                name="cohort_name_rule",
                violation_error_message="A cohort's name has lower-case letters, digits and single hyphens.",
            ),
            models.CheckConstraint(
                condition=Q(weight=0) | Q(weight__gt=0, weight__lte=MAX_WEIGHT),
                name="cohort_weight",
                violation_error_message="A weight is 0 or more.",
            ),
            models.CheckConstraint(
                condition=Q(explicit=True) | Q(parent__isnull=True, quotas={}, weight=1),
                name="cohort_named_is_bare",
                violation_error_message="An implicit cohort has no quota, no limits and no parent.",
            ),
        ]
        triggers = [
            NO_CYCLE,
            CHECK_SETTINGS,
            MOVE_TOKENS,
            AuditTrigger(
                subject="'cohort/' || COALESCE(NEW.name, OLD.name)",
                action=_ACTION,
                ignore=["version", "updated_at"],
                named={"parent": "(SELECT name FROM pools_cohort WHERE id = ROW.parent_id)"},
            ),
            OwnedTrigger(
                OwnedKind.COHORT,
                name="COALESCE(OLD.name, NEW.name)",
                unless="TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'updated_at', 'inactive_since']"
                " = to_jsonb(OLD) - ARRAY['version', 'updated_at', 'inactive_since']",
            ),
            NoTruncateTrigger("The table of cohorts"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def settings(self) -> CohortSettings:
        """The stored configuration."""
        parent = self.parent.name if self.parent else None
        return CohortSettings(parent, rows_from_stored(self.quotas), simplify(Fraction(self.weight)))
