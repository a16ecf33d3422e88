"""One process of a race: made ready, held at a gate in the database, then one allocation in the test's namespace.

    python -m tests.concurrency.gpu_process GATE NAMESPACE NAME TFLOPS

Prints `state` of the allocation, or the code of the first broken rule.
"""

from __future__ import annotations

import sys


def main(gate: str, namespace: str, name: str, tflops: str) -> None:
    import django

    django.setup()
    from django.db import connection

    from pools.domain.errors import DomainError
    from pools.domain.gpu_workers import Amounts, Asked, Worker
    from pools.domain.quantities import parse_quantity
    from pools.domain.roles import SYSTEM
    from pools.services.gpu_allocations import allocate

    worker = Worker(request=Amounts(tflops=parse_quantity(tflops)))
    connection.ensure_connection()
    print("ready", flush=True)
    with connection.cursor() as cursor:
        # The test holds this lock alone until everybody is here; then all pass together.
        cursor.execute("SELECT pg_advisory_lock_shared(%s)", [int(gate)])
    try:
        print(allocate(actor=SYSTEM, namespace=namespace, asked=Asked(name, "", worker)).state)
    except DomainError as refusal:
        print(refusal.details[0].code)


if __name__ == "__main__":
    main(*sys.argv[1:])
