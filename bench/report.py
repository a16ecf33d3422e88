"""`python -m bench.report docs/performance.json > docs/performance.md`: what was measured, as a page, beside its
targets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RATIO, TAIL, BULK, OVER_SQL, QUERIES = 0.35, 5, 3, 8, 5

HEAD = """# Performance

Written by `python -m bench.report` from `docs/performance.json`, which `make bench` measured on {at} ({cores} cores,
Python {python}, {system}; house, PostgreSQL and load on the same machine). Each number stands beside its limit from
the same run, so ratios can be compared between machines and absolute numbers cannot. The targets are the design's,
section 7.

## Admission over HTTP

`pgbench` runs the SQL that the service itself sends for one submission, captured, with fresh ids. `single` is one
workflow a request, `bulk` fifty. Clients keep their connections and send the next request when the last is answered.

| pools | live workflows | clients | pgbench /s | single /s | ratio | p50 ms | p99 ms | p99 / p50 | bulk / single |
|---|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Read the JSON, print the page."""
    report = json.loads(Path(sys.argv[1]).read_text())
    admission = {name: rows for name, rows in report["admission"].items() if isinstance(rows, dict)}
    print(HEAD.format(at=report["at"][:10], **report["machine"]), end="")
    for name, rows in admission.items():
        pools, live = name.removesuffix("_live").rsplit("_", 1)
        for clients, row in rows.items():
            print(_line(pools.replace("_", " "), f"{int(live):,}", clients, row))
    at_eight = {name: rows["8"] for name, rows in admission.items()}
    _verdict(f"ratio at 8 clients ≥ {RATIO}", {name: row["ratio_to_pgbench"] for name, row in at_eight.items()}, RATIO)
    _verdict(f"bulk ≥ {BULK} × single", {name: row["bulk_over_single"] for name, row in at_eight.items()}, BULK)
    worst = {f"{name}, {n} clients": row["p99_over_p50"] for name, rows in admission.items() for n, row in rows.items()}
    _verdict(f"p99 ≤ {TAIL} × p50", worst, TAIL, most=True)
    quota, drain = report["pool_quota"], report["drain"]
    print("\n## `/api/pool_quota` with 1,000 pools of 20 slices\n")
    print(f"{quota['rows']:,} rows: {quota['answer']['p50_ms']} ms (p50), the bare SQL {quota['bare_sql_ms']} ms.")
    _verdict(f"≤ {OVER_SQL} × the bare SQL", {"ratio": quota["over_bare_sql"]}, OVER_SQL, most=True)
    print("\n## Drain monitor\n")
    print(
        f"One pass over {drain['draining']:,} draining slices archived {drain['archived']:,} in {drain['seconds']} s, "
        f"{drain['batches']} batches."
    )
    _verdict(f"≤ {QUERIES} queries a batch", {"queries": drain["queries_per_batch"]}, QUERIES, most=True)
    if "queue_sync" in report:
        _queue_sync(report["queue_sync"])
    if "gpu_quota" in report:
        _gpu_quota(report["gpu_quota"])


def _queue_sync(measured: dict[str, Any]) -> None:
    print("\n## Queues of a cluster\n")
    print(
        f"{measured['queues']:,} queues of 1,000 pools of 20 slices on a real API server, with its etcd on the same "
        f"machine. A bare list of them takes {measured['bare_list_seconds']} s. A whole process that syncs them held "
        f"at most {measured['process_mib']} MiB.\n"
    )
    print("| run | seconds | calls | writes |\n|---|---|---|---|")
    for name in ("first", "nothing_to_do", "one_change"):
        row = measured[name]
        print(f"| {name.replace('_', ' ')} | {row['seconds']} | {row['calls']:,} | {row['writes']:,} |")
    _verdict("nothing to do: no write", {"writes": measured["nothing_to_do"]["writes"]}, 0, most=True)
    _verdict("one change: one write", {"writes": measured["one_change"]["writes"]}, 1, most=True)


def _gpu_quota(measured: dict[str, Any]) -> None:
    print("\n## GPU quota: allocate and release\n")
    print("Pairs per second; `pgbench` runs the SQL of both services, captured. Service: processes that call them.\n")
    print("| namespaces | clients | pgbench | service | ratio | HTTP | ratio | HTTP p99 ms |")
    print("|---|---|---|---|---|---|---|---|")
    for name, rows in measured.items():
        for clients, row in rows.items() if name.endswith(("namespace", "namespaces")) else ():
            limit, service, http = row["pgbench"], row["service"], row["http"]
            cells = [
                name.replace("_", " "), clients, limit["per_second"], service["pairs_per_second"],
                row["service_to_pgbench"], http["pairs_per_second"], row["http_to_pgbench"], http["p99_ms"],
            ]  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |")
    rebuild = measured["rebuild"]
    print(
        f"\nA rebuild of {rebuild['namespaces']:,} namespaces from {rebuild['pods']:,} pods takes "
        f"{rebuild['first']['seconds']} s when all are new and {rebuild['again']['seconds']} s when nothing differs."
    )


def _line(pools: str, live: str, clients: str, row: dict[str, Any]) -> str:
    single = row["single"]
    cells = [
        pools, live, clients, row["pgbench"]["per_second"], single["per_second"], row["ratio_to_pgbench"],
        single["p50_ms"], single["p99_ms"], row["p99_over_p50"], row.get("bulk_over_single", "–"),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _verdict(target: str, measured: dict[str, float], limit: float, *, most: bool = False) -> None:
    missed = {name: value for name, value in measured.items() if (value > limit if most else value < limit)}
    said = "met" if not missed else "**missed**: " + "; ".join(f"{name} {value}" for name, value in missed.items())
    print(f"\nTarget {target}: {said}.")


if __name__ == "__main__":
    main()
