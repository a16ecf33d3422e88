"""Verification of the work: the checks of the ledger, that workflows, groups, tasks and reservations agree, and that
waiting work is neither stuck nor beyond the start that it was promised, and previews came true."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Exists, OuterRef

from pools.database.transactions import database_time, one_snapshot
from pools.domain.values.counting import counted
from pools.models import Backend
from pools.selectors.change_tokens import GENERATION_SQL
from pools.services.changes.verify import LEDGER_CHECKS, LedgerCheck, LedgerDifference, run_checks
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.reasons.liveness import find_stuck
from scheduling.domain.gang import tree_from_json
from scheduling.domain.promised_starts import GRACE
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.garbage_collector import garbage_collector
from scheduling.models import BackendSchedulingState, Group
from scheduling.models.receipt import OWES_RECEIPT
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.selectors.status.promised_starts import (
    overdue_message,
    overdue_promises,
    stuck_message,
    wrong_effect_message,
    wrong_effects,
)
from scheduling.services.usage_verification import find_usage_differences

_ACTIVE_STATUSES = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))
_OPEN_STATUSES = ", ".join(f"'{status}'" for status in sorted(UNFINISHED_TASK_STATUSES))
# In a cluster pods start and end one by one; there the cluster guarantees the gang, and the running pods count.
_IS_SIMULATED = """
    workflow.root_pool_id IN (
        SELECT pool.id FROM pools_pool pool JOIN pools_backend backend ON backend.id = pool.backend_id
        WHERE backend.kind = 'simulated'
    )"""

WORKFLOW_CHECKS = (
    LedgerCheck(
        "reservation",
        f"""
        SELECT COALESCE(workflow.name, reservation.workflow_name), COALESCE(reservation.held_gpus::text, 'nothing'),
            COALESCE(work.held::text, 'nothing'), COALESCE(reservation.needed_gpus::text, 'nothing'),
            COALESCE(work.needed::text, 'nothing')
        FROM (
            SELECT workflow.uuid, workflow.name, workflow.pool_id, workflow.priority,
                COALESCE(sum(
                    CASE WHEN part.gang IS NULL AND {_IS_SIMULATED} THEN part.gpus ELSE (
                        SELECT COALESCE(sum(task.gpu_count), 0) FROM scheduling_task task
                        WHERE task.group_id = part.uuid AND task.status = 'RUNNING'
                    ) END
                ) FILTER (WHERE part.status = 'RUNNING'), 0) AS held,
                COALESCE(max(part.gpus) FILTER (WHERE part.status IN ({_OPEN_STATUSES})), 0) AS needed
            FROM scheduling_workflow workflow JOIN scheduling_group part ON part.workflow_id = workflow.uuid
            WHERE workflow.status IN ({_ACTIVE_STATUSES}) GROUP BY workflow.uuid
        ) work
        FULL JOIN pools_reservation reservation ON reservation.workflow = work.uuid
        LEFT JOIN scheduling_workflow workflow ON workflow.uuid = COALESCE(work.uuid, reservation.workflow)
        WHERE (work.held, work.needed, work.pool_id, work.priority)
            IS DISTINCT FROM (reservation.held_gpus::bigint, reservation.needed_gpus, reservation.pool_id,
                reservation.priority)
        ORDER BY 1
        """,
        "{}: the reservation holds {} GPUs, its running gangs {}; it needs {}, its open gangs {}.",
    ),
    LedgerCheck(
        "status",
        f"""
        SELECT workflow.name, workflow.status, string_agg(part.status, ', ' ORDER BY part.position)
        FROM scheduling_workflow workflow JOIN scheduling_group part ON part.workflow_id = workflow.uuid
        GROUP BY workflow.uuid
        HAVING workflow.status <> CASE
                WHEN bool_or(part.status = 'RUNNING') THEN 'RUNNING' ELSE 'PENDING' END
            AND bool_or(part.status IN ({_OPEN_STATUSES}))
            OR workflow.status IN ({_ACTIVE_STATUSES}) AND NOT bool_or(part.status IN ({_OPEN_STATUSES}))
        ORDER BY workflow.name
        """,
        "{} is {}, its groups are {}.",
    ),
    LedgerCheck(
        "gang",
        f"""
        SELECT workflow.name, part.name, part.status, count(*) FILTER (WHERE task.status = 'RUNNING'), count(*)
        FROM scheduling_group part
        JOIN scheduling_workflow workflow ON workflow.uuid = part.workflow_id
        JOIN scheduling_task task ON task.group_id = part.uuid AND NOT EXISTS (
            SELECT FROM scheduling_task later
            WHERE later.group_id = task.group_id AND later.name = task.name AND later.retry_id > task.retry_id
        )
        WHERE part.gang IS NULL AND {_IS_SIMULATED}
        GROUP BY workflow.uuid, part.uuid
        HAVING count(*) FILTER (WHERE task.status = 'RUNNING')
            <> CASE part.status WHEN 'RUNNING' THEN count(*) ELSE 0 END
        ORDER BY 1, 2
        """,
        "{}, group {} is {} with {} of {} tasks running: a gang starts whole or not at all.",
    ),
    LedgerCheck(
        "observed",
        f"""
        SELECT workflow.name, part.name, part.status, count(*)
        FROM scheduling_group part
        JOIN scheduling_workflow workflow ON workflow.uuid = part.workflow_id
        JOIN scheduling_task task ON task.group_id = part.uuid
        WHERE NOT {_IS_SIMULATED} AND task.status = 'RUNNING' AND part.status <> 'RUNNING'
        GROUP BY workflow.uuid, part.uuid ORDER BY 1, 2
        """,
        "{}, group {} is {}, and {} of its tasks run.",
    ),
    LedgerCheck(
        "size",
        """
        SELECT workflow.name, part.name, part.gpus, sum(task.gpu_count)
        FROM scheduling_group part
        JOIN scheduling_workflow workflow ON workflow.uuid = part.workflow_id
        JOIN scheduling_task task ON task.group_id = part.uuid AND task.retry_id = 0
        WHERE part.gang IS NULL
            AND NOT EXISTS (SELECT FROM scheduling_observedwork mark WHERE mark.workflow_id = workflow.uuid)
        GROUP BY workflow.uuid, part.uuid HAVING sum(task.gpu_count) <> part.gpus ORDER BY 1, 2
        """,
        "{}, group {} counts {} GPUs, its tasks ask for {}.",
    ),
    LedgerCheck(
        "size",
        f"""
        SELECT workflow.name, part.name, part.gpus, sum(task.gpu_count)
        FROM scheduling_group part
        JOIN scheduling_workflow workflow ON workflow.uuid = part.workflow_id
        JOIN scheduling_observedwork mark ON mark.workflow_id = workflow.uuid
        JOIN scheduling_task task ON task.group_id = part.uuid AND task.status IN ({_OPEN_STATUSES})
        WHERE part.gang IS NULL AND part.status IN ({_OPEN_STATUSES})
        GROUP BY workflow.uuid, part.uuid HAVING sum(task.gpu_count) <> part.gpus ORDER BY 1, 2
        """,
        "{}, group {} counts {} GPUs, its open tasks {}: observed work has the size of its pods.",
    ),
    LedgerCheck(
        "gpu_worker",
        f"""
        SELECT worker.namespace, worker.workload
        FROM pools_gpuallocation worker
        WHERE worker.source = 'workflow' AND worker.state <> 'released' AND NOT EXISTS (
            SELECT FROM scheduling_task task WHERE task.group_id = worker.holder AND task.uuid::text = worker.name
                AND task.status IN ({_OPEN_STATUSES})
        )
        ORDER BY worker.namespace, worker.workload
        """,
        "Namespace {}: {} counts as a worker, and no open task of a workflow is that worker.",
    ),
    LedgerCheck(
        "generation",
        f"""
        SELECT backend.name, sync.applied_generation, COALESCE(NULLIF(generation.number, 0)::text, 'nothing')
        FROM scheduling_queuesync sync JOIN pools_backend backend ON backend.id = sync.backend_id
        CROSS JOIN LATERAL ({GENERATION_SQL} backend.id) generation (number)
        WHERE sync.applied_generation > generation.number ORDER BY backend.name
        """,
        "Backend {}: its cluster has generation {} of the quotas, the ledger {}: later changes would not be noticed.",
    ),
    LedgerCheck(
        "receipt",
        f"""
        SELECT work.name, attempt.name, attempt.retry_id
        FROM scheduling_task attempt
        JOIN scheduling_group part ON part.uuid = attempt.group_id
        JOIN scheduling_workflow work ON work.uuid = part.workflow_id
        WHERE {OWES_RECEIPT.format(attempt="attempt")}
            AND NOT EXISTS (SELECT FROM scheduling_receipt receipt WHERE receipt.task_id = attempt.uuid)
        ORDER BY 1, 2, 3
        """,
        "{}: something else ended attempt {} {}, which has no receipt.",
    ),
    LedgerCheck(
        "receipt",
        """
        SELECT work.name, attempt.name, attempt.retry_id, receipt.lost_gpu_ms
        FROM scheduling_receipt receipt
        JOIN scheduling_interruption why ON why.id = receipt.interruption_id
        JOIN scheduling_task attempt ON attempt.uuid = receipt.task_id
        JOIN scheduling_group part ON part.uuid = attempt.group_id
        JOIN scheduling_workflow work ON work.uuid = part.workflow_id
        WHERE (why.time, why.group_id, why.workflow_id, why.pool_id, receipt.gpus)
                IS DISTINCT FROM (attempt.end_time, attempt.group_id, work.uuid, work.pool_id, attempt.gpu_count)
            OR receipt.lost_since < COALESCE(attempt.start_time, attempt.end_time)
            OR receipt.lost_gpu_ms <> receipt.gpus
                * floor(GREATEST(0, extract(epoch FROM attempt.end_time - receipt.lost_since) * 1000))
        ORDER BY 1, 2, 3
        """,
        "{}: the receipt of attempt {} {} over {} GPU-milliseconds differs from the attempt.",
    ),
    LedgerCheck(
        "numbers",
        """
        SELECT COALESCE(known.name, submitted.spec_name), COALESCE(known.last_number, 0), COALESCE(submitted.number, 0)
        FROM scheduling_workflowname known
        FULL JOIN (SELECT spec_name, count(*) AS number FROM scheduling_workflow GROUP BY spec_name) submitted
            ON submitted.spec_name = known.name
        WHERE COALESCE(known.last_number, 0) <> COALESCE(submitted.number, 0) ORDER BY 1
        """,
        "Workflows named {} were numbered up to {}, {} are on record.",
    ),
)


def verify() -> list[LedgerDifference]:
    """All differences of the ledger and of the work on it; an empty list means that everything agrees."""
    with one_snapshot():
        checks = (*LEDGER_CHECKS, *WORKFLOW_CHECKS)
        now = database_time()
        found = [
            *run_checks(checks),
            *_check_elastic_gangs(),
            *_check_promised_starts(now),
            *_check_shown_effects(now),
            *find_usage_differences(now),
        ]
        # The engine reads counters, and what it says of wrong ones means nothing.
        return found or list(_check_stuck_gangs())


def _check_elastic_gangs() -> Iterator[LedgerDifference]:
    """An elastic gang holds its minimum or nothing, and its GPUs are those of the cheapest minimum."""
    # The pods of observed work may differ in size, and come and go.
    gangs = (
        Group.objects.exclude(gang=None).filter(workflow__observed=None).select_related("workflow__root_pool__backend")
    )
    gangs = gangs.order_by("workflow__name", "position")
    for gang in gangs.prefetch_related("tasks"):
        label, tasks = f"{gang.workflow.name}, group {gang.name}", list(gang.tasks.all())
        tree = tree_from_json(gang.gang, 0)
        running, requested = [0] * len(tree.names), {}
        for task in tasks:
            leaf = tree.leaf_of(task.sub_group)
            running[leaf] += task.status == TaskStatus.RUNNING
            requested[leaf] = task.gpu_count
        backend = gang.workflow.root_pool.backend
        is_simulated = backend is None or backend.kind == Backend.Kind.SIMULATED
        is_right = tree.is_satisfied(running) if gang.status == TaskStatus.RUNNING else not any(running)
        if is_simulated and not is_right:
            message = f"{label} is {gang.status} with {sum(running)} running tasks: it holds its minimum or nothing."
            yield LedgerDifference("gang", message)
        if tree.min_amount(requested) != gang.gpus:
            message = f"{label} counts {counted(gang.gpus, 'GPU')}, its minimum asks for {tree.min_amount(requested)}."
            yield LedgerDifference("size", message)


def _check_stuck_gangs() -> Iterator[LedgerDifference]:
    """After one more scheduling cycle no gang waits although nothing may stop it."""
    for backend in Backend.objects.filter(kind=Backend.Kind.SIMULATED, offline=False).order_by("name"):
        facts = read_live_facts(backend).facts
        with garbage_collector.paused():
            result = run_cycle(facts)
            stuck = find_stuck(result.world) if result.has_converged else ()
        for each in stuck:
            yield LedgerDifference("stuck", stuck_message(each.gang, backend.name, each.kind))


def _check_promised_starts(now: datetime) -> Iterator[LedgerDifference]:
    """No gang waits beyond a promised start after a full cycle that knew the time to be over. Before that cycle, as in
    a restored backup, nothing is wrong with the ledger."""
    cycles = BackendSchedulingState.objects.filter(
        backend_id=OuterRef("backend_id"), full_cycle_at__gt=OuterRef("latest_start") + GRACE
    )
    for promise in overdue_promises(now).filter(Exists(cycles)).order_by("latest_start", "gang"):
        yield LedgerDifference("promise", overdue_message(promise))


def _check_shown_effects(now: datetime) -> Iterator[LedgerDifference]:
    """What previews of the last day showed has happened."""
    for effect in wrong_effects(now).order_by("ended_at", "pk"):
        yield LedgerDifference("preview", wrong_effect_message(effect, effect.backend_name))
