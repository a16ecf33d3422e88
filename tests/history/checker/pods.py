"""Pods of a cluster: one for each attempt, and none that nobody waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.history.checker.history import History
from tests.history.checker.violations import Event, Violation, row

OPEN_STATUSES = frozenset({"SCHEDULING", "INITIALIZING", "RUNNING"})
ENDED_PHASES = frozenset({"Succeeded", "Failed"})


def pods_belong_to_attempts(history: History) -> Iterator[Violation]:
    """Every pod that ever was belongs to one attempt, no attempt ever had two pods, and at rest no pod of an attempt
    that has ended is left running."""
    line = history.record.readings.get("cluster")
    if line is None:
        return
    tasks = {each["uuid"]: each for each in history.rows("scheduling_task")}
    pods: defaultdict[str, list[str]] = defaultdict(list)
    reading = Event("reading", "cluster")
    for pod in line["body"]["seen"]:
        if pod["task"] not in tasks:
            sentence = f"pod {pod['name']} is for the attempt {pod['task']}, which the final tables do not have."
            yield Violation("pods_belong_to_attempts", f"pod/{pod['name']}", sentence, (reading,))
        else:
            pods[pod["task"]].append(pod["uid"])
    for task, uids in pods.items():
        if len(uids) > 1:
            sentence = f"attempt {tasks[task]['retry_id']} of task {tasks[task]['name']} had {len(uids)} pods."
            yield Violation(
                "pods_belong_to_attempts", f"task/{task}", sentence, (reading, *row("scheduling_task", task))
            )
    for pod in line["body"]["pods"]:
        if pod["phase"] in ENDED_PHASES or pod["is_deleted"] or pod["task"] not in tasks:
            continue
        if (status := tasks[pod["task"]]["status"]) not in OPEN_STATUSES:
            sentence = f"its attempt is {status}, and the pod is {pod['phase']}."
            evidence = (reading, *row("scheduling_task", pod["task"]))
            yield Violation("pods_belong_to_attempts", f"pod/{pod['name']}", sentence, evidence)
