"""Triggers that note every change on which scheduling depends, by any writer, raw SQL included.

A change of promises, nodes, cohorts, backends, GPU quotas or the status of gangs does two things in its transaction:

* it leaves a dirty mark for each affected simulated backend, so the next reconciliation plans everything;
* it adds the backend to the transaction's setting `osmo.changes`, so :func:`pools.database.transactions.change` wakes
  up the backend's scheduler or agent after the commit.

New submissions are noted without a dirty mark: a reconciliation finds them by their transactions
(:mod:`scheduling.services.simulated.dirty`). Changes of work by a backend's own controller are not noted for this
backend (`osmo.controller`). When workers of a GPU namespace release capacity, only the namespace is noted.
"""

from __future__ import annotations

import pgtrigger

from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.models import Backend, Cohort, GpuQuota, GpuUsage, KubernetesSettings, Node, Pool
from pools.models.gpu_quota import COUNTERS

DECLARED = [("concerned", "record"), ("noted", "text")]


def note_changed(backend_ids: str) -> str:
    """PL/pgSQL that notes a change on the backends that an SQL query finds, and leaves their dirty marks."""
    return _note(
        "changed",
        backend_ids,
        f"""
                IF concerned.kind = '{Backend.Kind.SIMULATED}' THEN
                    INSERT INTO scheduling_backenddirtymark (backend_id) VALUES (concerned.id);
                END IF;""",
    )


def note_submitted(backend_ids: str) -> str:
    """PL/pgSQL that notes new work on the backends that an SQL query finds."""
    return _note("submitted", backend_ids, "")


def _note(kind: str, backend_ids: str, also: str) -> str:
    return f"""
        FOR concerned IN SELECT id, kind FROM pools_backend WHERE id IN ({backend_ids}) ORDER BY id LOOP
            noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');
            IF position(',{kind}:' || concerned.id || ',' IN noted) = 0 THEN
                PERFORM set_config('osmo.changes', noted || '{kind}:' || concerned.id || ',', true);{also}
            END IF;
        END LOOP;
        RETURN NULL;
    """


def _in_cohort_trees(*cohort_ids: str) -> str:
    """SQL: the backends of all pools in the trees of these cohorts, because what one pool of a tree may borrow depends
    on all others. UNION ends the recursion even if parents form a cycle."""
    return f"""
        WITH RECURSIVE above (id, parent_id) AS (
            SELECT id, parent_id FROM pools_cohort WHERE id IN ({", ".join(cohort_ids)})
            UNION SELECT parent.id, parent.parent_id FROM above JOIN pools_cohort parent ON parent.id = above.parent_id
        ), tree (id) AS (
            SELECT id FROM above
            UNION SELECT child.id FROM tree JOIN pools_cohort child ON child.parent_id = tree.id
        )
        SELECT backend_id FROM pools_pool WHERE cohort_id IN (SELECT id FROM tree)
    """


def _note_row_change(backend_ids: str) -> str:
    return f"IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;{note_changed(backend_ids)}"


_ANY_CHANGE = pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete


class ObservedPool(Pool):
    """Pools, as scheduling observes them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_change",
                operation=_ANY_CHANGE,
                when=pgtrigger.After,
                declare=DECLARED,
                func=_note_row_change(
                    f"""
                    SELECT NEW.backend_id UNION SELECT OLD.backend_id
                    UNION SELECT backend_id FROM pools_pool WHERE id IN (NEW.parent_id, OLD.parent_id)
                    UNION ({_in_cohort_trees("NEW.cohort_id", "OLD.cohort_id")})
                    """
                ),
            )
        ]


class ObservedCohort(Cohort):
    """Cohorts, as scheduling observes them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_change",
                operation=_ANY_CHANGE,
                when=pgtrigger.After,
                declare=DECLARED,
                func=_note_row_change(_in_cohort_trees("NEW.id", "OLD.id", "NEW.parent_id", "OLD.parent_id")),
            )
        ]


class ObservedBackend(Backend):
    """Backends, as scheduling observes them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_change",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.After,
                declare=DECLARED,
                func=_note_row_change("NEW.id"),
            ),
            # Deleting a backend deletes its nodes, which marks it dirty.
            pgtrigger.Trigger(
                name="delete_dirty_marks",
                operation=pgtrigger.Delete,
                when=pgtrigger.After,
                func="DELETE FROM scheduling_backenddirtymark WHERE backend_id = OLD.id; RETURN NULL;",
            ),
        ]


class ObservedKubernetesSettings(KubernetesSettings):
    """Settings of clusters, as scheduling observes them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_change",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.After,
                declare=DECLARED,
                func=_note_row_change("NEW.backend_id"),
            )
        ]


class ObservedNode(Node):
    """Nodes, as scheduling observes them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_change",
                operation=_ANY_CHANGE,
                when=pgtrigger.After,
                declare=DECLARED,
                func=_note_row_change("NEW.backend_id, OLD.backend_id"),
            )
        ]


class ObservedGpuQuota(GpuQuota):
    """GPU quotas of namespaces, as scheduling observes them: their caps alone, not their conditions and alerts."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_change",
                operation=_ANY_CHANGE,
                when=pgtrigger.After,
                declare=DECLARED,
                func=f"""
                    IF TG_OP = 'UPDATE' AND NEW.spec = OLD.spec THEN RETURN NULL; END IF;
                    {
                    note_changed(
                        "SELECT backend_id FROM pools_pool WHERE parent_id IS NULL AND NOT archived"
                        f" AND config ->> '{GPU_NAMESPACE}' IN (NEW.namespace, OLD.namespace)"
                    )
                }
                """,
            )
        ]


class ObservedGpuUsage(GpuUsage):
    """The usage of workers of a namespace, as scheduling observes it: noted when it decreases."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="note_release",
                operation=pgtrigger.Update,
                when=pgtrigger.After,
                condition=pgtrigger.Condition(
                    " OR ".join(
                        f"NEW.{prefix}{name} < OLD.{prefix}{name}" for prefix in ("", "assumed_") for name in COUNTERS
                    )
                ),
                declare=[("noted", "text")],
                func="""
                    noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');
                    IF position(',namespace:' || NEW.namespace || ',' IN noted) = 0 THEN
                        PERFORM set_config('osmo.changes', noted || 'namespace:' || NEW.namespace || ',', true);
                    END IF;
                    RETURN NULL;
                """,
            )
        ]


SUBMITTED_WORK = pgtrigger.Trigger(
    name="note_submitted",
    operation=pgtrigger.Insert,
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    referencing=pgtrigger.Referencing(new="new_rows"),
    declare=DECLARED,
    func=note_submitted(
        """
        SELECT backend.id FROM new_rows
        JOIN pools_pool root ON root.id = new_rows.root_pool_id
        JOIN pools_backend backend ON backend.id = root.backend_id
        WHERE NOT backend.offline
        """
    ),
)

MOVED_WORK = pgtrigger.Trigger(
    name="note_moved",
    operation=pgtrigger.Update,
    level=pgtrigger.Statement,
    when=pgtrigger.After,
    referencing=pgtrigger.Referencing(old="old_rows", new="new_rows"),
    declare=DECLARED,
    func=note_changed(
        """
        SELECT root.backend_id FROM new_rows JOIN old_rows USING (uuid)
        JOIN scheduling_workflow work ON work.uuid = new_rows.workflow_id
        JOIN pools_pool root ON root.id = work.root_pool_id
        WHERE new_rows.status <> old_rows.status
            AND root.backend_id::text IS DISTINCT FROM current_setting('osmo.controller', true)
        """
    ),
)
