"""Verification of the ledger: every counter and invariant is recomputed from scratch, in one snapshot.

Database constraints prevent most differences; verification does not rely on them. A check is one query that returns a
row for each difference, and a message that the row fills.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pools.database.statements import execute_sql
from pools.models.gpu_quota import RECOUNTS


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """`sql` finds the differences; its columns fill `message`, in order."""

    code: str
    sql: str
    message: str


@dataclass(frozen=True, slots=True)
class LedgerDifference:
    """One row or counter that breaks an invariant."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


_GPU_SUMS = [f"{recount} AS {column}" for column, recount in RECOUNTS.items()]
_GPU_LABELS = {
    "requests_tflops": "requests.tflops",
    "requests_vram": "requests.vram",
    "limits_tflops": "limits.tflops",
    "limits_vram": "limits.vram",
    "workers": "workers",
}
_GPU_COUNTERS = [
    f"('{prefix}{label}', usage.{state}{column}::numeric, recount.{state}{column}::numeric)"
    for state, prefix in (("", ""), ("assumed_", "reserved "))
    for column, label in _GPU_LABELS.items()
]

LEDGER_CHECKS = (
    LedgerCheck(
        "counter",
        """
        SELECT pool.name, counter.label, counter.stored, counter.counted
        FROM pools_pool pool
        LEFT JOIN pools_leafusage leaf ON leaf.pool_id = pool.id
        LEFT JOIN LATERAL (
            SELECT COALESCE(sum(held_gpus) FILTER (WHERE priority <> 'LOW'), 0) AS used,
                COALESCE(sum(held_gpus), 0) AS total_usage, count(*) AS live_workflows,
                COALESCE(sum(GREATEST(held_gpus, needed_gpus)) FILTER (WHERE priority <> 'LOW'), 0) AS committed
            FROM pools_reservation WHERE pool_id = pool.id
        ) recount ON TRUE
        CROSS JOIN LATERAL (VALUES
            ('used', leaf.used, recount.used), ('total_usage', leaf.total_usage, recount.total_usage),
            ('live_workflows', leaf.live_workflows, recount.live_workflows),
            ('committed', leaf.committed, recount.committed)
        ) AS counter (label, stored, counted)
        WHERE counter.stored IS DISTINCT FROM counter.counted ORDER BY pool.name, counter.label
        """,
        "{}: the counter {} says {}, its reservations add up to {}.",
    ),
    LedgerCheck(
        "flavor_counter",
        """
        SELECT pool.name, COALESCE(kept.flavor, recount.flavor), counter.label, counter.stored, counter.counted
        FROM pools_flavorusage kept
        FULL JOIN (
            SELECT pool_id, count.key AS flavor,
                COALESCE(sum((count.value->>0)::bigint) FILTER (WHERE priority <> 'LOW'), 0) AS used,
                sum((count.value->>0)::bigint) AS total_usage,
                COALESCE(sum(GREATEST((count.value->>0)::bigint, (count.value->>1)::bigint))
                    FILTER (WHERE priority <> 'LOW'), 0) AS committed
            FROM pools_reservation, jsonb_each(by_flavor) AS count GROUP BY pool_id, count.key
        ) recount ON recount.pool_id = kept.pool_id AND recount.flavor = kept.flavor
        JOIN pools_pool pool ON pool.id = COALESCE(kept.pool_id, recount.pool_id)
        CROSS JOIN LATERAL (VALUES
            ('used', kept.used, COALESCE(recount.used, 0)),
            ('total_usage', kept.total_usage, COALESCE(recount.total_usage, 0)),
            ('committed', kept.committed, COALESCE(recount.committed, 0))
        ) AS counter (label, stored, counted)
        WHERE counter.stored IS DISTINCT FROM counter.counted ORDER BY 1, 2, 3
        """,
        "{}: the counter of {} GPUs {} says {}, its reservations add up to {}.",
    ),
    LedgerCheck(
        "user_counter",
        """
        SELECT COALESCE(work.owner, held.owner), pool.name, COALESCE(work.workflows, 0), COALESCE(held.workflows, 0)
        FROM pools_livework work
        FULL JOIN (SELECT owner, pool_id, count(*) AS workflows FROM pools_reservation GROUP BY owner, pool_id) held
            ON held.owner = work.owner AND held.pool_id = work.pool_id
        JOIN pools_pool pool ON pool.id = COALESCE(work.pool_id, held.pool_id)
        WHERE COALESCE(work.workflows, 0) <> COALESCE(held.workflows, 0) ORDER BY 1, 2
        """,
        "The live workflows of {} on {} are counted as {}, and {} have reservations.",
    ),
    LedgerCheck(
        "promises",
        """
        SELECT root.name, sum(part.last_quota), root.guarantee
        FROM pools_pool part JOIN pools_pool root ON root.id = part.parent_id
        WHERE part.subpool_state = 'ACTIVE' GROUP BY root.id
        HAVING COALESCE(root.guarantee, -1) < sum(part.last_quota) ORDER BY root.name
        """,
        "{}: the quotas of its ACTIVE subpools add up to {} GPUs, the quota of the pool is {}.",
    ),
    LedgerCheck(
        "archived",
        """
        SELECT pool.name, count(*) FROM pools_pool pool JOIN pools_reservation held ON held.pool_id = pool.id
        WHERE pool.archived OR pool.subpool_state = 'ARCHIVED' GROUP BY pool.name ORDER BY pool.name
        """,
        "{} is archived and still has {} live workflows.",
    ),
    LedgerCheck(
        "drained",
        """
        SELECT pool.name FROM pools_pool pool JOIN pools_leafusage leaf ON leaf.pool_id = pool.id
        WHERE pool.subpool_state = 'DELETING' AND leaf.live_workflows = 0
            AND NOT EXISTS (SELECT FROM pools_reservation WHERE pool_id = pool.id)
            AND pool.updated_at < now() - interval '1 day' ORDER BY pool.name
        """,
        "{} has been drained for more than a day and is not archived: is the drain monitor running?",
    ),
    LedgerCheck(
        "name",
        """
        SELECT part.name, root.name FROM pools_pool part JOIN pools_pool root ON root.id = part.parent_id
        WHERE part.name <> root.name || '--' || part.subpool_name ORDER BY part.name
        """,
        "The name of subpool {} does not begin with the name of its parent {}.",
    ),
    LedgerCheck(
        "circle",
        """
        WITH RECURSIVE tree (id) AS (
            SELECT id FROM pools_cohort WHERE parent_id IS NULL
            UNION
            SELECT below.id FROM tree JOIN pools_cohort below ON below.parent_id = tree.id
        )
        SELECT name FROM pools_cohort WHERE id NOT IN (SELECT id FROM tree) ORDER BY name
        """,
        "The parents of cohort {} form a cycle: no work starts below it until one of them gets another parent.",
    ),
    LedgerCheck(
        "gpu_usage",
        f"""
        SELECT recount.namespace, counter.label, COALESCE(counter.stored::text, 'nothing'), counter.counted
        FROM (
            SELECT COALESCE(usage.namespace, worker.namespace) AS namespace, {", ".join(_GPU_SUMS)}
            FROM pools_gpuusage usage
            FULL JOIN (SELECT * FROM pools_gpuallocation WHERE state <> 'released') worker
                ON worker.namespace = usage.namespace
            GROUP BY 1
        ) recount
        LEFT JOIN pools_gpuusage usage ON usage.namespace = recount.namespace
        CROSS JOIN LATERAL (VALUES {", ".join(_GPU_COUNTERS)}) AS counter (label, stored, counted)
        WHERE counter.stored IS DISTINCT FROM counter.counted AND (usage.namespace IS NOT NULL OR counter.counted <> 0)
        ORDER BY recount.namespace, counter.label
        """,
        "Namespace {}: the counter {} says {}, its workers add up to {}; a rebuild repairs it.",
    ),
    LedgerCheck(
        "audit",
        """
        SELECT pool.name FROM pools_pool pool
        LEFT JOIN LATERAL (
            SELECT after FROM pools_auditentry
            WHERE pool_id = COALESCE(pool.parent_id, pool.id) AND object LIKE 'pool/%' AND after ->> 'id' =
            pool.id::text ORDER BY id DESC LIMIT 1
        ) entry ON TRUE
        -- an older image lacks later columns: they were null, or have their default; an image has the cohort's name
        WHERE jsonb_strip_nulls('{"flavors": [], "flavors_after": []}' || entry.after - 'cohort')
            IS DISTINCT FROM jsonb_strip_nulls(to_jsonb(pool) - ARRAY['version', 'updated_at'])
        ORDER BY pool.name
        """,
        "{} differs from its last audit entry: it was changed with the triggers off.",
    ),
)


def run_checks(checks: Sequence[LedgerCheck]) -> Iterator[LedgerDifference]:
    """The differences that these checks find."""
    for check in checks:
        for row in execute_sql(check.sql):
            yield LedgerDifference(check.code, check.message.format(*row))
