"""The measurements of docs/performance.json as a page with their targets, by `make reference`, into
docs/performance.md."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

RATIO, TAIL, BULK, OVER_SQL = 0.35, 5, 3, 8
FIRST_VISIT_KB, FIRST_PAINT, POOL_LIST = 120, 3, 0.3
READY, IDLE_PSS = 10, 326
QUERIES, KEPT_PERCENT = 5, 5
SLOW_PAGE_MS = 60

HEAD = """# Performance

<!-- Generated from docs/performance.json by `make reference`. -->

Measured by `python -m bench` ({cores} cores, Python {python}, {system}; installation and load on the same machine).
Ratios can be compared between machines, absolute numbers cannot.

{when}

## Admission over HTTP

`pgbench` runs the SQL that the service itself sends for one submission. `single` is one workflow a request, `bulk` 50.

| pools | live workflows | clients | pgbench /s | single /s | ratio | p50 ms | p99 ms | bulk / single |
|---|---|---|---|---|---|---|---|---|
"""

LIMITS = """
## Limits

What to raise, in which order: [install.md](install.md#what-to-raise-first). What bounds each rate on two cores:

* **Reads**: processor time alone.
* **Submissions to one pool**: the lock of its row, from the verdict to the commit; one request takes up to 500
  workflows under it. **To many pools**: processor time, half of it web.
* **GPU quota**: processor time, then the log of PostgreSQL on its way to the disk. One namespace has one lock.
* **A start**: visible when the disk below PostgreSQL has confirmed its commit. Capacity that becomes free on a full
  backend is used up to 1 s later: after a reconciliation that starts nothing there is a pause of four times its length.
* **Event streams**: a change waits at most 0.63 s for its stream, and a page 0.25 s more, at most 1.8 s while changes
  follow each other.
"""


def main() -> None:
    """Read the JSON, print the page."""
    print(render_report(json.loads(Path(sys.argv[1]).read_text())), end="")


def render_report(report: dict[str, Any]) -> str:
    """The whole page."""
    page = StringIO()
    with redirect_stdout(page):
        _print_page(report)
    return re.sub(r"(?:\nTarget .*\.\n)+", _join_targets, page.getvalue())


def _join_targets(found: re.Match[str]) -> str:
    """The verdicts of a section as one paragraph."""
    targets = re.findall(r"Target (.*)\.", found[0])
    return "\n" + textwrap.fill(f"Target{'s' * (len(targets) > 1)}: {'; '.join(targets)}.", 120) + "\n"


def _print_page(report: dict[str, Any]) -> None:
    admission = {name: rows for name, rows in report["admission"].items() if isinstance(rows, dict)}
    print(HEAD.format(when=_dates_text(report), **report["machine"]), end="")
    for name, rows in admission.items():
        pools, live = name.removesuffix("_live").rsplit("_", 1)
        for clients in ("1", "8"):
            row = rows[clients]
            print(_admission_row(pools.replace("_", " "), f"{int(live):,}", clients, row))
    at_eight = {name: rows["8"] for name, rows in admission.items()}
    _print_verdict(
        f"ratio at 8 clients ≥ {RATIO}", {name: row["ratio_to_pgbench"] for name, row in at_eight.items()}, RATIO
    )
    _print_verdict(f"bulk ≥ {BULK} × single", {name: row["bulk_over_single"] for name, row in at_eight.items()}, BULK)
    worst = {f"{name}, {n} clients": row["p99_over_p50"] for name, rows in admission.items() for n, row in rows.items()}
    _print_verdict(f"p99 ≤ {TAIL} × p50", worst, TAIL, most=True)
    quota = report["pool_quota"]
    print("\n## `/api/pool_quota` with 1,000 pools of 20 subpools\n")
    print(f"{quota['rows']:,} rows: {quota['answer']['p50_ms']} ms (p50), the bare SQL {quota['bare_sql_ms']} ms.")
    _print_verdict(f"≤ {OVER_SQL} × the bare SQL", {"ratio": quota["over_bare_sql"]}, OVER_SQL, most=True)
    for name, section in SECTIONS.items():
        if name in report and "not run" not in report[name]:
            section(report[name])
    _print_others(report)
    print(LIMITS, end="")


def _print_others(report: dict[str, Any]) -> None:
    """Targets of one number each; the JSON file has the rest of what these benchmarks measure."""
    drain, tree, cycle = report["drain"], report["quota_tree"], report["cycle_record"]
    new, whole = cycle["new_work"], cycle["everything"]
    rows = [
        (
            f"a pass over {drain['draining']:,} draining subpools: {drain['seconds']} s",
            f"{drain['queries_per_batch']} queries a batch",
            f"≤ {QUERIES}",
            drain["queries_per_batch"] <= QUERIES,
        )
    ]
    for name, what, key in (
        ("verdict", "three resources", "limit_ms"),
        ("flavors", "four flavors", "flavors_limit_ms"),
    ):
        p99, limit = tree[name]["p99_ms"], tree[key]
        text = f"a verdict on {what} in a tree of {tree['nodes']:,} nodes, {tree['depth']} deep"
        rows.append((text, f"{p99} ms (p99)", f"≤ {limit} ms", p99 <= limit))
    percent = max(new["percent"], whole["percent"])
    record = (
        f"new work {new['with_ms']} and {new['without_ms']} ms, "
        f"everything {whole['with_ms']} and {whole['without_ms']} ms"
    )
    what = f"a start with and without the record of what its cycle saw ({cycle['row_bytes']} bytes)"
    rows.append((what, record, f"≤ {KEPT_PERCENT} %", percent <= KEPT_PERCENT))
    print("\n## Other targets\n\n| what | measured | target | |\n|---|---|---|---|")
    for what, measured, target, is_met in rows:
        print(f"| {what} | {measured} | {target} | {'met' if is_met else '**missed**'} |")


def _dates_text(report: dict[str, Any]) -> str:
    """Which benchmarks ran on which day; `at` at the top holds for those that `measured_at` does not name."""
    days: dict[str, list[str]] = {}
    for name in report:
        if name in {"admission", "pool_quota", "drain", "quota_tree", "cycle_record"} or name in SECTIONS:
            days.setdefault(report.get("measured_at", {}).get(name, report["at"])[:10], []).append(f"`{name}`")
    text = "; ".join(f"{', '.join(names)} on {day}" for day, names in sorted(days.items()))
    return textwrap.fill(f"Measured: {text}.", 120)


def _print_queue_sync(measured: dict[str, Any]) -> None:
    print("\n## Queues of a cluster\n")
    print(
        f"{measured['queues']:,} queues of 1,000 pools of 20 subpools on a real API server, with its etcd on the same "
        f"machine. A bare list of them takes {measured['bare_list_seconds']} s. A whole process that syncs them held "
        f"at most {measured['process_mib']} MiB.\n"
    )
    print("| run | seconds | calls | writes |\n|---|---|---|---|")
    for name in ("first", "nothing_to_do", "one_change"):
        row = measured[name]
        print(f"| {name.replace('_', ' ')} | {row['seconds']} | {row['calls']:,} | {row['writes']:,} |")
    _print_verdict("nothing to do: no write", {"writes": measured["nothing_to_do"]["writes"]}, 0, most=True)
    _print_verdict("one change: one write", {"writes": measured["one_change"]["writes"]}, 1, most=True)


def _print_gpu_quota(measured: dict[str, Any]) -> None:
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


def _print_engine(measured: dict[str, Any]) -> None:
    print("\n## The scheduling engine\n")
    print("Cold: all gangs wait, nothing was planned before. Seconds of one core; each size in a process of its own.\n")
    print(
        "| size | gangs | nodes | queues | full cycle s | a submission s | a what-if s | every reason s | memory MiB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for row in measured["sizes"]:
        cells = [f"{row['scale']}×", *(f"{row[name]:,}" for name in ("gangs", "nodes", "queues"))]
        cells += [row[name] for name in ("cycle_s", "submission_s", "what_if_s", "explain_s", "memory_mib")]
        print("| " + " | ".join(map(str, cells)) + " |")
    first, limits = measured["sizes"][0], measured["limits"]
    for name, text in (
        ("cycle_s", "full cycle from cold"), ("submission_s", "one submission"), ("what_if_s", "what-if"),
        ("memory_mib", "memory"),
    ):  # fmt: skip
        unit = "MiB" if name.endswith("mib") else "s"
        _print_verdict(f"{text} ≤ {limits[name]:g} {unit} at 1×", {"it took": first[name]}, limits[name], most=True)
    last = measured["sizes"][-1]
    growth = {"cycle_4x_s": last["cycle_s"], "cycle_4x_to_1x": round(last["cycle_s"] / first["cycle_s"], 2)}
    for name, text in (("cycle_4x_s", "full cycle from cold, seconds"), ("cycle_4x_to_1x", "full cycle, 4× ÷ 1×")):
        _print_verdict(f"{text} at 4× ≤ {limits[name]:g}", {"it took": growth[name]}, limits[name], most=True)
    equal, compared = first["instants_equal_to_fresh"]
    print(
        f"\nOne instant after another at 1×, in a state that is kept: one running gang ends, one comes, and the engine "
        f"runs until nothing moves. {first['instants']} instants; {first['instant_p50_ms']} ms (p50), "
        f"{first['instant_p99_ms']} ms (p99). {equal} of {compared} instants were compared with a fresh run and gave "
        "the same steps."
    )
    for name in ("instant_p50_ms", "instant_p99_ms"):
        text = name.removeprefix("instant_").removesuffix("_ms")
        _print_verdict(f"an instant ≤ {limits[name]:g} ms ({text})", {"it took": first[name]}, limits[name], most=True)


def _print_live_reconcile(measured: dict[str, Any]) -> None:
    print("\n## The same in a running installation\n")
    parts, seen = measured["parts_seconds"], measured["submission"]
    print(
        f"{measured['waiting']:,} gangs wait and {measured['running']:,} run on {measured['nodes']:,} nodes in "
        f"{measured['leaves']} leaves. From cold {measured['cold_seconds']} s for {measured['steps']:,} starts; a "
        f"full cycle when nothing changes {measured['again_seconds']} s (read {parts['reading']} s, plan "
        f"{parts['planning']} s). One submission is RUNNING over HTTP after {seen['p50_seconds']} s "
        f"(p50 of {seen['samples']}; p99 {seen['p99_seconds']} s), at worst {seen['worst_seconds']} s."
    )
    disk = measured["disk"]
    print(
        f"\nIn the same time the disk below the database took {disk['p99_seconds']} s (p99 of {disk['samples']:,}) and "
        f"at worst {disk['worst_seconds']} s to confirm one independent page; a start becomes visible when "
        "it is on the disk."
    )
    _print_verdict("running ≤ 1 s", {"p99": seen["p99_seconds"], "worst": seen["worst_seconds"]}, 1.0, most=True)
    if (own := measured.get("in_memory")) is not None:
        print(
            f"\nWith the data in memory (`TMPDIR=/dev/shm`): {own['p50_seconds']} s (p50 of {own['samples']}; "
            f"p99 {own['p99_seconds']} s), at worst {own['worst_seconds']} s."
        )
        own_times = {"p99": own["p99_seconds"], "worst": own["worst_seconds"]}
        _print_verdict("running ≤ 1 s, without a disk", own_times, 1.0, most=True)


def _print_dispatch(measured: dict[str, Any]) -> None:
    took, latency = measured["seconds"], measured["event_to_visible_ms"]
    print("\n## Work on a cluster\n")
    print(
        f"{measured['workflows']} workflows with {measured['pods']:,} pods on a real API server: submitted after "
        f"{took['submitted']} s, all objects made after {took['dispatched']} s ({measured['objects_made_per_second']} "
        f"a second; a bare client makes {measured['bare_client_per_second']}). All observed running "
        f"{took['all_running']} s later, all observed ended {took['all_ended']} s after that. "
        "From a pod's event to its status in the API "
        f"{latency['p50']} ms (p50), {latency['p95']} ms (p95), {latency['worst']} ms (worst)."
    )


def _print_webhooks(measured: dict[str, Any]) -> None:
    print("\n## Admission reviews\n")
    print("Over TLS on persistent connections, like an API server.\n")
    print("| answer | at once | per second | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for name, row in measured.items():
        answer, clients = name.rsplit("_", 1)
        print(f"| {answer} | {clients} | {row['per_second']} | {row['p50_ms']} | {row['p99_ms']} |")


def _print_start(measured: dict[str, Any]) -> None:
    print("\n## From `make run` to the first page, and the memory of an idle installation\n")
    print("On an installed environment, with the embedded servers.\n")
    print("| first start with the demo s | first start s | later start s | memory (PSS) MB | processes |")
    print("|---|---|---|---|---|")
    print("| " + " | ".join(str(value) for value in measured.values()) + " |")
    first = {"it took": measured["first_with_demo_s"]}
    _print_verdict(f"ready after `make run` ≤ {READY} s", first, READY, most=True)
    memory = {"they took": measured["idle_pss_mb"]}
    _print_verdict(f"memory of all processes ≤ {IDLE_PSS} MB, half of the 653 MB before", memory, IDLE_PSS, most=True)


def _print_client_start(measured: dict[str, Any]) -> None:
    print("\n## From Enter to the answer\n")
    print("| command | first s | again s | processor s |\n|---|---|---|---|")
    for name, row in measured.items():
        print(f"| `osmo {name}` | {row['first_seconds']} | {row['again_seconds']} | {row['cpu_seconds']} |")
    starts = {name: row["first_seconds"] for name, row in measured.items()}
    _print_verdict("a first start ≤ 0.5 s", starts, 0.5, most=True)
    again = {"it took": measured["pool list"]["again_seconds"]}
    _print_verdict(f"`osmo pool list` ≤ {POOL_LIST} s", again, POOL_LIST, most=True)


def _admission_row(pools: str, live: str, clients: str, row: dict[str, Any]) -> str:
    single = row["single"]
    cells = [
        pools, live, clients, row["pgbench"]["per_second"], single["per_second"], row["ratio_to_pgbench"],
        single["p50_ms"], single["p99_ms"], row.get("bulk_over_single", "–"),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _print_verdict(target: str, measured: dict[str, float], limit: float, *, most: bool = False) -> None:
    missed = {name: value for name, value in measured.items() if (value > limit if most else value < limit)}
    text = "met" if not missed else "**missed**: " + ", ".join(f"{name} {value}" for name, value in missed.items())
    print(f"\nTarget {target}: {text}.")


def _print_request_cost(measured: dict[str, Any]) -> None:
    print("\n## What a request costs\n")
    print(
        "Processor milliseconds of the web process per request, in-process and without HTTP: 101 pools, 404 nodes,\n"
        "5,000 workflows, 100 waiting gangs in the queue. `version` touches no table, so it is the floor.\n"
    )
    print("| request | ms | statements | target ms | |\n|---|---|---|---|---|")
    for name, row in measured.items():
        verdict = "" if "target_ms" not in row else "met" if row["within_target"] else "**missed**"
        cells = [f"`{name}`", row["ms"], row["statements"], row.get("target_ms", "–"), verdict]
        print("| " + " | ".join(map(str, cells)) + " |")


def _print_http_rates(measured: dict[str, Any]) -> None:
    print("\n## Requests per second\n")
    print(
        "Over HTTP, on the machine of the database, the worker and the load, with the same installation and its\n"
        "scheduler at work; the median of three rounds.\n"
    )
    print("| request | 1 client /s | p50 ms | 8 clients /s | p50 ms | p99 ms | target /s | |")
    print("|---|---|---|---|---|---|---|---|")
    for name, rows in measured.items():
        one, eight = rows["1"], rows["8"]
        verdict = "" if "target_per_second" not in eight else "met" if eight["within_target"] else "**missed**"
        cells = [
            f"`{name}`", one["per_second"], one["p50_ms"], eight["per_second"], eight["p50_ms"], eight["p99_ms"],
            eight.get("target_per_second", "–"), verdict,
        ]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |")


def _print_first_visit(measured: dict[str, Any]) -> None:
    print("\n## The first visit\n")
    print("`python -m bench first_visit`: Chromium with an empty cache, 400 kbit/s and 400 ms of latency.\n")
    print("| page | kB over the wire | first paint s | again kB | again s |\n|---|---|---|---|---|")
    for name, row in measured.items():
        first, again = row["first"], row["again"]
        cells = [name, first["kilobytes"], first["paint_seconds"], again["kilobytes"], again["paint_seconds"]]
        print("| " + " | ".join(map(str, cells)) + " |")
    sizes = {name: row["first"]["kilobytes"] for name, row in measured.items()}
    _print_verdict(f"first visit ≤ {FIRST_VISIT_KB} kB", sizes, FIRST_VISIT_KB, most=True)
    paints = {name: row["first"]["paint_seconds"] for name, row in measured.items()}
    _print_verdict(f"first paint ≤ {FIRST_PAINT} s", paints, FIRST_PAINT, most=True)


def _print_pages(measured: dict[str, Any]) -> None:
    print("\n## Pages of a large installation\n")
    print(
        "`python -m bench pages`: 1,000 pools of 20 subpools, 500 nodes, 100,000 workflows of which 2,000 wait. The\n"
        "time in the web process to the last byte, for a platform admin and for a researcher with two pools; the\n"
        f"median of five. Pages below {SLOW_PAGE_MS} ms are left out.\n"
    )
    print("| page | admin ms | kB | researcher ms | kB |\n|---|---|---|---|---|")
    for name, row in measured["admin"].items():
        rows = (row, measured["rita"].get(name))
        if all(each is None or each["ms"] < SLOW_PAGE_MS for each in rows):
            continue
        cells = [name]
        for each in rows:
            cells += ["–"] * 2 if each is None else [str(each[key]) for key in ("ms", "kB")]
        print("| " + " | ".join(cells) + " |")
    over = ", ".join(measured["over"])
    verdict = f"**missed** by {over}" if over else "met"
    print(f"\nTarget each page ≤ {measured['target_ms']} ms: {verdict}.")


def _print_streams(measured: dict[str, Any]) -> None:
    print("\n## Open event streams\n")
    print(
        f"`python -m bench streams`: {measured['streams']} streams of one pool admin, then of as many.\n"
        "Seconds from the answer to a change until its event is in half of the streams, in the last one, and until a\n"
        "page in Chromium shows it.\n"
    )
    print("| streams of | half, median | last, median | last, worst | page, median | page, worst |")
    print("|---|---|---|---|---|---|")
    for title, name in (("one user", "one_user"), ("as many users", "many_users")):
        row = measured[name]
        print(
            f"| {title} | {row['half_median']} | {row['last_median']} | {row['last_worst']} | "
            f"{row['page_median']} | {row['page_worst']} |"
        )
    for title, key in (("the last stream", "last_worst"), ("the page", "page_worst")):
        worst = {name: measured[name][key] for name in ("one_user", "many_users")}
        _print_verdict(f"{title} ≤ {measured['target_seconds']} s", worst, measured["target_seconds"], most=True)


def _print_prove(measured: dict[str, Any]) -> None:
    print("\n## The proof of a month\n")
    print(
        f"{measured['jobs']:,} jobs of a real trace: `osmo replay` {measured['replay_s']} s of one core, "
        f"`osmo-admin prove` {measured['prove_s']} s and at most {measured['memory_mib']} MiB, beside a load of "
        f"{measured['load']}."
    )
    limit = measured["ratio_limit"]
    _print_verdict(f"a proof ≤ {limit} × a replay", {"ratio": measured["ratio"]}, limit, most=True)


SECTIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "engine": _print_engine,
    "live_reconcile": _print_live_reconcile,
    "prove": _print_prove,
    "queue_sync": _print_queue_sync,
    "dispatch": _print_dispatch,
    "webhooks": _print_webhooks,
    "gpu_quota": _print_gpu_quota,
    "start": _print_start,
    "client_start": _print_client_start,
    "request_cost": _print_request_cost,
    "http_rates": _print_http_rates,
    "first_visit": _print_first_visit,
    "pages": _print_pages,
    "streams": _print_streams,
}


if __name__ == "__main__":
    main()
