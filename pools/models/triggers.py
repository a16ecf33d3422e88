"""Database triggers of the ledger. They apply to every writer, raw SQL included.

Each refusal has a constraint name and a message, like the violation of a check constraint, so that every entry point
can show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pgtrigger

CONFIGURATION_LOCK = 0x05A0
"""The advisory lock of configuration writes. Services take it by :func:`pools.locking.lock_configuration`; a trigger
takes it where two writes, each valid on its own, could be invalid together."""


def raise_message(constraint: str, message: str, *values: str) -> str:
    """PL/pgSQL that refuses with a message (`%` placeholders filled from SQL expressions)."""
    arguments = "".join(f", {value}" for value in values)
    quoted = message.replace("'", "''")
    return (
        f"RAISE EXCEPTION '{quoted}'{arguments} USING ERRCODE = 'check_violation', "
        f"CONSTRAINT = '{constraint}', TABLE = TG_TABLE_NAME;"
    )


class NoTruncateTrigger(pgtrigger.Trigger):
    """Refuse TRUNCATE on tables that keep history and quotas."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            name="no_truncate",
            operation=pgtrigger.Truncate,
            level=pgtrigger.Statement,
            when=pgtrigger.Before,
            func=raise_message("no_truncate", f"{subject} cannot be truncated: the ledger keeps its history."),
        )


class AppendOnlyTrigger(pgtrigger.Trigger):
    """Refuse UPDATE and DELETE: written rows stay."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            name="append_only",
            operation=pgtrigger.Update | pgtrigger.Delete,
            when=pgtrigger.Before,
            func=raise_message("append_only", f"{subject} is append-only: entries cannot be changed or deleted."),
        )


class NeverDeletedTrigger(pgtrigger.Trigger):
    """Refuse DELETE: rows end, and stay as history."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            name="never_deleted",
            operation=pgtrigger.Delete,
            level=pgtrigger.Statement,
            when=pgtrigger.Before,
            func=raise_message("never_deleted", f"{subject} cannot be deleted: the ledger keeps its history."),
        )


class DerivedTrigger(pgtrigger.Trigger):
    """Refuse every write that no trigger makes: these rows follow from others."""

    def __init__(self, constraint: str, message: str, *, operation: pgtrigger.Operation | None = None) -> None:
        super().__init__(
            name="protect_derived",
            operation=operation or pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
            level=pgtrigger.Statement,
            when=pgtrigger.Before,
            func=f"IF pg_trigger_depth() < 2 THEN {raise_message(constraint, message)} END IF; RETURN NULL;",
        )


class AuditTrigger(pgtrigger.Trigger):
    """Write one audit entry for each changed row, in the same transaction, from the row images themselves.

    `subject`, `action`, `pool_id` and `owner` are SQL expressions over `OLD` and `NEW` (null where there is none) and
    `TG_OP`. Actor, description and request id come from the transaction's settings
    (:mod:`pools.database.transactions`); a change made around the services has the actor `database:{role}`. `ignore`
    names columns whose change writes no entry, `hide` those whose change is recorded without their content, `operation`
    and `condition` the changes that write one if not all do. `also` adds names of referenced rows to both images (key →
    SQL expression); `named` does so where the reference itself may change (key → SQL expression in which `ROW` is the
    image's own row).
    """

    def __init__(
        self,
        *,
        subject: str,
        action: str,
        pool_id: str = "NULL::bigint",
        owner: str = "NULL::text",
        ignore: Sequence[str] = (),
        hide: Sequence[str] = (),
        also: Mapping[str, str] | None = None,
        named: Mapping[str, str] | None = None,
        operation: pgtrigger.Operation | None = None,
        condition: pgtrigger.Condition | None = None,
    ) -> None:
        ignored, hidden = _remove_columns_sql(ignore), _remove_columns_sql(hide)
        added = _add_keys_sql(also or {})
        old, new = (
            _add_keys_sql({key: sql.replace("ROW.", f"{row}.") for key, sql in (named or {}).items()})
            for row in ("OLD", "NEW")
        )
        super().__init__(
            name="audit",
            operation=operation or pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
            condition=condition,
            when=pgtrigger.After,
            declare=[("before_row", "jsonb"), ("after_row", "jsonb"), ("audit_action", "text")],
            func=f"""
                IF TG_OP <> 'INSERT' THEN before_row := to_jsonb(OLD){ignored}; END IF;
                IF TG_OP <> 'DELETE' THEN after_row := to_jsonb(NEW){ignored}; END IF;
                IF before_row IS NOT DISTINCT FROM after_row THEN RETURN NULL; END IF;
                audit_action := {action};
                INSERT INTO pools_auditentry
                    (time, actor, action, object, before, after, description, request_id, pool_id, owner, transaction)
                VALUES (
                    clock_timestamp(),
                    COALESCE(NULLIF(current_setting('osmo.actor', true), ''), 'database:' || session_user),
                    audit_action, {subject}, before_row{hidden}{added}{old}, after_row{hidden}{added}{new},
                    COALESCE(current_setting('osmo.description', true), ''),
                    COALESCE(current_setting('osmo.request_id', true), ''),
                    {pool_id}, {owner}, pg_current_xact_id()
                );
                RETURN NULL;
            """,
        )


def _remove_columns_sql(columns: Sequence[str]) -> str:
    """SQL that takes columns out of a row image."""
    names = ", ".join(f"'{column}'" for column in columns)
    return f" - ARRAY[{names}]::text[]" if names else ""


def _add_keys_sql(columns: Mapping[str, str]) -> str:
    """SQL that adds keys to a row image; a missing image stays null."""
    pairs = ", ".join(f"'{key}', {expression}" for key, expression in columns.items())
    return f" || jsonb_build_object({pairs})" if pairs else ""


def plain_actions_sql(noun: str) -> str:
    """The plain action names of a table without a state machine."""
    return (
        f"CASE TG_OP WHEN 'INSERT' THEN '{noun}.created' WHEN 'UPDATE' THEN '{noun}.updated' ELSE '{noun}.deleted' END"
    )
