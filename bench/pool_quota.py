"""`/api/pool_quota` at 1,000 pools of 20 subpools, compared with the bare SQL of the same rows."""

from __future__ import annotations

import time
from typing import Any

from django.db import connection

from bench import fill, load
from bench.installation import Installation

POOLS, SUBPOOLS = 1000, 20
BARE_SQL = """
    SELECT pool.name, pool.description, pool.subpool_name, pool.subpool_state, pool.last_quota, pool.guarantee,
        pool.maximum, pool.weight, pool.config, pool.enable_maintenance, parent.name, backend.name, leaf.used,
        leaf.total_usage, leaf.live_workflows, leaf.committed
    FROM pools_pool pool
    LEFT JOIN pools_pool parent ON parent.id = pool.parent_id
    LEFT JOIN pools_backend backend ON backend.id = COALESCE(pool.backend_id, parent.backend_id)
    JOIN pools_leafusage leaf ON leaf.pool_id = pool.id
    ORDER BY COALESCE(parent.name, pool.name), pool.parent_id NULLS FIRST, pool.subpool_name
"""


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """One client that reads all pools, and the bare statement."""
    fill.insert_pools(POOLS, prefix="q", subpools=SUBPOOLS)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        bare = []
        for _ in range(20):
            begin = time.perf_counter()
            cursor.execute(BARE_SQL)
            rows = len(cursor.fetchall())
            bare.append((time.perf_counter() - begin) * 1000)
    answer = load.run_load(
        installation.base_url,
        installation.login(),
        clients=1,
        seconds=max(seconds, 5),
        next_request=lambda _client, _number: load.LoadRequest("GET", "/api/pool_quota?all_pools=True"),
    ).summary()
    middle = sorted(bare)[len(bare) // 2]
    return {
        "rows": rows,
        "bare_sql_ms": round(middle, 2),
        "answer": answer,
        "over_bare_sql": round(answer["p50_ms"] / middle, 2),
    }
