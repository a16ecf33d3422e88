"""The checker: it decides from a record alone whether an order exists in which every answer was right.

    violations = check(Path("record.jsonl"))     # [] if every promise was kept

It shares no code with the product: `tests.history.record` and the standard library only. The order that it looks for is
the one that the record proposes (the commits of the audit trail and of the final rows); each rule is one promise of the
documentation, computed from scratch. `python -m tests.history.checker RECORD` prints what is wrong, as short as it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.history.checker import (
    answers,
    audit_trail,
    counters,
    gpu_quotas,
    listings,
    liveness,
    pods,
    quotas,
    reads,
    receipts,
    registers,
    starts,
    waiting,
)
from tests.history.checker.history import History
from tests.history.checker.shrink import Shrinker, describe
from tests.history.checker.violations import Violation
from tests.history.record import Record, load

Rule = Callable[[History], Iterator[Violation]]

RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        quotas.quotas_promised_once,
        quotas.guaranteed_work_within_quota,
        quotas.nodes_hold_their_work,
        quotas.low_work_within_the_tree,
        gpu_quotas.gpu_quota_never_over_its_cap,
        gpu_quotas.gpu_refusals_are_true,
        gpu_quotas.gpu_reads_are_true,
        starts.nothing_starts_twice,
        starts.gangs_run_whole,
        starts.statuses_agree,
        pods.pods_belong_to_attempts,
        receipts.ended_attempts_have_receipts,
        answers.acknowledged_changes_are_kept,
        answers.workflows_are_answered_once,
        answers.refused_calls_change_nothing,
        answers.calls_happen_entirely_or_not,
        answers.repeats_are_answered_alike,
        answers.each_change_has_one_entry,
        audit_trail.audit_is_complete,
        audit_trail.audit_is_in_order,
        audit_trail.versions_have_no_gap,
        audit_trail.no_change_without_a_call,
        audit_trail.states_move_as_promised,
        counters.counters_equal_recounts,
        waiting.every_waiting_gang_has_one_true_reason,
        liveness.nothing_waits_on_an_idle_cluster,
        liveness.nothing_is_stuck,
        reads.answers_agree_with_themselves,
        reads.reads_show_one_state,
        reads.reads_never_go_back,
        reads.workflow_reads_are_true,
        reads.quota_refusals_are_true,
        listings.pool_quotas_add_up,
        listings.pool_quotas_show_one_state,
        listings.audit_pages_are_true,
        registers.an_order_of_calls_exists,
    )
}
"""Every promise by its name."""

__all__ = ["RULES", "Violation", "check", "check_record", "report", "shortest_part"]


def check(path: Path) -> list[Violation]:
    """Everything that the record in this file shows to be wrong."""
    return check_record(load(path))


def check_record(record: Record, rules: Iterable[str] = RULES) -> list[Violation]:
    """The violations of these rules."""
    history = History(record)
    return [violation for name in rules for violation in RULES[name](history)]


def shortest_part(record: Record, violation: Violation) -> Record:
    """The smallest part of the record that still shows the violation."""
    return Shrinker(record, violation, lambda part: check_record(part, [violation.rule])).shrink()


def report(record: Record, *, shown: int = 10) -> tuple[str, bool]:
    """A text for a reader, and whether every promise was kept. The first violation of each rule is shown with the
    shortest part of the record that proves it; the others are counted."""
    found = check_record(record)
    if not found:
        return (
            f"{len(record.operations)} calls, {len(RULES)} promises: an order exists in which every answer was right.",
            True,
        )
    first: dict[str, Violation] = {}
    for violation in found:
        first.setdefault(violation.rule, violation)
    parts = [describe(shortest_part(record, each), each) for each in list(first.values())[:shown]]
    numbers = Counter(violation.rule for violation in found)
    summary = ", ".join(f"{rule} {number}" for rule, number in numbers.items())
    return "\n\n".join([*parts, f"{len(found)} violations: {summary}"]), False
