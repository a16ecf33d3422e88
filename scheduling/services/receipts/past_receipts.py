"""Receipts of attempts that ended before receipts were written, from the scheduling decisions and the ends. The
migration that made the tables runs this too, so it is not changed."""

from __future__ import annotations

from pools.database.statements import execute_sql

PAST_RECEIPTS = """
    WITH owed AS MATERIALIZED (
        SELECT attempt.uuid AS task_id, attempt.group_id, attempt.gpu_count AS gpus, attempt.start_time,
            attempt.end_time, part.workflow_id, work.pool_id, work.root_pool_id, root.backend_id,
            CASE
                WHEN made.action = 'move' THEN 'consolidation'
                WHEN made.action = 'reclaim' THEN 'reclaim'
                WHEN made.action = 'give_up' THEN 'below_minimum'
                WHEN made.action = 'preempt' AND made.for_workflow_id IS NOT NULL THEN 'priority'
                WHEN attempt.status = 'FAILED_CANCELED' THEN 'person'
                WHEN attempt.status IN ('FAILED_BACKEND_ERROR', 'FAILED_EVICTED') OR attempt.exit_code IN (3001, 3004)
                    THEN 'node'
                ELSE 'not_known'
            END AS cause,
            made.for_workflow_id,
            CASE WHEN attempt.status = 'FAILED_CANCELED' THEN work.cancelled_by ELSE '' END AS by_user,
            CASE WHEN made.action IS NULL THEN attempt.failure_message ELSE '' END AS note
        FROM scheduling_task attempt
        JOIN scheduling_group part ON part.uuid = attempt.group_id
        JOIN scheduling_workflow work ON work.uuid = part.workflow_id
        JOIN pools_pool root ON root.id = work.root_pool_id
        JOIN pools_user owner ON owner.id = work.submitted_by_id
        LEFT JOIN LATERAL (
            SELECT decision.action, decision.for_workflow_id FROM scheduling_decision decision
            WHERE decision.workflow_id = work.uuid AND decision.group_id = part.uuid
                AND decision.time = attempt.end_time AND decision.action <> 'start'
            ORDER BY decision.tasks ? attempt.name DESC, decision.id LIMIT 1
        ) made ON true
        WHERE attempt.start_time IS NOT NULL AND attempt.end_time IS NOT NULL AND (
            attempt.status IN ('FAILED_PREEMPTED', 'FAILED_BACKEND_ERROR', 'FAILED_EVICTED')
            OR attempt.exit_code IN (3001, 3004, 3006)
            OR attempt.status = 'FAILED_CANCELED' AND work.cancelled_by NOT IN ('', owner.username)
        ) AND NOT EXISTS (SELECT FROM scheduling_receipt receipt WHERE receipt.task_id = attempt.uuid)
    ), made AS (
        INSERT INTO scheduling_interruption (
            time, cause, backend_id, root_pool_id, pool_id, workflow_id, group_id, for_workflow_id, by_user, note,
            numbers, spared, has_more_spared
        )
        SELECT DISTINCT ON (end_time, group_id, cause, for_workflow_id) end_time, cause, backend_id, root_pool_id,
            pool_id, workflow_id, group_id, for_workflow_id, by_user, note, '{}'::jsonb, '[]'::jsonb, false
        FROM owed ORDER BY end_time, group_id, cause, for_workflow_id, note
        RETURNING *
    )
    INSERT INTO scheduling_receipt (task_id, interruption_id, gpus, lost_since, lost_gpu_ms)
        SELECT owed.task_id, made.id, owed.gpus, owed.start_time,
            owed.gpus * floor(GREATEST(0, extract(epoch FROM owed.end_time - owed.start_time) * 1000))
        FROM owed JOIN made ON made.group_id = owed.group_id AND made.time = owed.end_time
            AND made.cause = owed.cause AND made.for_workflow_id IS NOT DISTINCT FROM owed.for_workflow_id
"""


def write_past_receipts() -> None:
    """Write the receipts that are missing."""
    execute_sql(PAST_RECEIPTS)
