"""Triggers that write the record of use. They follow the audit trail, the state of nodes and the rows of work, so no
entry point can forget them, and raw SQL is recorded too.

Cost: a row of the audit trail that is about work is only compared; a start writes one row (:class:`WaitSpan`); a
submission writes nothing.
"""

from __future__ import annotations

import pgtrigger

from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import AuditEntry
from scheduling.models.leases.cluster import NodeState

OPEN_QUOTA = f"""
    SELECT (image ->> 'id')::bigint AS pool_id, (image ->> 'parent_id')::bigint AS parent_id,
        (image ->> 'backend_id')::bigint AS backend_id, part.flavor,
        CASE
            WHEN (image ->> 'archived')::boolean THEN 0
            WHEN image ->> 'parent_id' IS NULL OR image ->> 'subpool_state' = 'ACTIVE' THEN GREATEST(part.quota, 0)
            ELSE 0
        END AS quota,
        image ->> 'parent_id' IS NULL AND NOT (image ->> 'archived')::boolean
            AND COALESCE((image ->> 'guarantee')::bigint, -1) = -1 AS is_unlimited,
        COALESCE(image ->> 'subpool_state' = 'DELETING', false) AS is_draining
    FROM (
        SELECT flavor, quota FROM jsonb_to_recordset(image -> 'flavors') AS each (flavor text, quota bigint)
        UNION ALL
        SELECT '{DEFAULT_FLAVOR}', COALESCE(
            CASE WHEN image ->> 'parent_id' IS NULL THEN image ->> 'guarantee' ELSE image ->> 'last_quota' END, '0'
        )::bigint
        WHERE COALESCE(image -> 'flavors', '[]') = '[]'
    ) part
"""
"""SQL: the quota of each GPU flavor in a row image of a pool, named `image`. Those of former builds name none."""


class RecordedChange(AuditEntry):
    """Entries of the audit trail, as the record of use follows them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="record_capacity",
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                condition=pgtrigger.Condition("split_part(NEW.object, '/', 1) IN ('pool', 'node', 'backend')"),
                declare=[("subject", "bigint"), ("kind", "text")],
                func=f"""
                    kind := split_part(NEW.object, '/', 1);
                    subject := (COALESCE(NEW.after, NEW.before) ->> 'id')::bigint;
                    IF kind = 'pool' THEN
                        UPDATE scheduling_quotaspan SET until = NEW.time WHERE pool_id = subject AND until IS NULL;
                        INSERT INTO scheduling_quotaspan
                            (pool_id, parent_id, backend_id, flavor, quota, is_unlimited, is_draining, since)
                            SELECT quota.*, NEW.time FROM (SELECT NEW.after AS image) entry
                            CROSS JOIN LATERAL ({OPEN_QUOTA}) quota WHERE image IS NOT NULL;
                    ELSIF kind = 'node' THEN
                        UPDATE scheduling_nodespan SET until = NEW.time WHERE node_id = subject AND until IS NULL;
                        INSERT INTO scheduling_nodespan (node_id, backend_id, flavor, gpus, since)
                            SELECT subject, (NEW.after ->> 'backend_id')::bigint,
                                COALESCE(NEW.after ->> 'flavor', '{DEFAULT_FLAVOR}'), (NEW.after ->> 'gpus')::bigint,
                                NEW.time WHERE NEW.after IS NOT NULL;
                    ELSE
                        UPDATE scheduling_offlinespan SET until = NEW.time
                            WHERE backend_id = subject AND node_id IS NULL AND until IS NULL;
                        INSERT INTO scheduling_offlinespan (backend_id, since)
                            SELECT subject, NEW.time WHERE (NEW.after ->> 'offline')::boolean;
                    END IF;
                    RETURN NULL;
                """,
            )
        ]


class RecordedNodeState(NodeState):
    """The state of nodes, as the record of use follows it."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="record_offline",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("ready") | pgtrigger.Delete,
                when=pgtrigger.After,
                func="""
                    IF TG_OP = 'UPDATE' AND NEW.ready = OLD.ready THEN RETURN NULL; END IF;
                    UPDATE scheduling_offlinespan SET until = clock_timestamp()
                        WHERE node_id = COALESCE(NEW.node_id, OLD.node_id) AND until IS NULL;
                    INSERT INTO scheduling_offlinespan (backend_id, node_id, since)
                        SELECT backend_id, id, clock_timestamp() FROM pools_node
                        WHERE id = NEW.node_id AND NOT NEW.ready;
                    RETURN NULL;
                """,
            )
        ]


_WAIT_ENDS = """
    OLD.ready_at IS NOT NULL AND OLD.start_time IS NULL AND OLD.end_time IS NULL
    AND (NEW.start_time IS NOT NULL OR NEW.end_time IS NOT NULL OR NEW.ready_at IS DISTINCT FROM OLD.ready_at)
"""

RECORD_WAIT = pgtrigger.Trigger(
    name="record_wait",
    operation=pgtrigger.Update,
    when=pgtrigger.After,
    condition=pgtrigger.Condition(_WAIT_ENDS),
    declare=[("ended", "timestamptz")],
    func="""
        ended := GREATEST(OLD.ready_at, COALESCE(NEW.start_time, NEW.end_time, NEW.ready_at, clock_timestamp()));
        INSERT INTO scheduling_waitspan (group_id, workflow_id, gpus, started, since, until)
            VALUES (OLD.uuid, OLD.workflow_id, OLD.gpus, NEW.start_time IS NOT NULL, OLD.ready_at, ended);
        IF ended < date_trunc('hour', clock_timestamp(), 'UTC') THEN
            INSERT INTO scheduling_lateusage (since) VALUES (ended);
        END IF;
        RETURN NULL;
    """,
)

_LATE = " OR ".join(
    f"NEW.{column} < date_trunc('hour', clock_timestamp(), 'UTC') AND NEW.{column} IS DISTINCT FROM OLD.{column}"
    for column in ("start_time", "end_time")
)

RECORD_LATE = pgtrigger.Trigger(
    name="record_late",
    operation=pgtrigger.Update,
    when=pgtrigger.After,
    condition=pgtrigger.Condition(_LATE),
    func="""
        INSERT INTO scheduling_lateusage (since)
            VALUES (LEAST(NEW.start_time, OLD.start_time, NEW.end_time, OLD.end_time));
        RETURN NULL;
    """,
)
