"""The guard of triggers: only the owner of the tables may skip one.

pgtrigger's functions skip each trigger that the setting `pgtrigger.ignore` names, and every role may change that
setting of its own session. So after each migration the function that reads it is replaced by one that asks for the role
first. It also costs less: pgtrigger's own opens a subtransaction whenever a trigger fires.

The one deletion that the role at run time needs, of old audit entries, is a function of the owner.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

MIN_AUDIT_DAYS = 30
"""The age in days below which no audit entry is deleted, whatever the settings are."""

_SHOULD_IGNORE = """
    CREATE OR REPLACE FUNCTION public._pgtrigger_should_ignore(trigger_name NAME) RETURNS BOOLEAN AS $$
        DECLARE
            ignored TEXT := current_setting('pgtrigger.ignore', true);
        BEGIN
            IF ignored IS NULL OR ignored = '' THEN
                RETURN FALSE;
            END IF;
            IF NOT pg_has_role(
                current_user, (SELECT relowner FROM pg_class WHERE oid = 'public.pools_auditentry'::regclass), 'MEMBER'
            ) THEN
                RETURN FALSE;
            END IF;
            RETURN trigger_name = ANY (ignored::TEXT[]);
        END;
    $$ LANGUAGE plpgsql
"""

# The newest old entry of each object stays: with it the state of that object is known at each moment of the retention,
# so `verify`, the record of use and its rebuild find what they need. Work has ended long before, or has newer entries.
_FORGET_AUDIT = f"""
    CREATE OR REPLACE FUNCTION public.osmo_forget_audit(days INTEGER, batch INTEGER) RETURNS INTEGER AS $$
        DECLARE
            deleted INTEGER;
        BEGIN
            IF days IS NULL OR days < {MIN_AUDIT_DAYS} THEN
                RAISE EXCEPTION 'Audit entries are kept for at least {MIN_AUDIT_DAYS} days (% asked).', days
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_kept', TABLE = 'pools_auditentry';
            END IF;
            PERFORM set_config('pgtrigger.ignore', array_agg(tgname)::TEXT, true) FROM pg_trigger
                WHERE tgrelid = 'public.pools_auditentry'::regclass AND tgname LIKE 'pgtrigger\\_append\\_only\\_%';
            DELETE FROM public.pools_auditentry WHERE id IN (
                SELECT entry.id FROM public.pools_auditentry entry
                WHERE entry.time < now() - make_interval(days => days) AND (
                    split_part(entry.object, '/', 1)
                        IN ('workflow', 'gpu_allocation', 'preemption', 'condition', 'notice')
                    OR EXISTS (
                        SELECT FROM public.pools_auditentry later
                        WHERE later.object = entry.object AND later.id > entry.id
                            AND later.time < now() - make_interval(days => days)
                            AND COALESCE(later.after, later.before) ->> 'id'
                                IS NOT DISTINCT FROM COALESCE(entry.after, entry.before) ->> 'id'
                    )
                )
                ORDER BY entry.id LIMIT batch
            );
            GET DIAGNOSTICS deleted = ROW_COUNT;
            PERFORM set_config('pgtrigger.ignore', '', true);
            RETURN deleted;
        END;
    $$ LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
"""


def install_trigger_guard(*, using: str, **_: Any) -> None:
    """After the migrations, which write pgtrigger's own function each time: replace it, and make ours."""
    with connections[using].cursor() as cursor:
        cursor.execute(_SHOULD_IGNORE)
        cursor.execute(_FORGET_AUDIT)
