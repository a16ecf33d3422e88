"""The processes of a race: each waits at a gate in the database, then makes one allocation in the test's namespace.

    python -m tests.concurrency.gpu_process GATE NAMESPACE TFLOPS locked|unlocked NAME...

They are forked from one that has loaded the program, which takes seconds. Each prints a line `ready`, and one with the
`state` of its allocation, or the code of the first broken rule. `unlocked` reads the namespace without its lock, prints
`read`, and waits at a second gate (GATE + 1) until all processes have read.
"""

from __future__ import annotations

import multiprocessing
import os
import sys


def say(word: str) -> None:
    """One write for the whole line, which no other process can divide."""
    os.write(1, f"{word}\n".encode())


def main(gate: str, namespace: str, tflops: str, how: str, *names: str) -> None:
    import django

    django.setup()
    from django.db import connection

    from pools.domain.changes.gpu_allocations import AllocateWorker
    from pools.domain.errors import DomainError
    from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker
    from pools.domain.people.roles import SYSTEM
    from pools.domain.values.quantities import parse_quantity
    from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
    from pools.services.gpu_quota import gpu_allocations

    def pass_gate(number: int) -> None:
        # The test holds this lock until all processes wait for it; then all pass together.
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")  # however slowly the others start
            cursor.execute("SELECT pg_advisory_lock_shared(%s)", [number])

    def read_without_lock(name: str, _worker: str) -> tuple[GpuNamespace, None]:
        found = read_namespaces([name])[name]
        say("read")
        pass_gate(int(gate) + 1)
        return found, None

    if how == "unlocked":
        gpu_allocations.lock_namespace_and_worker = read_without_lock
    worker = GpuWorker(request=GpuAmounts(tflops=parse_quantity(tflops)))

    def race(name: str) -> None:
        connection.ensure_connection()
        say("ready")
        pass_gate(int(gate))
        command = AllocateWorker(
            namespace=namespace, id=name, request=worker.request, limit=worker.limit, count=worker.count
        )
        try:
            say(gpu_allocations.allocate(command, actor=SYSTEM).state)
        except DomainError as refusal:
            say(refusal.details[0].code)

    racers = [multiprocessing.get_context("fork").Process(target=race, args=(name,)) for name in names]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
