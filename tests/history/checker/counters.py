"""Counters equal their recounts, in every snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tests.history.checker.history import History, Row, State
from tests.history.checker.pool_states import OPEN_STATUSES
from tests.history.checker.violations import Event, Violation, row

SUMS = ("tflops", "vram")


def counters_equal_recounts(history: History) -> Iterator[Violation]:
    """In every sample and at rest: the usage of a leaf is the sum of its reservations, each active workflow has one
    reservation, with the GPUs that its running tasks have and that its largest open gang needs, and the usage of a
    namespace is the sum of its allocations."""
    for state in history.states:
        yield from _leaf_counters(state)
        yield from _reservations(state, history)
        yield from _gpu_counters(state)


def _violation(state: State, subject: str, sentence: str, table: str, key: Any) -> Violation:
    evidence = (Event("sample", state.label), *row(table, key))
    return Violation("counters_equal_recounts", subject, f"In {state.label} {sentence}", evidence)


def _leaf_counters(state: State) -> Iterator[Violation]:
    sums: defaultdict[Any, dict[str, int]] = defaultdict(
        lambda: {"used": 0, "total_usage": 0, "live_workflows": 0, "committed": 0}
    )
    for held in state.rows("pools_reservation"):
        found, gpus, guaranteed = sums[held["pool_id"]], held["held_gpus"], held["priority"] != "LOW"
        found["total_usage"] += gpus
        found["live_workflows"] += 1
        found["used"] += gpus if guaranteed else 0
        found["committed"] += max(gpus, held["needed_gpus"]) if guaranteed else 0
    names = {pool["id"]: pool["name"] for pool in state.rows("pools_pool")}
    counted = {each["pool_id"]: each for each in state.rows("pools_leafusage")}
    for key, name in names.items():
        if key not in counted:
            yield _violation(state, f"pool/{name}", "the leaf has no counters.", "pools_pool", key)
            continue
        for column, expected in sums[key].items():
            if counted[key][column] != expected:
                sentence = f"the counter {column} is {counted[key][column]}, its reservations add up to {expected}."
                yield _violation(state, f"pool/{name}", sentence, "pools_leafusage", key)


def _reservations(state: State, history: History) -> Iterator[Violation]:
    reservations = {each["workflow"]: each for each in state.rows("pools_reservation")}
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for group in state.rows("scheduling_group"):
        groups[group["workflow_id"]].append(group)
    running: defaultdict[str, int] = defaultdict(int)
    for task in state.rows("scheduling_task"):
        if task["status"] == "RUNNING":
            running[task["group_id"]] += task["gpu_count"]
    for workflow in state.rows("scheduling_workflow"):
        name, key = f"workflow/{workflow['name']}", workflow["uuid"]
        held = reservations.pop(key, None)
        if workflow["status"] not in {"PENDING", "RUNNING"}:
            if held is not None:
                sentence = f"it is {workflow['status']} and still has a reservation of {held['held_gpus']} GPUs."
                yield _violation(state, name, sentence, "pools_reservation", key)
            continue
        if held is None:
            sentence = f"it is {workflow['status']} and has no reservation."
            yield _violation(state, name, sentence, "scheduling_workflow", key)
            continue
        gpus = sum(running[group["uuid"]] for group in groups[key])
        needed = max((group["gpus"] for group in groups[key] if group["status"] in OPEN_STATUSES), default=0)
        if (held["held_gpus"], held["needed_gpus"]) != (gpus, needed):
            sentence = (
                f"its reservation holds {held['held_gpus']} GPUs and needs {held['needed_gpus']}; its running tasks "
                f"have {gpus}, its largest open gang needs {needed}."
            )
            yield _violation(state, name, sentence, "pools_reservation", key)
        if (held["pool_id"], held["priority"]) != (workflow["pool_id"], workflow["priority"]):
            sentence = "its reservation is on another leaf, or has another priority."
            yield _violation(state, name, sentence, "pools_reservation", key)
    for key, held in reservations.items():
        sentence = f"a reservation of {held['held_gpus']} GPUs has no workflow."
        yield _violation(state, f"workflow/{held['workflow_name']}", sentence, "pools_reservation", key)


def _gpu_counters(state: State) -> Iterator[Violation]:
    sums: defaultdict[str, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for each in state.rows("pools_gpuallocation"):
        if each["state"] == "released":
            continue
        prefix = "assumed_" if each["state"] == "assumed" else ""
        found = sums[each["namespace"]]
        found[f"{prefix}workers"] += 1
        for side in ("request", "limit"):
            for what in SUMS:
                found[f"{prefix}{side}s_{what}"] += each["count"] * Decimal(str(each[f"{side}_{what}"]))
    for usage in state.rows("pools_gpuusage"):
        expected = sums.pop(usage["namespace"], defaultdict(Decimal))
        for prefix in ("", "assumed_"):
            for column in (
                f"{prefix}workers",
                *(f"{prefix}{side}s_{what}" for side in ("request", "limit") for what in SUMS),
            ):
                if Decimal(str(usage[column])) != expected[column]:
                    sentence = f"the counter {column} is {usage[column]}, its allocations add up to {expected[column]}."
                    yield _violation(
                        state, f"gpu_quota/{usage['namespace']}", sentence, "pools_gpuusage", usage["namespace"]
                    )
    for namespace in sums:
        sentence = "it has live allocations and no counters."
        yield _violation(state, f"gpu_quota/{namespace}", sentence, "pools_gpuusage", namespace)
