"""Starts: nothing runs twice, and a gang runs as a whole or not at all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.history.checker.history import History
from tests.history.checker.pool_states import OPEN_STATUSES, attempts_by_task, start_decisions, started_attempts
from tests.history.checker.violations import Event, Violation, row


def nothing_starts_twice(history: History) -> Iterator[Violation]:
    """Each start decision starts one attempt of its own for each of its tasks; the attempts of a task are numbered
    without a gap; an attempt begins only after the one before it has ended; at most one is open. (On a cluster a
    decision is an observation with a time of its own; see `pods_belong_to_attempts`.)"""
    names = _task_names(history)
    attempts = attempts_by_task(history)
    roots = {each["uuid"]: each["root_pool_id"] for each in history.rows("scheduling_workflow")}
    simulated = {
        each["uuid"]
        for each in history.rows("scheduling_group")
        if roots.get(each["workflow_id"]) in history.simulated_roots
    }
    for key, decisions in start_decisions(history).items():
        if key[0] not in simulated:
            continue
        times = Counter(each["start_time"] for each in attempts.get(key, ()))
        for decision in decisions:
            if decision["action"] != "start":
                continue
            if times[decision["time"]] == 0:
                sentence = (
                    f"decision {decision['id']} started task {key[1]}, and no attempt has that start: another start "
                    "took its place."
                )
                yield Violation(
                    "nothing_starts_twice",
                    names.get(key[0], key[0]),
                    sentence,
                    row("scheduling_decision", decision["id"]),
                )
            times[decision["time"]] -= 1
    for key, rows in attempts.items():
        numbers = [int(each["retry_id"]) for each in rows]
        subject = names.get(key[0], key[0])
        evidence = tuple(event for each in rows for event in row("scheduling_task", each["uuid"]))
        if numbers != list(range(len(rows))):
            sentence = f"the attempts of task {key[1]} are numbered {numbers}."
            yield Violation("nothing_starts_twice", subject, sentence, evidence)
        if len(still := [each for each in rows if each["status"] in OPEN_STATUSES]) > 1:
            sentence = f"task {key[1]} has {len(still)} open attempts at rest."
            yield Violation("nothing_starts_twice", subject, sentence, evidence)
    by_task: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for attempt in started_attempts(history):
        by_task[attempt.row["group_id"], attempt.row["name"]].append(attempt)
    for key, found in by_task.items():
        for earlier, later in pairwise(sorted(found, key=lambda each: int(each.row["retry_id"]))):
            if later.begin < earlier.end:
                sentence = (
                    f"attempt {later.row['retry_id']} of task {key[1]} began at {later.begin / 1e6:.3f} s, attempt "
                    f"{earlier.row['retry_id']} ended at {earlier.end / 1e6:.3f} s."
                )
                evidence = row("scheduling_task", earlier.row["uuid"]) + row("scheduling_task", later.row["uuid"])
                yield Violation("nothing_starts_twice", names.get(key[0], key[0]), sentence, evidence)


def _task_names(history: History) -> dict[str, str]:
    workflows = {each["uuid"]: each["name"] for each in history.rows("scheduling_workflow")}
    return {
        each["uuid"]: f"workflow/{workflows.get(each['workflow_id'])}/{each['name']}"
        for each in history.rows("scheduling_group")
    }


def gangs_run_whole(history: History) -> Iterator[Violation]:
    """In every sample and at rest: a RUNNING gang that is not elastic has all its tasks running, a gang that is not
    RUNNING has none. (Simulated backends; in a cluster pods start one by one.)"""
    names = _task_names(history)
    for state in history.states:
        roots = {each["uuid"]: each["root_pool_id"] for each in state.rows("scheduling_workflow")}
        latest: dict[tuple[str, str], Any] = {}
        for task in state.rows("scheduling_task"):
            key = task["group_id"], task["name"]
            if key not in latest or task["retry_id"] > latest[key]["retry_id"]:
                latest[key] = task
        running: Counter[str] = Counter(task["group_id"] for task in latest.values() if task["status"] == "RUNNING")
        sizes: Counter[str] = Counter(key[0] for key in latest)
        for group in state.rows("scheduling_group"):
            if roots.get(group["workflow_id"]) not in history.simulated_roots:
                continue
            expected = sizes[group["uuid"]] if group["status"] == "RUNNING" else 0
            found = running[group["uuid"]]
            is_wrong = found == 0 and expected > 0 if group["gang"] is not None and expected else found != expected
            if is_wrong:
                sentence = (
                    f"In {state.label} it is {group['status']}, and {found} of its {sizes[group['uuid']]} tasks run."
                )
                evidence = (Event("sample", state.label), *row("scheduling_group", group["uuid"]))
                yield Violation("gangs_run_whole", names.get(group["uuid"], group["uuid"]), sentence, evidence)


def statuses_agree(history: History) -> Iterator[Violation]:
    """In every sample and at rest: a workflow is RUNNING while one of its groups runs, PENDING while one is open and
    none runs, ended when all have ended."""
    for state in history.states:
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for group in state.rows("scheduling_group"):
            groups[group["workflow_id"]].append(group["status"])
        for workflow in state.rows("scheduling_workflow"):
            statuses, status = groups[workflow["uuid"]], workflow["status"]
            if "RUNNING" in statuses:
                is_right = status == "RUNNING"
            elif any(each in OPEN_STATUSES for each in statuses):
                is_right = status == "PENDING"
            else:
                is_right = status not in {"RUNNING", "PENDING"}
            if not is_right:
                sentence = f"In {state.label} it is {status}, and its groups are {', '.join(sorted(statuses))}."
                evidence = (Event("sample", state.label), *row("scheduling_workflow", workflow["uuid"]))
                yield Violation("statuses_agree", f"workflow/{workflow['name']}", sentence, evidence)
