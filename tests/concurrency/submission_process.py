"""A process that dies within a transaction that several submissions share.

    python -m tests.concurrency.submission_process POOL USER COUNT

It submits COUNT workflows, which wait for the lock of the pool and then share a transaction. It prints their number
once they are inserted, and keeps the transaction open until it is killed.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any


def main(pool: str, username: str, count: str) -> None:
    import django

    django.setup()
    from django.db import transaction

    from pools.locking import lock_pool_tree
    from pools.models import Pool, User
    from scheduling.services.workflows import submission
    from scheduling.services.workflows.insert_rows import insert_workflows
    from tests.support.world import workflow_file

    actor = User.objects.get(username=username).as_actor()

    def insert_and_wait(owner: str, workflows: list[Any], *more: Any) -> None:
        insert_workflows(owner, workflows, *more)
        print(len(workflows), flush=True)
        time.sleep(600)

    def submit(number: int) -> None:
        submission.submit(actor=actor, pool=pool, submission=submission.Submission(file=workflow_file(f"job{number}")))

    submission.insert_workflows = insert_and_wait  # type: ignore[attr-defined]
    groups = submission._GROUPS
    with transaction.atomic():
        lock_pool_tree(Pool.objects.get(name=pool).pk)
        for number in range(int(count)):
            threading.Thread(target=submit, args=[number], daemon=True).start()
        while sum(len(queue) + 1 for queue in groups._waiting.values()) < int(count):
            time.sleep(0.002)
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
