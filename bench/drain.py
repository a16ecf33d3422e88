"""One pass of the drain monitor over 10,000 subpools that wait to be archived."""

from __future__ import annotations

import time
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from bench import fill
from bench.installation import Installation

SUBPOOLS = 10_000


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Seconds of the pass and queries of each batch."""
    from pools.models import Pool
    from pools.services.configuration.subpools import DRAIN_BATCH, archive_drained

    fill.insert_draining_subpools(SUBPOOLS)
    with CaptureQueriesContext(connection) as captured:
        begin = time.perf_counter()
        caught = archive_drained()
        elapsed = time.perf_counter() - begin
    statements = [query for query in captured.captured_queries if query["sql"].lstrip()[:6] in {"SELECT", "UPDATE"}]
    batches = -(-SUBPOOLS // DRAIN_BATCH)
    return {
        "draining": SUBPOOLS,
        "archived": caught,
        "left": Pool.objects.filter(subpool_state="DELETING").count(),
        "seconds": round(elapsed, 2),
        "batches": batches,
        "queries_per_batch": round(len(statements) / (batches + 1), 2),
    }
