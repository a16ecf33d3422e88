"""Admission over HTTP, single and in bulk, compared with pgbench running the same transaction (docs/performance.md)."""

from __future__ import annotations

import json
from typing import Any

from bench import fill, load, pgbench
from bench.installation import Installation

CLIENTS = (1, 8, 16)
POOLS = 1000
BULK = 50
LIVE = (0, 100_000)


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Every combination of clients, pools and active workflows."""
    from pools.models import Pool

    fill.offset_pool_ids()
    names = fill.insert_pools(POOLS, prefix="p")
    first, last = (Pool.objects.get(name=name).pk for name in (names[0], names[-1]))
    statements = pgbench.capture_submission(names[0])
    report: dict[str, Any] = {"statements_per_admission": len(statements)}
    for live in LIVE:
        if live:
            fill.insert_live_workflows(names[0], live)
        for label, count in (("one_hot_pool", 1), (f"{POOLS}_pools", POOLS)):
            chosen = names[:count]
            text = pgbench.pgbench_script(statements, pool_id=first, last_pool_id=first if count == 1 else last)
            rows = {}
            for clients in CLIENTS:
                limit = pgbench.run_pgbench(text, clients=clients, seconds=seconds)
                single = _measure_single(installation, chosen, clients, seconds)
                rows[str(clients)] = {
                    "pgbench": limit,
                    "single": single,
                    "ratio_to_pgbench": round(single["per_second"] / limit["per_second"], 3),
                    "p99_over_p50": round(single["p99_ms"] / single["p50_ms"], 2),
                }
            bulk = _measure_bulk(installation, chosen, 8, seconds)
            rows["8"]["bulk"] = bulk
            rows["8"]["bulk_over_single"] = round(bulk["workflows_per_second"] / rows["8"]["single"]["per_second"], 2)
            report[f"{label}_{live}_live"] = rows
    return report


def _workflow_name(client: int, pool: int, names: list[str]) -> str:
    """The name of a workflow: one for each client on a single pool, one for each pool on many pools."""
    return f"load{client if len(names) == 1 else pool}"


def _measure_single(installation: Installation, names: list[str], clients: int, seconds: int) -> dict[str, Any]:
    def request(client: int, number: int) -> load.LoadRequest:
        pool = (client * 7919 + number) % len(names)
        body = json.dumps({"file": pgbench.workflow_file(_workflow_name(client, pool, names))}).encode()
        return load.LoadRequest("POST", f"/api/pool/{names[pool]}/workflow", body)

    return load.run_load(
        installation.base_url, installation.login(), clients=clients, seconds=seconds, next_request=request
    ).summary()


def _measure_bulk(installation: Installation, names: list[str], clients: int, seconds: int) -> dict[str, Any]:
    def request(client: int, number: int) -> load.LoadRequest:
        pool = (client * 7919 + number) % len(names)
        file = pgbench.workflow_file(_workflow_name(client, pool, names))
        body = json.dumps({"workflows": [{"file": file}] * BULK}).encode()
        return load.LoadRequest("POST", f"/api/pool/{names[pool]}/workflows", body)

    summary = load.run_load(
        installation.base_url, installation.login(), clients=clients, seconds=seconds, next_request=request
    ).summary()
    return {**summary, "workflows_per_request": BULK, "workflows_per_second": round(summary["per_second"] * BULK, 1)}
