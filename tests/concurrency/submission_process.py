"""A process that dies within the transaction of a submission.

    python -m tests.concurrency.submission_process POOL USER

It prints `inserted` once its workflow is inserted, and keeps the transaction open until it is killed.
"""

from __future__ import annotations

import sys
import time
from typing import Any


def main(pool: str, username: str) -> None:
    import django

    django.setup()

    from pools.models import User
    from scheduling.services.workflows import submission
    from scheduling.services.workflows.insert_rows import insert_workflows
    from tests.support.world import workflow_file

    def insert_and_wait(*rows: Any) -> None:
        insert_workflows(*rows)
        print("inserted", flush=True)
        time.sleep(600)

    submission.insert_workflows = insert_and_wait  # type: ignore[attr-defined]
    actor = User.objects.get(username=username).as_actor()
    submission.submit(actor=actor, pool=pool, submission=submission.Submission(file=workflow_file("job0")))


if __name__ == "__main__":
    main(*sys.argv[1:])
