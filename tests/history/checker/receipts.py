"""Receipts: one for each attempt that something else ended, written with its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.history.checker.history import History, Row
from tests.history.checker.violations import Violation, row

BY_OTHERS = frozenset({"FAILED_PREEMPTED", "FAILED_BACKEND_ERROR", "FAILED_EVICTED"})
CODES = frozenset({3001, 3004, 3006})


def ended_attempts_have_receipts(history: History) -> Iterator[Violation]:
    """An attempt that ran, and that something else ended, has one receipt, committed with its end; every receipt is of
    an attempt that ended."""
    receipts: defaultdict[str, list[Row]] = defaultdict(list)
    for receipt in history.rows("scheduling_receipt"):
        receipts[receipt["task_id"]].append(receipt)
    tasks = {each["uuid"]: each for each in history.rows("scheduling_task")}
    for key, task in tasks.items():
        found = receipts.get(key, [])
        owes = task["start_time"] is not None and (task["status"] in BY_OTHERS or task.get("exit_code") in CODES)
        named = f"attempt {task['retry_id']} of task {task['name']}"
        if owes and len(found) != 1:
            sentence = f"{named} is {task['status']} and has {len(found)} receipts."
        elif found and task["status"] in {"SCHEDULING", "INITIALIZING", "RUNNING"}:
            sentence = f"{named} is {task['status']} and has a receipt."
        elif any(each["_committed"] > task["_committed"] for each in found):
            sentence = f"the receipt of {named} was committed after its end."
        else:
            continue
        yield Violation("ended_attempts_have_receipts", f"task/{key}", sentence, row("scheduling_task", key))
    for key in receipts.keys() - tasks.keys():
        sentence = f"a receipt is of the attempt {key}, which the final tables do not have."
        yield Violation("ended_attempts_have_receipts", f"task/{key}", sentence, row("scheduling_receipt", key))
