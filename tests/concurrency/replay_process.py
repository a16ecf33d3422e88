"""A process that runs one replay, and stops in the middle of it with the turn of long work in its hands.

    python -m tests.concurrency.replay_process REPLAY FILE

Prints `working`, waits until the file exists, and goes on; prints `ended`, or `lost` if its connection is lost.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from uuid import UUID


def main(replay_id: str, file: str) -> None:
    import django

    django.setup()
    from django.db import OperationalError

    from scheduling.history.own import replays

    def wait(*_: object) -> dict[str, bool]:
        print("working", flush=True)
        while not Path(file).exists():
            time.sleep(0.02)
        return {"from_the_frozen_process": True}

    replays.replay_own_history = wait  # type: ignore[assignment]
    try:
        replays.run_replay(UUID(replay_id))
    except OperationalError:
        print("lost")
    else:
        print("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
