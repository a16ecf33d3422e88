"""Run an installation under load and faults, record its history, and have the record checked.

    python -m tests.history.run --seed 7 --operations 10000 --faults 200

The same seed gives the same operations and the same faults at the same steps. How threads and processes interleave is
up to the machine, so a replay repeats the pressure and not every moment; `--check FILE` checks a record again, which is
exact.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from osmo_admin.ops.programs import process_commands
from tests.history import workload
from tests.history.clients import HistoryClient, Progress
from tests.history.dump import Sampler, write_tables
from tests.history.record import FORMAT, TABLES, Recorder, load

PLANTS = ("lock", "trigger", "replay", "snapshot", "reservations")
PROCESSES = 2
CLIENTS = 8
REST_SECONDS = 120
LONGEST_REST_SECONDS = 1800
_UNREST = """
    SELECT 'a change that no cycle has seen' AS what FROM scheduling_backendschedulingstate
        WHERE unfinished OR plan_token <> (
            SELECT COALESCE(array_agg(stamp ORDER BY stamp), '{}')::text FROM pools_changetoken
            WHERE subject = 'backend/' || backend_id AND kind = 'plan'
        )
    UNION ALL SELECT 'running work that ends by itself' FROM scheduling_group WHERE status = 'RUNNING'
        AND due_at IS NOT NULL
    UNION ALL SELECT 'drained subpool' FROM pools_pool pool WHERE subpool_state = 'DELETING'
        AND NOT EXISTS (SELECT FROM pools_reservation WHERE pool_id = pool.id)
    UNION ALL SELECT 'work on the cluster' FROM scheduling_group part
        JOIN scheduling_workflow workflow ON workflow.uuid = part.workflow_id
        JOIN pools_pool root ON root.id = workflow.root_pool_id
        JOIN pools_backend backend ON backend.id = root.backend_id AND backend.kind = 'kubernetes'
        WHERE part.status NOT LIKE 'COMPLETED' AND part.status NOT LIKE 'FAILED%'
"""
_ENDED = "SELECT count(*) FROM scheduling_group WHERE end_time IS NOT NULL"
READINGS = {
    "pool_quota": "/api/pool_quota",
    "quota_tree": "/api/quota_tree",
    "queue": "/api/queue?limit=1000",
    "gpu_quotas": "/api/configs/gpu_quota",
    **{f"pool {name}": f"/api/configs/pool/{name}" for name in workload.POOLS},
    **{f"subpools {name}": f"/api/configs/pool/{name}/subpool" for name in workload.POOLS},
    **{f"allocations {name}": f"/api/gpu_quota/{name}/allocation?limit=1000" for name in workload.NAMESPACES},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: an order exists in which every answer was right; 1: none does; 2: the run itself failed."""
    options = _parse(arguments)
    if options.check is None:
        _use_django()
        began = time.monotonic()
        path = record_run(options)
        print(f"recorded in {time.monotonic() - began:.0f} s: {path}", flush=True)
    else:
        path = options.check
    began = time.monotonic()
    is_right = _check(path)
    print(f"checked in {time.monotonic() - began:.0f} s", flush=True)
    return 0 if is_right else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.history.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="of the operations and faults; random if not given")
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--processes", type=int, default=PROCESSES, help="of the web, and as many workers")
    parser.add_argument("--cluster", action="store_true", help="with a Kubernetes cluster (needs OSMO_ENVTEST, etcd)")
    parser.add_argument("--plant", choices=PLANTS, default=None, help="a fault of the product that must be found")
    parser.add_argument("--check", type=Path, default=None, metavar="FILE", help="check this record again, run nothing")
    parser.add_argument("--template", metavar="URL", help="a migrated database to begin with, in place of migrations")
    parser.add_argument(
        "--out", type=Path, default=None, help="the folder for the record; a temporary one if not given"
    )
    found = parser.parse_args(arguments)
    if found.seed is None:
        found.seed = random.SystemRandom().randrange(1_000_000)
    return found


def _use_django() -> None:
    """This process makes users and the template database, through Django."""
    os.environ.update(DJANGO_SETTINGS_MODULE="osmo_admin.settings", DATABASE_URL="postgresql:///unused")
    import django

    django.setup()


def _command(options: argparse.Namespace) -> list[str]:
    return [
        "python", "-m", "tests.history.run", "--seed", str(options.seed), "--operations", str(options.operations),
        "--faults", str(options.faults), "--clients", str(options.clients),
        "--processes", str(options.processes),
        *(["--cluster"] if options.cluster else []), *(["--plant", options.plant] if options.plant else []),
    ]  # fmt: skip


def record_run(options: argparse.Namespace) -> Path:
    """Run it and return the file of the record. Raises if the installation does not start."""
    from tests.history.installation import HistoryInstallation

    out: Path = options.out or Path(tempfile.mkdtemp(prefix="osmo-history-"))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"record-{options.seed}{'-' + options.plant if options.plant else ''}.jsonl"
    logs = Path(tempfile.mkdtemp(prefix="osmo-history-logs-"))
    recorder = Recorder(path)
    recorder.write(
        "header", format=FORMAT, seed=options.seed, operations=options.operations, faults=options.faults,
        clients=options.clients, plant=options.plant, command=_command(options), wall=time.time(),
    )  # fmt: skip
    counts = {
        process_commands.WEB: options.processes, process_commands.WORKER: options.processes,
        process_commands.BEAT: 1, process_commands.CLUSTERS: 2 if options.cluster else 1,
    }  # fmt: skip
    installation = HistoryInstallation(logs, counts, options.plant, with_cluster=options.cluster, like=options.template)
    try:
        installation.start()
        tokens = installation.login_tokens(options.clients)
        installation.plant_fault()
        _run_load(installation, recorder, options, tokens)
        is_at_rest = _rest(installation, recorder)
        _write_final(installation, recorder)
        recorder.write("end", outcome="at rest" if is_at_rest else "not at rest")
    finally:
        recorder.close()
        installation.stop()
    return path


def _run_load(installation: Any, recorder: Recorder, options: argparse.Namespace, tokens: dict[str, str]) -> None:
    from tests.history import adversary

    steps = workload.generate(options.seed, options.operations, options.clients, with_cluster=options.cluster)
    faults = adversary.plan(
        options.seed, options.faults, options.operations, installation.names, with_cluster=options.cluster
    )
    attacker = adversary.Adversary(installation, recorder, faults)
    progress = Progress()
    write_tables(recorder, installation.database_url, TABLES, when="start")
    sampler = Sampler(recorder, installation.database_url)
    clients = [
        HistoryClient(number, token, installation.base_urls, recorder, progress, attacker.may_begin)
        for number, token in enumerate(tokens.values())
    ]
    failures: list[BaseException] = []

    def run(client: HistoryClient) -> None:
        try:
            client.run(steps[client.number])
        except BaseException as problem:
            failures.append(problem)
            raise

    threads = [threading.Thread(target=run, args=(client,), name=client.user, daemon=True) for client in clients]
    began = printed = time.monotonic()
    sampler.start()
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) or not attacker.is_done:
            attacker.tick(progress.begun)
            if failures:
                raise RuntimeError("a client failed") from failures[0]
            if time.monotonic() - printed > 15:
                printed = time.monotonic()
                print(f"{printed - began:5.0f} s: {progress.begun} operations, {attacker.begun} faults", flush=True)
            time.sleep(0.02)
    finally:
        sampler.stop()
    recorder.write(
        "note", text=f"{progress.begun} operations in {time.monotonic() - began:.0f} s, {sampler.count} samples"
    )


def _rest(installation: Any, recorder: Recorder) -> bool:
    """Wait until every process runs, every simulated backend has nothing more to do, and nothing ends by itself.
    Returns whether that came true: no while work ends one after the other (a long history leaves hundreds of gangs that
    take the whole cluster for a second each), but where for two minutes none has ended."""
    for name in installation.names:
        installation.shift_clock(name, 0)
    installation.restart_dead()
    installation.wait_ready()
    began = progressed = time.monotonic()
    quiet, ended = 0, -1
    while quiet < 3:
        admin = installation.admin_client
        answers = [admin.post(f"/api/backend/{name}/settle") for name in workload.BACKENDS]
        is_settled = all(
            each.status_code == 200 and each.json()["settled"] and not each.json()["steps"] for each in answers
        )
        unrest = installation.query(_UNREST)
        quiet = quiet + 1 if is_settled and not unrest else 0
        count = installation.query(_ENDED)[0]["count"]
        ended, progressed = count, progressed if count == ended else time.monotonic()
        if time.monotonic() > min(progressed + REST_SECONDS, began + LONGEST_REST_SECONDS):
            recorder.write("note", text=f"not at rest: settled {is_settled}, {[row['what'] for row in unrest][:5]}")
            return False
        time.sleep(0.3)
    return True


def _write_final(installation: Any, recorder: Recorder) -> None:
    write_tables(recorder, installation.database_url, TABLES, when="final")
    admin = installation.admin_client
    for name, path in READINGS.items():
        answer = admin.get(path)
        recorder.write("reading", when="final", name=name, path=path, status=answer.status_code, body=answer.json())
    if installation.cluster is not None:
        recorder.write(
            "reading", when="final", name="cluster", path=None, status=200, body=installation.cluster.reading()
        )
    recorder.write("reading", when="final", name="verify", path=None, status=200, body=installation.verify())


def _check(path: Path) -> bool:
    """Print the checker's report, and for a wrong history the command that replays it."""
    from tests.history.checker import report

    record = load(path)
    text, is_right = report(record)
    print(text)
    if record.outcome is None or record.outcome["outcome"] != "at rest":
        is_right = False
        print("\n".join(["the installation did not come to rest:", *(note["text"] for note in record.notes[-5:])]))
    if not is_right:
        print(f"\nreplay (the same operations and faults): {' '.join(record.header['command'])}")
        print(f"check this record again: python -m tests.history.run --check {path}")
    return is_right


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, AssertionError, psycopg.Error) as problem:
        print(f"the run failed: {problem}", file=sys.stderr)
        sys.exit(2)
