"""Liveness: work that may start does start, whatever died before.

A gang is judged only where the tables leave no doubt: its backend is online and runs nothing, its tasks are of one size
and all fit on the nodes, and its quotas, limits and cohort have room for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.history.checker.history import History, Row, State
from tests.history.checker.violations import Event, Violation, row
from tests.history.checker.waiting import WaitingFacts, fits, free_gpus, waiting_gangs

VERIFY = "verify"
"""The name of the reading with the differences that `osmo-admin verify` finds at rest."""

MAX_IDLE_SECONDS = 120.0
"""The total time for which a gang may be seen to wait by an idle cluster while the run goes on. Workers are killed
and frozen, messages are lost and the database restarts meanwhile: each of these ends after 2.5 seconds, a process that
starts again on a loaded machine takes perhaps twenty, and a full cycle runs at least each minute."""

BEAT = "beat"
SHIFTED_CLOCK = "shift_clock"


def nothing_waits_on_an_idle_cluster(history: History) -> Iterator[Violation]:
    """At rest no gang waits that fits on a cluster without running work; while the run goes on, none does for long."""
    for key, facts in _left_waiting(history.final).items():
        sentence = f"it waits at rest, and nothing runs on its cluster, where its {facts.group['gpus']} GPUs are free."
        yield _violation(facts, sentence, row("scheduling_group", key))
    seconds: defaultdict[Any, float] = defaultdict(float)
    seen = ((state, _left_waiting(state)) for state in _judged_samples(history))
    for (earlier, before), (later, now) in pairwise(seen):
        for key in now.keys() & before.keys():
            seconds[key] += (later.at - earlier.at) / 1e6
            if seconds[key] > MAX_IDLE_SECONDS:
                sentence = f"samples saw it wait for more than {MAX_IDLE_SECONDS:.0f} s although the cluster was idle."
                yield _violation(now[key], sentence, (Event("sample", later.label.rpartition(" ")[2]),))
                return


def nothing_is_stuck(history: History) -> Iterator[Violation]:
    """The product itself finds no gang that waits although nothing may stop it: no full cycle while the run goes on,
    and neither the last one nor a verification at rest."""
    states = [(state, Event("sample", state.label.rpartition(" ")[2])) for state in history.samples]
    reported = set()
    for state, event in (*states, (history.final, Event("reading", VERIFY))):
        for found in state.rows("scheduling_stuckgroup"):
            if found["gang"] not in reported:
                reported.add(found["gang"])
                sentence = f"In {state.label} a full cycle found it stuck ({found['kind']})."
                yield Violation("nothing_is_stuck", f"workflow/{found['gang']}", sentence, (event,))
    reading = history.record.readings.get(VERIFY)
    for difference in reading["body"] if reading is not None else ():
        code, _, message = difference.partition(": ")
        if code == "stuck":
            yield Violation("nothing_is_stuck", f"workflow/{message.split()[0]}", message, (Event("reading", VERIFY),))


def _violation(facts: WaitingFacts, sentence: str, evidence: tuple[Event, ...]) -> Violation:
    name = f"workflow/{facts.workflow['name']}/{facts.group['name']}"
    return Violation("nothing_waits_on_an_idle_cluster", name, sentence, evidence)


def _judged_samples(history: History) -> Iterator[State]:
    """The samples until the clock of Celery beat is shifted: afterwards periodic tasks may not come for a day, and
    nothing replaces a lost notification."""
    shifts = (
        fault["t"] / 1e3
        for fault in history.record.faults
        if fault["name"] == SHIFTED_CLOCK and str(fault.get("target")).startswith(BEAT)
    )
    end = min(shifts, default=float("inf"))
    return (state for state in history.samples if state.at < end)


def _left_waiting(state: State) -> dict[Any, WaitingFacts]:
    """The gangs of idle clusters that certainly may start, by the key of the group."""
    simulated = {each["id"] for each in state.rows("pools_backend") if each["kind"] == "simulated"}
    idle = simulated - _busy_backends(state)
    return {
        facts.group["uuid"]: facts
        for facts in waiting_gangs(state)
        if facts.root["backend_id"] in idle
        and facts.group["status"] == "SCHEDULING"
        and not facts.offline
        and _has_quota(facts, state)
        and fits(facts, free_gpus(state, facts.root["backend_id"]), state)
    }


def _busy_backends(state: State) -> set[Any]:
    groups = {each["uuid"]: each["workflow_id"] for each in state.rows("scheduling_group")}
    roots = {each["uuid"]: each["root_pool_id"] for each in state.rows("scheduling_workflow")}
    backends = {each["id"]: each["backend_id"] for each in state.rows("pools_pool")}
    running = (task for task in state.rows("scheduling_task") if task["status"] == "RUNNING")
    return {backends[roots[groups[task["group_id"]]]] for task in running}


def _has_quota(facts: WaitingFacts, state: State) -> bool:
    """Whether nothing but other waiting work can be in the way of the gang."""
    need, maximum = facts.group["gpus"], facts.root["maximum"]
    if facts.leaf["subpool_state"] == "DELETING":
        return False
    if facts.workflow["priority"] != "LOW" and (
        0 <= facts.quota < facts.used + need or 0 <= facts.root_quota < facts.root_used + need
    ):
        return False
    if maximum is not None and 0 <= maximum < facts.total + need:
        return False
    if (facts.root.get("config") or {}).get("gpu_quota_namespace"):
        return False
    return facts.root["cohort_id"] is None or _cohort_allows(facts, state)


def _cohort_allows(facts: WaitingFacts, state: State) -> bool:
    """Whether the cohort certainly has the GPUs: a cohort alone, without parent and children. What others use may be
    borrowed from this pool; where nobody uses anything and nothing is limited, the pool may have all that they own."""
    need, guarantee = facts.group["gpus"], facts.root["guarantee"]
    cohorts = {each["id"]: each for each in state.rows("pools_cohort")}
    cohort = cohorts[facts.root["cohort_id"]]
    if guarantee is None or cohort["parent_id"] or any(each["parent_id"] == cohort["id"] for each in cohorts.values()):
        return False
    members = [each for each in state.rows("pools_pool") if each["cohort_id"] == cohort["id"]]
    used = _usage_of(members, state)
    if used + need <= guarantee:
        return True
    limits = [each[name] for each in members for name in ("borrowing_limit", "lending_limit")]
    owned = [each["guarantee"] for each in members]
    if used or None in owned or any(limit is not None for limit in limits):
        return False
    return bool(need <= sum(owned) + _nominal(cohort))


def _usage_of(roots: list[Row], state: State) -> int:
    names = {each["id"] for each in roots}
    leaves = {each["id"] for each in state.rows("pools_pool") if each["id"] in names or each["parent_id"] in names}
    return sum(each["total_usage"] for each in state.rows("pools_leafusage") if each["pool_id"] in leaves)


def _nominal(cohort: Row) -> int:
    return int((cohort["quotas"] or {}).get("default/gpu", {}).get("nominal") or 0)
