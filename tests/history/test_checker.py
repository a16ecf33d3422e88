"""Each promise of the checker: a right history passes, and each wrong one fails with the name of the promise."""

from __future__ import annotations

import ast
import copy
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.history import checker
from tests.history.checker import RULES, check_record, report, shortest_part
from tests.history.checker.history import History, Row
from tests.history.checker.pool_states import Leaf, PoolState, Timeline, started_attempts
from tests.history.checker.quotas import low_work_within_the_tree
from tests.history.checker.violations import Violation
from tests.history.record import build, write_lines
from tests.history.story import tell

Lines = list[dict[str, Any]]
Change = Callable[[Lines], None]

FAULTS: list[tuple[str, str, Change]] = []


def fault(rule: str) -> Callable[[Change], Change]:
    """A change of the right history that breaks this promise."""

    def add(change: Change) -> Change:
        FAULTS.append((rule, change.__name__, change))
        return change

    return add


# --- finding things in a record ---


def rows(lines: Lines, table: str, when: str = "final") -> list[dict[str, Any]]:
    return next(
        line["rows"] for line in lines if line["kind"] == "rows" and (line["when"], line["table"]) == (when, table)
    )


def one(lines: Lines, table: str, when: str = "final", **columns: Any) -> dict[str, Any]:
    return next(row for row in rows(lines, table, when) if all(row[key] == value for key, value in columns.items()))


def entry(lines: Lines, action: str, name: str) -> dict[str, Any]:
    return one(lines, "pools_auditentry", action=action, object=name)


def call(lines: Lines, method: str, path: str, number: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """The call of this number with this method and (end of the) path, and its answer."""
    found = [
        line
        for line in lines
        if line["kind"] == "call" and line["request"]["method"] == method and line["request"]["path"].endswith(path)
    ]
    answer = next(line for line in lines if line["kind"] in {"answer", "lost"} and line["id"] == found[number]["id"])
    return found[number], answer


def remove_entry(lines: Lines, action: str, name: str) -> None:
    rows(lines, "pools_auditentry").remove(entry(lines, action, name))


# --- quotas ---


@fault("quotas_promised_once")
def a_second_subpool_takes_the_same_gpus(lines: Lines) -> None:
    image = entry(lines, "subpool.created", "pool/team--b")["after"]
    image["last_quota"] = 8


@fault("quotas_promised_once")
def the_final_rows_promise_too_much(lines: Lines) -> None:
    one(lines, "pools_pool", name="team--a")["last_quota"] = 11


@fault("quotas_promised_once")
def a_sample_promises_too_much(lines: Lines) -> None:
    one(lines, "pools_pool", "sample", name="team--a")["last_quota"] = 11


@fault("quotas_promised_once")
def an_answer_promises_too_much(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool")
    answer["body"]["subpools"][0]["quota"] = 11


@fault("guaranteed_work_within_quota")
def a_gang_starts_above_the_quota_of_its_leaf(lines: Lines) -> None:
    entry(lines, "subpool.updated", "pool/team--a")["after"]["last_quota"] = 1


@fault("guaranteed_work_within_quota")
def a_gang_starts_above_the_quota_of_its_pool(lines: Lines) -> None:
    """It fits into the remainder, which grew when a running subpool lost its quota, and not into the pool."""
    resized = entry(lines, "subpool.updated", "pool/team--a")
    resized["after"]["last_quota"] = 0
    resized["_committed"] = entry(lines, "workflow.started", "workflow/h1-1")["_committed"] + 1
    entry(lines, "pool.created", "pool/team")["after"]["guarantee"] = 5
    one(lines, "scheduling_workflow", name="h3-1")["priority"] = "HIGH"


@fault("guaranteed_work_within_quota")
def low_work_starts_above_the_maximum(lines: Lines) -> None:
    entry(lines, "pool.created", "pool/team")["after"]["maximum"] = 3


@fault("nodes_hold_their_work")
def a_node_is_overbooked(lines: Lines) -> None:
    for when in ("start", "sample", "final"):
        one(lines, "pools_node", when)["gpus"] = 5


@fault("low_work_within_the_tree")
def low_work_borrows_more_than_the_pool_may(lines: Lines) -> None:
    _put_in_cohort(lines, nominal=20)
    one(lines, "pools_pool", name="team")["borrowing_limit"] = 0


@fault("low_work_within_the_tree")
def low_work_takes_more_than_the_cohort_has(lines: Lines) -> None:
    _put_in_cohort(lines, nominal=1)


def _put_in_cohort(lines: Lines, *, nominal: int) -> None:
    cohort = {"id": 1, "name": "org", "parent_id": None, "quotas": {"default/gpu": {"nominal": nominal}}, "version": 1}
    lines.insert(-2, {**lines[-3], "kind": "rows", "when": "final", "table": "pools_cohort", "rows": [cohort]})
    made = dict(
        entry(lines, "pool.created", "pool/team"), id=0, action="cohort.created", object="cohort/org", after=cohort
    )
    rows(lines, "pools_auditentry").append(made)
    one(lines, "pools_pool", name="team")["cohort_id"] = 1
    entry(lines, "pool.created", "pool/team")["after"]["guarantee"] = 4
    entry(lines, "subpool.updated", "pool/team--a")["after"]["last_quota"] = 4


# --- GPU quota ---


@fault("gpu_quota_never_over_its_cap")
def an_allocation_is_made_above_the_cap(lines: Lines) -> None:
    entry(lines, "gpu_allocation.committed", "gpu_allocation/x/a3")["after"]["request_tflops"] = 21


@fault("gpu_quota_never_over_its_cap")
def a_worker_too_many(lines: Lines) -> None:
    entry(lines, "gpu_quota.created", "gpu_quota/x")["after"]["spec"]["total"]["maxWorkers"] = 0


@fault("gpu_refusals_are_true")
def a_refusal_names_a_wrong_usage(lines: Lines) -> None:
    _, answer = call(lines, "POST", "/allocation", 1)
    answer["body"]["details"][0]["used"] = "16"


@fault("gpu_refusals_are_true")
def a_refusal_names_a_wrong_cap(lines: Lines) -> None:
    _, answer = call(lines, "POST", "/allocation", 1)
    answer["body"]["details"][0]["limit"] = "19"


@fault("gpu_reads_are_true")
def a_read_shows_an_old_usage(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/gpu_quota/x")
    answer["body"]["status"]["used"]["requests"]["tflops"] = "14"


# --- starts ---


@fault("nothing_starts_twice")
def a_gang_is_started_by_two_decisions(lines: Lines) -> None:
    decisions = rows(lines, "scheduling_decision")
    decisions.append(dict(decisions[0], id=99, time="another time"))


@fault("nothing_starts_twice")
def one_decision_is_written_twice(lines: Lines) -> None:
    decisions = rows(lines, "scheduling_decision")
    decisions.append(dict(decisions[0], id=99))


@fault("nothing_starts_twice")
def an_attempt_begins_before_the_one_before_it_ended(lines: Lines) -> None:
    one(lines, "scheduling_task", uuid="h3-1-t0-0")["_committed"] += 3_600_000_000


@fault("nothing_starts_twice")
def two_attempts_are_open(lines: Lines) -> None:
    one(lines, "scheduling_task", uuid="h3-1-t0-0")["status"] = "RUNNING"
    one(lines, "scheduling_task", uuid="h3-1-t0-1")["status"] = "SCHEDULING"


@fault("nothing_starts_twice")
def an_attempt_is_missing(lines: Lines) -> None:
    one(lines, "scheduling_task", uuid="h3-1-t0-0")["retry_id"] = 2


@fault("gangs_run_whole")
def half_a_gang_runs(lines: Lines) -> None:
    one(lines, "scheduling_task", "sample", uuid="h1-1-t1-0")["status"] = "SCHEDULING"


@fault("gangs_run_whole")
def a_task_of_a_waiting_gang_runs(lines: Lines) -> None:
    one(lines, "scheduling_task", uuid="h2-1-t0-0")["status"] = "RUNNING"


@fault("statuses_agree")
def a_workflow_says_that_it_runs(lines: Lines) -> None:
    one(lines, "scheduling_workflow", uuid="u-h2-1")["status"] = "RUNNING"


@fault("statuses_agree")
def a_workflow_waits_and_its_gang_runs(lines: Lines) -> None:
    one(lines, "scheduling_workflow", "sample", uuid="u-h1-1")["status"] = "PENDING"


@fault("statuses_agree")
def a_workflow_is_active_and_all_its_gangs_have_ended(lines: Lines) -> None:
    one(lines, "scheduling_group", uuid="g-h1-1")["status"] = "COMPLETED"


# --- answers ---


@fault("acknowledged_changes_are_kept")
def an_acknowledged_resize_was_lost(lines: Lines) -> None:
    """The last acknowledged change of the quota is nowhere."""
    remove_entry(lines, "subpool.updated", "pool/team--a")


@fault("acknowledged_changes_are_kept")
def an_acknowledged_subpool_was_lost(lines: Lines) -> None:
    remove_entry(lines, "subpool.created", "pool/team--a")


@fault("acknowledged_changes_are_kept")
def an_acknowledged_workflow_was_lost(lines: Lines) -> None:
    rows(lines, "scheduling_workflow").remove(one(lines, "scheduling_workflow", name="h2-1"))


@fault("acknowledged_changes_are_kept")
def an_acknowledged_cancellation_was_lost(lines: Lines) -> None:
    entry(lines, "workflow.canceled", "workflow/h3-1")["request_id"] = "elsewhere"


@fault("acknowledged_changes_are_kept")
def an_acknowledged_allocation_was_lost(lines: Lines) -> None:
    remove_entry(lines, "gpu_allocation.committed", "gpu_allocation/x/a3")


@fault("acknowledged_changes_are_kept")
def an_acknowledged_release_was_lost(lines: Lines) -> None:
    remove_entry(lines, "gpu_allocation.released", "gpu_allocation/x/a1")


@fault("acknowledged_changes_are_kept")
def an_acknowledged_deletion_was_lost(lines: Lines) -> None:
    remove_entry(lines, "subpool.archived", "pool/team--b")


@fault("acknowledged_changes_are_kept")
def an_acknowledged_gpu_quota_was_lost(lines: Lines) -> None:
    remove_entry(lines, "gpu_quota.created", "gpu_quota/x")


@fault("acknowledged_changes_are_kept")
def the_answer_has_another_quota_than_the_change(lines: Lines) -> None:
    _, answer = call(lines, "PATCH", "/subpool/a")
    answer["body"]["last_quota"] = 5


@fault("acknowledged_changes_are_kept")
def the_workflow_has_another_priority_than_asked_for(lines: Lines) -> None:
    entry(lines, "workflow.submitted", "workflow/h2-1")["after"]["priority"] = "LOW"


@fault("workflows_are_answered_once")
def two_submissions_have_the_same_answer(lines: Lines) -> None:
    _, first = call(lines, "POST", "priority=HIGH")
    _, second = call(lines, "POST", "priority=HIGH", 2)
    second["body"] = first["body"]


@fault("refused_calls_change_nothing")
def a_refused_resize_changed_something(lines: Lines) -> None:
    sent, _ = call(lines, "PATCH", "/subpool/a", 1)
    found = entry(lines, "subpool.updated", "pool/team--a")
    found["request_id"], found["actor"] = sent["id"], sent["user"]


@fault("refused_calls_change_nothing")
def a_dry_run_changed_something(lines: Lines) -> None:
    sent, _ = call(lines, "PATCH", "dry_run=True")
    entry(lines, "subpool.updated", "pool/team--a")["request_id"] = sent["id"]


@fault("refused_calls_change_nothing")
def a_call_that_promised_no_change_made_one(lines: Lines) -> None:
    _, answer = call(lines, "PATCH", "/subpool/a")
    answer["status"], answer["body"] = 503, {"message": "The database did not answer; nothing was changed, try again."}


@fault("calls_happen_entirely_or_not")
def half_of_a_batch_was_made(lines: Lines) -> None:
    remove_entry(lines, "workflow.submitted", "workflow/h4y-1")


@fault("calls_happen_entirely_or_not")
def one_call_made_two_transactions(lines: Lines) -> None:
    entry(lines, "workflow.submitted", "workflow/h4y-1")["transaction"] = "99"


@fault("calls_happen_entirely_or_not")
def a_workflow_without_a_gang(lines: Lines) -> None:
    rows(lines, "scheduling_group").remove(one(lines, "scheduling_group", uuid="g-h2-1"))


@fault("calls_happen_entirely_or_not")
def a_gang_has_no_attempt(lines: Lines) -> None:
    rows(lines, "scheduling_task").remove(one(lines, "scheduling_task", uuid="h2-1-t0-0"))


@fault("repeats_are_answered_alike")
def a_repeat_is_answered_differently(lines: Lines) -> None:
    _, answer = call(lines, "POST", "priority=HIGH", 1)
    answer["body"]["name"] = "h9-1"


@fault("repeats_are_answered_alike")
def a_repeat_is_done_again(lines: Lines) -> None:
    sent, _ = call(lines, "POST", "priority=HIGH", 1)
    again = dict(entry(lines, "workflow.submitted", "workflow/h2-1"), request_id=sent["id"])
    rows(lines, "pools_auditentry").append(dict(again, id=999))


@fault("repeats_are_answered_alike")
def a_repeat_is_no_replay(lines: Lines) -> None:
    _, answer = call(lines, "POST", "priority=HIGH", 1)
    answer["headers"] = {}


@fault("each_change_has_one_entry")
def one_change_has_two_entries(lines: Lines) -> None:
    found = entry(lines, "subpool.updated", "pool/team--a")
    again = dict(found, id=found["id"] + 1000, before=found["after"])
    rows(lines, "pools_auditentry").append(again)


# --- audit trail ---


@fault("audit_is_complete")
def a_row_was_changed_without_an_entry(lines: Lines) -> None:
    one(lines, "pools_pool", name="team--a")["last_quota"] = 5


@fault("audit_is_complete")
def an_entry_in_the_middle_is_missing(lines: Lines) -> None:
    remove_entry(lines, "workflow.waiting", "workflow/h3-1")


@fault("audit_is_complete")
def a_row_appeared_without_an_entry(lines: Lines) -> None:
    rows(lines, "pools_pool").append(dict(one(lines, "pools_pool", name="team--b"), id=77, name="team--z"))


@fault("audit_is_complete")
def a_row_disappeared_without_an_entry(lines: Lines) -> None:
    found = rows(lines, "pools_gpuallocation")
    found.remove(one(lines, "pools_gpuallocation", name="a1"))


@fault("audit_is_in_order")
def an_entry_was_committed_long_after_its_answer(lines: Lines) -> None:
    entry(lines, "gpu_quota.created", "gpu_quota/x")["_committed"] += 60_000_000


@fault("audit_is_in_order")
def an_entry_was_committed_before_its_call(lines: Lines) -> None:
    entry(lines, "gpu_quota.created", "gpu_quota/x")["_committed"] -= 60_000_000


@fault("audit_is_in_order")
def two_entries_are_in_another_order_than_their_commits(lines: Lines) -> None:
    entry(lines, "workflow.submitted", "workflow/h3-1")["_committed"] += 2_000_000


@fault("audit_is_in_order")
def two_entries_are_in_another_order_than_their_calls(lines: Lines) -> None:
    first, second = entry(lines, "subpool.created", "pool/team--a"), entry(lines, "subpool.updated", "pool/team--a")
    first["id"], second["id"] = second["id"], first["id"]
    first["_committed"] = second["_committed"] = None


@fault("versions_have_no_gap")
def a_version_was_skipped(lines: Lines) -> None:
    one(lines, "pools_pool", name="team--a")["version"] += 1


@fault("versions_have_no_gap")
def a_change_did_not_move_the_version(lines: Lines) -> None:
    one(lines, "pools_gpuquota")["version"] = 0


@fault("no_change_without_a_call")
def a_change_has_the_request_id_of_no_call(lines: Lines) -> None:
    entry(lines, "subpool.updated", "pool/team--a")["request_id"] = "unknown"


@fault("no_change_without_a_call")
def a_change_names_another_person(lines: Lines) -> None:
    entry(lines, "subpool.updated", "pool/team--a")["actor"] = "bob"


@fault("states_move_as_promised")
def an_archived_subpool_begins_to_drain(lines: Lines) -> None:
    entry(lines, "subpool.archived", "pool/team--b")["before"]["subpool_state"] = "ARCHIVED"
    entry(lines, "subpool.archived", "pool/team--b")["after"]["subpool_state"] = "DELETING"


@fault("states_move_as_promised")
def an_ended_workflow_starts_again(lines: Lines) -> None:
    entry(lines, "workflow.started", "workflow/h1-1")["before"]["status"] = "COMPLETED"


@fault("states_move_as_promised")
def an_archived_subpool_has_active_work(lines: Lines) -> None:
    one(lines, "pools_pool", name="team--a")["subpool_state"] = "ARCHIVED"


# --- counters ---


@fault("counters_equal_recounts")
def a_counter_of_a_leaf_is_wrong(lines: Lines) -> None:
    one(lines, "pools_leafusage", pool_id=2)["used"] += 1


@fault("counters_equal_recounts")
def a_counter_is_wrong_in_a_sample(lines: Lines) -> None:
    one(lines, "pools_leafusage", "sample", pool_id=2)["committed"] += 1


@fault("counters_equal_recounts")
def a_leaf_has_no_counters(lines: Lines) -> None:
    rows(lines, "pools_leafusage").remove(one(lines, "pools_leafusage", pool_id=3))


@fault("counters_equal_recounts")
def a_reservation_outlives_its_workflow(lines: Lines) -> None:
    held = dict(one(lines, "pools_reservation", workflow="u-h2-1"), workflow="u-h3-1", held_gpus=0, needed_gpus=0)
    rows(lines, "pools_reservation").append(held)


@fault("counters_equal_recounts")
def a_reservation_is_missing(lines: Lines) -> None:
    rows(lines, "pools_reservation").remove(one(lines, "pools_reservation", workflow="u-h4x-1"))


@fault("counters_equal_recounts")
def a_reservation_belongs_to_no_workflow(lines: Lines) -> None:
    rows(lines, "pools_reservation").append(dict(one(lines, "pools_reservation", workflow="u-h2-1"), workflow="gone"))


@fault("counters_equal_recounts")
def a_reservation_holds_more_than_its_tasks(lines: Lines) -> None:
    one(lines, "pools_reservation", workflow="u-h1-1")["held_gpus"] = 3


@fault("counters_equal_recounts")
def a_reservation_is_on_another_leaf(lines: Lines) -> None:
    one(lines, "pools_reservation", workflow="u-h1-1")["priority"] = "NORMAL"


@fault("counters_equal_recounts")
def a_counter_of_a_namespace_is_wrong(lines: Lines) -> None:
    one(lines, "pools_gpuusage")["requests_tflops"] += 1


@fault("counters_equal_recounts")
def a_namespace_has_no_counters(lines: Lines) -> None:
    rows(lines, "pools_gpuusage").clear()


# --- lists of everything ---


def pool_quota(lines: Lines) -> dict[str, Any]:
    """The answer about all pools."""
    body: dict[str, Any] = call(lines, "GET", "all_pools=True")[1]["body"]
    return body


@fault("pool_quotas_add_up")
def a_sum_is_not_that_of_its_rows(lines: Lines) -> None:
    pool_quota(lines)["resource_sum"]["quota_limit"] = "9"


@fault("pool_quotas_add_up")
def free_is_not_limit_minus_use(lines: Lines) -> None:
    for usage in (pool_quota(lines)["node_sets"][0]["pools"][0]["resource_usage"], pool_quota(lines)["resource_sum"]):
        usage["quota_free"] = str(int(usage["quota_free"]) + 1)


@fault("pool_quotas_add_up")
def pools_on_the_same_nodes_show_different_capacities(lines: Lines) -> None:
    pool_quota(lines)["node_sets"][0]["pools"][1]["resource_usage"]["total_capacity"] = "7"


@fault("pool_quotas_add_up")
def the_capacity_counts_each_pool(lines: Lines) -> None:
    pool_quota(lines)["resource_sum"]["total_capacity"] = "16"


def show_usage(lines: Lines, name: str, **numbers: int) -> None:
    """Change the numbers of one row and of the sums by this much, so that the answer agrees with itself."""
    body = pool_quota(lines)
    row = next(each for each in body["node_sets"][0]["pools"] if each["name"] == name)
    for usage in (row["resource_usage"], body["resource_sum"]):
        usage |= {key: str(int(usage[key]) + more) for key, more in numbers.items()}


@fault("pool_quotas_show_one_state")
def the_list_shows_an_old_quota(lines: Lines) -> None:
    """The subpool had 4 GPUs before it was resized to 6, so the remainder had 2 more."""
    show_usage(lines, "team--a", quota_limit=-2, quota_free=-2)
    show_usage(lines, "team", quota_limit=2, quota_free=2)
    assert check_record(build(lines), ["pool_quotas_add_up"]) == []


@fault("pool_quotas_show_one_state")
def the_list_shows_work_that_does_not_run(lines: Lines) -> None:
    show_usage(lines, "team--a", quota_used=1, quota_free=-1, total_usage=1)
    assert check_record(build(lines), ["pool_quotas_add_up"]) == []


@fault("pool_quotas_show_one_state")
def the_list_shows_an_archived_subpool(lines: Lines) -> None:
    rows_shown = pool_quota(lines)["node_sets"][0]["pools"]
    usage = dict.fromkeys(rows_shown[0]["resource_usage"], "0")
    rows_shown.append(dict(rows_shown[1], name="team--b", subpool_name="b", resource_usage=usage))


@fault("pool_quotas_show_one_state")
def the_list_shows_two_pools_at_two_moments(lines: Lines) -> None:
    """While the call waits, `team--a` is resized first, and another pool after that. The answer shows `team` before,
    and the other pool after: each of them was so, but never both."""
    sent, answer = call(lines, "GET", "all_pools=True")
    resized = dict(entry(lines, "subpool.updated", "pool/team--a"))
    resized["id"] += 1000
    resized["before"], resized["after"] = resized["after"], dict(resized["after"], last_quota=5)
    middle = (sent["t"] + answer["t"]) / 2e3 + 1.7e15 - lines[0]["t"] / 1e3
    sent["t"] -= 10_000_000_000
    resized["_committed"] = int(middle)
    one(lines, "pools_pool", name="team--a").update(last_quota=5, version=3)
    made = dict(entry(lines, "pool.created", "pool/team"), id=900, object="pool/other", _committed=int(middle) - 10**9)
    made["after"] = dict(made["after"], id=9, name="other", guarantee=1)
    changed = dict(made, id=1900, action="pool.updated", before=made["after"], _committed=int(middle) + 1_000_000)
    changed["after"] = dict(made["after"], guarantee=2)
    rows(lines, "pools_auditentry").extend([resized, made, changed])
    rows(lines, "pools_pool").append(dict(one(lines, "pools_pool", name="team"), id=9, name="other", guarantee=2))
    answer["t"] += 10_000_000_000
    usage = {"quota_used": "0", "quota_free": "2", "quota_limit": "2", "total_usage": "0"}
    shown = {"name": "other", "resource_usage": usage | {"total_capacity": "8", "total_free": "6"}}
    pool_quota(lines)["node_sets"][0]["pools"].append(shown)
    (found,) = check_record(build(lines), ["pool_quotas_show_one_state"])
    assert "not one of the other pools" in found.sentence


def audit_page(lines: Lines, limit: int = 4) -> list[dict[str, Any]]:
    """The entries of a page."""
    found: list[dict[str, Any]] = call(lines, "GET", f"/audit?limit={limit}")[1]["body"]["entries"]
    return found


@fault("audit_pages_are_true")
def a_page_leaves_out_an_entry(lines: Lines) -> None:
    """The next one takes its place."""
    shown = audit_page(lines)
    del shown[1]
    oldest = next(row for row in rows(lines, "pools_auditentry") if row["id"] == shown[-1]["id"] - 1)
    shown.append({key: oldest[key] for key in shown[0]})


@fault("audit_pages_are_true")
def a_user_does_not_see_an_own_entry(lines: Lines) -> None:
    del audit_page(lines, 99)[0]


@fault("audit_pages_are_true")
def a_page_shows_an_entry_twice(lines: Lines) -> None:
    shown = audit_page(lines)
    shown[2] = shown[1]


@fault("audit_pages_are_true")
def a_page_shows_too_much(lines: Lines) -> None:
    call(lines, "GET", "/audit?limit=4")[0]["request"]["path"] = "/api/audit?limit=3"


@fault("audit_pages_are_true")
def a_page_shows_an_entry_that_was_rolled_back(lines: Lines) -> None:
    audit_page(lines)[0]["id"] += 500


@fault("audit_pages_are_true")
def a_page_shows_another_actor(lines: Lines) -> None:
    audit_page(lines)[0]["actor"] = "eve"


@fault("audit_pages_are_true")
def a_page_shows_another_value(lines: Lines) -> None:
    audit_page(lines)[0]["after"]["status"] = "RUNNING"


@fault("audit_pages_are_true")
def a_page_is_silent_about_flavors_of_a_row(lines: Lines) -> None:
    _recorded(lines, audit_page(lines)[0])["after"]["flavors"] = ["fast"]


@fault("audit_pages_are_true")
def a_page_is_silent_about_the_flavors_that_a_row_lost(lines: Lines) -> None:
    images = _recorded(lines, next(each for each in audit_page(lines, 99) if each["before"] and each["after"]))
    images["before"]["flavors"], images["after"]["flavors"] = ["fast"], []


def _recorded(lines: Lines, shown: dict[str, Any]) -> dict[str, Any]:
    """The row of this shown entry, with images of its own."""
    found = next(row for row in rows(lines, "pools_auditentry") if row["id"] == shown["id"])
    found.update({column: found[column] and dict(found[column]) for column in ("before", "after")})
    return found


@fault("audit_pages_are_true")
def a_page_shows_an_entry_before_its_commit(lines: Lines) -> None:
    found = next(row for row in rows(lines, "pools_auditentry") if row["id"] == audit_page(lines)[0]["id"])
    found["_committed"] += 3_600_000_000


# --- waiting work ---


def queue(lines: Lines) -> list[dict[str, Any]]:
    return next(line["body"]["entries"] for line in lines if line["kind"] == "reading")


@fault("every_waiting_gang_has_one_true_reason")
def a_waiting_gang_is_not_in_the_queue(lines: Lines) -> None:
    queue(lines).pop(0)


@fault("every_waiting_gang_has_one_true_reason")
def a_waiting_gang_has_two_reasons(lines: Lines) -> None:
    queue(lines).append(dict(queue(lines)[0], position=4))


@fault("every_waiting_gang_has_one_true_reason")
def a_running_gang_is_in_the_queue(lines: Lines) -> None:
    queue(lines).append(dict(queue(lines)[0], workflow="h1-1", position=4))


@fault("every_waiting_gang_has_one_true_reason")
def two_gangs_have_one_position(lines: Lines) -> None:
    queue(lines)[1]["position"] = 1


@fault("every_waiting_gang_has_one_true_reason")
def a_reason_has_a_wrong_number(lines: Lines) -> None:
    queue(lines)[0]["reason"]["missing"] = 2


@fault("every_waiting_gang_has_one_true_reason")
def a_reason_asks_for_less_than_the_gang(lines: Lines) -> None:
    queue(lines)[0]["reason"].update(requested=4, missing=0)


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_waits_for_a_quota_that_is_free(lines: Lines) -> None:
    queue(lines)[1]["reason"]["code"] = "over_quota"


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_above_its_quota_waits_for_nodes(lines: Lines) -> None:
    queue(lines)[0]["reason"]["code"] = "no_room"


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_waits_for_nodes_that_are_free(lines: Lines) -> None:
    one(lines, "pools_node")["gpus"] = 100


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_waits_for_a_pass_that_does_not_come(lines: Lines) -> None:
    queue(lines)[1]["reason"]["code"] = "next_pass"


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_waits_for_groups_that_it_does_not_have(lines: Lines) -> None:
    queue(lines)[1]["reason"]["code"] = "waiting_for_groups"


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_that_waits_for_groups_names_nodes(lines: Lines) -> None:
    one(lines, "scheduling_group", uuid="g-h4x-1")["status"] = "WAITING"


@fault("every_waiting_gang_has_one_true_reason")
def a_backend_that_is_online_is_called_offline(lines: Lines) -> None:
    queue(lines)[1]["reason"]["code"] = "backend_offline"


@fault("every_waiting_gang_has_one_true_reason")
def a_gang_asks_for_another_number(lines: Lines) -> None:
    queue(lines)[1]["gpus"] = 7


@fault("every_waiting_gang_has_one_true_reason")
def a_reason_says_nothing(lines: Lines) -> None:
    queue(lines)[1]["reason"]["message"] = ""


# --- liveness ---


def stop_running_work(lines: Lines, when: str) -> None:
    """Nothing runs in this state, and the counters say so."""
    for task in rows(lines, "scheduling_task", when):
        if task["status"] == "RUNNING":
            task["status"] = "COMPLETED"
    for usage in rows(lines, "pools_leafusage", when):
        usage.update(used=0, total_usage=0)


def repeat_sample(lines: Lines, *seconds: float) -> None:
    """The sample was read again, each time this number of seconds later."""
    first = [line for line in lines if line["kind"] == "rows" and line["when"] == "sample"]
    place = lines.index(first[-1]) + 1
    for number, later in enumerate(seconds, 2):
        again = [dict(copy.deepcopy(line), sample=number, t=line["t"] + round(later * 1e9)) for line in first]
        lines[place:place] = again
        place += len(again)


@fault("nothing_waits_on_an_idle_cluster")
def a_gang_waits_at_rest_and_nothing_runs(lines: Lines) -> None:
    stop_running_work(lines, "final")


@fault("nothing_waits_on_an_idle_cluster")
def a_gang_of_a_cohort_waits_at_rest_and_nothing_runs(lines: Lines) -> None:
    stop_running_work(lines, "final")
    _put_in_cohort(lines, nominal=4)
    one(lines, "pools_pool", name="team")["guarantee"] = 4


@fault("nothing_waits_on_an_idle_cluster")
def samples_see_a_gang_wait_on_an_idle_cluster(lines: Lines) -> None:
    stop_running_work(lines, "sample")
    repeat_sample(lines, 2, 70, 125)


@fault("nothing_is_stuck")
def the_last_cycle_left_a_gang_stuck(lines: Lines) -> None:
    found = {"group_id": "g-h4x-1", "backend_id": 1, "gang": "h4x-1", "kind": "idle_cluster", "since": ""}
    lines.insert(-2, {**lines[-3], "kind": "rows", "when": "final", "table": "scheduling_stuckgroup", "rows": [found]})


@fault("nothing_is_stuck")
def a_cycle_left_a_gang_stuck_for_a_while(lines: Lines) -> None:
    found = {"group_id": "g-h4x-1", "backend_id": 1, "gang": "h4x-1", "kind": "behind_later_work", "since": ""}
    last = [number for number, line in enumerate(lines) if line["kind"] == "rows" and line["when"] == "sample"][-1]
    lines.insert(last, {**lines[last], "table": "scheduling_stuckgroup", "rows": [found]})


@fault("nothing_is_stuck")
def a_verification_finds_a_stuck_gang(lines: Lines) -> None:
    body = ["stuck: h4x-1 waits although nothing runs on cluster one, where it fits: this is a defect."]
    reading = {"when": "final", "name": "verify", "path": None, "status": 200, "body": body}
    lines.insert(-1, {"n": lines[-1]["n"], "t": lines[-1]["t"], "kind": "reading", **reading})


# --- reads ---


@fault("answers_agree_with_themselves")
def the_parts_do_not_add_up(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool")
    answer["body"]["shared"]["quota"] += 1
    answer["body"]["shared"]["available"] += 1


@fault("answers_agree_with_themselves")
def available_is_not_quota_minus_use(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool", 1)
    answer["body"]["subpools"][0]["available"] += 1


@fault("answers_agree_with_themselves")
def a_total_is_below_its_part(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool", 1)
    answer["body"]["subpools"][0]["total_usage"] = 0


@fault("answers_agree_with_themselves")
def an_archived_subpool_has_a_quota(lines: Lines) -> None:
    _, answer = call(lines, "DELETE", "/subpool/b")
    answer["body"]["quota"] = answer["body"]["available"] = 2


@fault("answers_agree_with_themselves")
def the_usage_of_a_pool_is_not_that_of_its_leaves(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/quota_tree")
    answer["body"]["nodes"][0]["quotas"][0]["usage"] += 1


@fault("reads_show_one_state")
def a_list_mixes_two_states(lines: Lines) -> None:
    """Use of one moment with the quota of another: each was right once, both never together."""
    _, answer = call(lines, "GET", "/subpool", 1)
    part = answer["body"]["subpools"][0]
    part.update(last_quota=4, quota=4, version=1, available=4 - part["used"])
    answer["body"]["shared"].update(quota=6, available=6)
    answer["body"]["unallocated"] = 6


@fault("reads_show_one_state")
def a_read_shows_work_that_was_not_there(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool", 1)
    answer["body"]["subpools"][0]["live_workflows"] = 2


@fault("reads_show_one_state")
def a_read_hides_a_subpool(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool", 1)
    answer["body"].update(subpools=[], unallocated=10, shared=dict(answer["body"]["shared"], quota=10, available=10))


@fault("reads_never_go_back")
def a_read_shows_an_older_version_than_was_acknowledged(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/subpool")
    answer["body"]["subpools"][0].update(version=1)


@fault("workflow_reads_are_true")
def a_cancelled_workflow_still_runs(lines: Lines) -> None:
    _, answer = call(lines, "GET", "/workflow/h3-1", 1)
    answer["body"]["status"] = "RUNNING"


@fault("quota_refusals_are_true")
def a_refusal_names_a_wrong_rest(lines: Lines) -> None:
    _, answer = call(lines, "PATCH", "/subpool/a", 1)
    answer["body"]["details"][0]["free"] = 9


@fault("quota_refusals_are_true")
def a_quota_that_fits_is_refused(lines: Lines) -> None:
    _, answer = call(lines, "PATCH", "/subpool/a", 1)
    answer["body"]["details"][0]["requested"] = 10


@fault("quota_refusals_are_true")
def a_version_that_was_right_is_refused(lines: Lines) -> None:
    sent, _ = call(lines, "PATCH", "/subpool/a", 2)
    sent["request"]["if_match"] = '"2"'


@fault("an_order_of_calls_exists")
def a_write_does_not_build_on_the_one_before_it(lines: Lines) -> None:
    _, answer = call(lines, "PATCH", "/subpool/a")
    answer["body"]["version"] = 3


@fault("an_order_of_calls_exists")
def a_subpool_is_deleted_before_it_was_made(lines: Lines) -> None:
    """The creation got no answer, so it may have happened or not; a version of 3 needs one more change."""
    _, answer = call(lines, "DELETE", "/subpool/b")
    answer["body"]["version"] = 3


def add_pods(lines: Lines, *tasks: str, seen: Sequence[str] = ()) -> None:
    """The reading of a cluster in which these attempts have a running pod each; `seen` had one earlier."""
    pods = [
        {"uid": f"u{n}", "name": f"pod-{n}", "task": task, "phase": "Running", "is_deleted": False}
        for n, task in enumerate((*tasks, *seen))
    ]
    body = {"pods": pods[: len(tasks)], "seen": pods}
    last = lines[-1]
    lines.append(
        {"n": last["n"] + 1, "t": last["t"], "kind": "reading", "when": "final", "name": "cluster", "path": None,
         "status": 200, "body": body}
    )  # fmt: skip


@fault("pods_belong_to_attempts")
def an_attempt_had_two_pods(lines: Lines) -> None:
    task = one(lines, "scheduling_task", status="RUNNING")["uuid"]
    add_pods(lines, task, seen=[task])


@fault("pods_belong_to_attempts")
def a_pod_of_an_ended_attempt_runs(lines: Lines) -> None:
    ended = (each["uuid"] for each in rows(lines, "scheduling_task") if each["status"].startswith("FAILED"))
    add_pods(lines, next(ended))


@fault("pods_belong_to_attempts")
def a_pod_is_for_no_attempt(lines: Lines) -> None:
    add_pods(lines, "nobody")


@fault("ended_attempts_have_receipts")
def a_preempted_attempt_has_no_receipt(lines: Lines) -> None:
    rows(lines, "scheduling_receipt").pop()


@fault("ended_attempts_have_receipts")
def an_attempt_has_two_receipts(lines: Lines) -> None:
    found = rows(lines, "scheduling_receipt")
    found.append(dict(found[0]))


@fault("ended_attempts_have_receipts")
def a_running_attempt_has_a_receipt(lines: Lines) -> None:
    found = rows(lines, "scheduling_receipt")
    found.append(found[0] | {"task_id": one(lines, "scheduling_task", status="RUNNING")["uuid"]})


@fault("ended_attempts_have_receipts")
def a_receipt_was_written_later(lines: Lines) -> None:
    rows(lines, "scheduling_receipt")[0]["_committed"] += 10**9


# --- the tests ---


def test_a_right_history_keeps_every_promise(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    write_lines(path, tell())

    assert checker.check(path) == []
    text, is_right = report(build(tell()))
    assert is_right
    assert "an order exists in which every answer was right" in text


def test_an_entry_may_be_silent_about_flavors_that_a_row_does_not_have() -> None:
    lines = tell()
    for row in rows(lines, "pools_auditentry"):
        for image in (row["before"], row["after"]):
            if image is not None:
                image |= {"flavors": [], "gpu_flavors": [], "flavor": "default"}
    for shown in audit_page(lines, 99):
        shown.update({column: shown[column] and _without_flavors(shown[column]) for column in ("before", "after")})

    assert check_record(build(lines), ["audit_pages_are_true"]) == []


def _without_flavors(image: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in image.items() if key not in {"flavors", "gpu_flavors", "flavor"}}


@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_history_breaks_its_promise(rule: str) -> None:
    changes = {name: change for broken, name, change in FAULTS if broken == rule}
    assert changes, f"{rule} has no wrong history"
    for name, change in changes.items():
        lines = tell()
        change(lines)
        found = check_record(build(lines), [rule])
        assert found, f"{rule} found nothing in {name}"
        assert {each.rule for each in found} == {rule}, name


def test_every_wrong_history_breaks_a_promise() -> None:
    assert {rule for rule, _, _ in FAULTS} <= set(RULES)


ONE_OF_EACH = {rule: change for rule, _, change in reversed(FAULTS)}


@pytest.mark.parametrize("rule", RULES)
def test_the_shortest_part_shows_the_same_violation(rule: str) -> None:
    lines = tell()
    ONE_OF_EACH[rule](lines)
    record = build(lines)
    violation = check_record(record, [rule])[0]

    part = shortest_part(record, violation)

    assert len(part.operations) <= 3
    found = [(each.rule, each.subject, each.events[:1]) for each in check_record(part, [rule])]
    assert (violation.rule, violation.subject, violation.events[:1]) in found


def test_a_report_is_one_sentence_and_the_events_in_order() -> None:
    lines = tell()
    a_list_mixes_two_states(lines)

    text, is_right = report(build(lines))

    assert not is_right
    first = text.split("\n\n")[0].splitlines()
    assert first[0] == "reads_show_one_state: pool/team"
    assert "a: last_quota 4 and not 6" in first[1]
    assert any("GET /api/configs/pool/team/subpool → 200" in line for line in first)
    assert any("fault 1 kill (begin) worker 1" in line for line in first)


def test_one_transaction_moves_the_gpus_of_a_cohort_from_one_pool_to_another() -> None:
    """Between its two halves both pools together seem to have more than the cohort shares: a state that never was."""

    def state(root: int, used: int, begin: float, *started: tuple[str, str, str]) -> PoolState:
        return PoolState(root, f"p{root}", 5, -1, 1, False, {"": Leaf("", total=used)}, begin, started=started)

    def found(preempted_at: float) -> list[Violation]:
        timelines = {
            1: Timeline([state(1, 5, 0.0), state(1, 6, 2.0, ("", "LOW", "new-1"))]),
            2: Timeline([state(2, 5, 0.0), state(2, 4, preempted_at)]),
        }
        pool = {"cohort_id": 1, "borrowing_limit": None, "lending_limit": None}
        history = SimpleNamespace(
            pools={1: pool, 2: pool}, simulated_roots={1, 2}, entries_by_row={}, once=lambda _: timelines,
            rows=lambda _: [{"id": 1, "name": "org", "parent_id": None}],
        )  # fmt: skip
        return list(low_work_within_the_tree(cast("History", history)))

    assert found(2.0) == []
    assert [each.subject for each in found(3.0)] == ["p1"]


def test_a_task_that_starts_and_moves_in_one_cycle_holds_its_gpus_from_the_start() -> None:
    """Both decisions have the time of the cycle, and each attempt has its own."""

    def attempt(retry: int, status: str) -> Row:
        task = {"group_id": "g", "name": "t", "retry_id": retry, "status": status, "start_time": "now"}
        return {**task, "_committed": 7 + retry, "_xid": str(7 + retry)}

    def decision(number: int, action: str, at: int) -> Row:
        common = {"group_id": "g", "tasks": ["t"], "time": "now"}
        return {**common, "id": number, "action": action, "_committed": at, "_xid": str(at)}

    tables: dict[str, list[Row]] = {
        "scheduling_group": [{"uuid": "g", "workflow_id": "w"}],
        "scheduling_workflow": [{"uuid": "w"}],
        "scheduling_decision": [decision(2, "move", 7), decision(1, "start", 5)],
        "scheduling_task": [attempt(1, "RUNNING"), attempt(0, "FAILED_PREEMPTED")],
    }
    history = SimpleNamespace(rows=tables.__getitem__, commit_time=lambda at: at)
    found = started_attempts(cast("History", history))
    assert [(each.begin, each.end) for each in found] == [(5, 7), (7, math.inf)]


def test_a_pause_of_the_scheduler_is_no_fault() -> None:
    """A gang waits although the cluster is idle for less than the bound, and then runs; or it may not start at all."""
    paused = tell()
    stop_running_work(paused, "sample")
    repeat_sample(paused, 2, 100)
    assert check_record(build(paused), ["nothing_waits_on_an_idle_cluster"]) == []
    for table, values in [
        ("pools_backend", {"offline": True}),
        ("pools_pool", {"last_quota": 4}),
        ("pools_pool", {"maximum": 4}),
        ("pools_node", {"gpus": 4}),
    ]:
        lines = tell()
        stop_running_work(lines, "sample")
        for each in rows(lines, table, "sample"):
            each.update(values)
        repeat_sample(lines, 200)
        assert check_record(build(lines), ["nothing_waits_on_an_idle_cluster"]) == [], table


def test_samples_after_a_shifted_clock_of_beat_say_nothing_about_the_scheduler() -> None:
    """Its periodic tasks may not come for a day, and a flushed broker has lost the notification."""
    lines = tell()
    samples_see_a_gang_wait_on_an_idle_cluster(lines)
    first = next(line for line in lines if line["kind"] == "rows" and line["when"] == "sample")
    shift = {"kind": "fault", "fault": 1, "name": "shift_clock", "phase": "begin", "target": "beat-1", "step": 1}
    lines.insert(lines.index(first), {"n": first["n"], "t": first["t"], **shift})
    assert check_record(build(lines), ["nothing_waits_on_an_idle_cluster"]) == []


def _imported_names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_checker_shares_no_code_with_the_product() -> None:
    """The standard library, the checker itself and the format of the record; nothing else."""
    folder = Path(checker.__file__).parent
    files = [*folder.glob("*.py"), folder.parent / "record.py"]
    for file in files:
        for name in _imported_names(file):
            is_own = name.startswith(("tests.history.checker", "tests.history.record"))
            assert is_own or name.partition(".")[0] in sys.stdlib_module_names, f"{file.name} imports {name}"
