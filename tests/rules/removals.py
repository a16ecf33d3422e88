"""The rules of the five designs as they stand in the code, each with the change that removes it and the test that then
fails.

`code` occurs exactly once in `file`. Rules that the database holds (constraints and triggers) are in
`database_rules.py`; the planted faults of `tests/history` switch some of them off in a running installation.
"""

from __future__ import annotations

from dataclasses import dataclass

SUBPOOLS = "dynamic subpools"
SCHEDULING = "scheduling"
GANGS = "minSubGroup"
COHORTS = "hierarchical cohorts"
GPU_QUOTA = "namespaced GPU quota"
OURS = "our own decisions"


@dataclass(frozen=True, slots=True)
class Removal:
    """One rule. `decision` is its number in the design, `test` the test that fails without it."""

    design: str
    decision: str
    rule: str
    file: str
    code: str
    without: str
    test: str


_NAMES = "pools/domain/names.py"
_BALANCE = "pools/domain/quota/pool_balance.py"
_TREE = "pools/domain/quota/tree.py"
_ADMISSION = "scheduling/domain/judgement/admission.py"
_GATES = "scheduling/domain/engine/rules/gates.py"
_PHASES = "scheduling/domain/engine/rules/phases.py"
_RECORDS = "scheduling/domain/engine/state/records.py"
_STATE = "scheduling/domain/engine/state/world_state.py"
_VICTIMS = "scheduling/domain/engine/rules/victims.py"
_PODGROUP = "scheduling/domain/judgement/podgroup_rules.py"
_CAPS = "pools/domain/gpu_quota/checks.py"
_TEST_NAMES = "tests/unit/ledger/test_names.py"
_TEST_BALANCE = "tests/unit/ledger/test_pool_balance.py"
_TEST_ADMISSION = "tests/unit/scheduling/test_admission.py"
_TEST_TREE = "tests/unit/quota/test_worked_examples.py"
_TEST_GATES = "tests/unit/engine/test_gates_and_order.py"
_TEST_PODGROUP = "tests/unit/podgroup/test_validate.py"
_TEST_CAPS = "tests/unit/gpu_quota/test_checks.py"
_TEST_CAP_STATUS = "tests/unit/gpu_quota/test_status.py"
_TEST_PLAN = "tests/unit/podgroup/test_plan.py"
_TEST_SEED = "tests/unit/engine/test_seed_examples.py"
_TEST_RECLAIM = "tests/unit/engine/test_reclaim.py"
_TEST_QUEUES = "tests/unit/queues/test_desired.py"
_CAP_STATUS = "pools/domain/gpu_quota/status.py"
_GANG = "scheduling/domain/gang.py"
_ROLES = "pools/domain/people/roles.py"

REMOVALS = (
    Removal(
        SUBPOOLS, "D1", "a name has no --", _NAMES,
        "elif SEPARATOR in name:", "elif False:", f"{_TEST_NAMES}::test_names",
    ),
    Removal(
        SUBPOOLS, "D1", "a name has lower-case letters, digits and hyphens, a letter first", _NAMES,
        "elif not _SHORT_NAME.match(name):", "elif False:", f"{_TEST_NAMES}::test_names",
    ),
    Removal(
        SUBPOOLS, "D1", "the longest derived name has at most 63 characters", _NAMES,
        "if len(derived) > LABEL_LIMIT:", "if False:", f"{_TEST_NAMES}::test_names",
    ),
    Removal(
        SUBPOOLS, "D1", "names that begin with _ are reserved", _NAMES,
        'if name.startswith("_"):', "if False:", f"{_TEST_NAMES}::test_names",
    ),
    Removal(
        SUBPOOLS, "D2", "the object of the shared queue has no _", _NAMES,
        'return queue.replace(f"{SEPARATOR}_", f"{SEPARATOR}-")', "return queue", f"{_TEST_NAMES}::test_queue_names",
    ),
    Removal(
        SUBPOOLS, "D3", "a subpool with active work drains", "pools/domain/subpool_lifecycle.py",
        "return SubpoolState.DELETING if live_workflows else SubpoolState.ARCHIVED", "return SubpoolState.ARCHIVED",
        "tests/unit/ledger/test_lifecycle.py::test_a_delete_drains_active_work",
    ),
    Removal(
        SUBPOOLS, "D8", "an archived subpool can be recreated", "pools/domain/subpool_lifecycle.py",
        '    SubpoolTransition(SubpoolState.ARCHIVED, SubpoolState.ACTIVE, "recreate"),\n', "",
        "tests/unit/ledger/test_lifecycle.py::test_exactly_the_designed_steps_are_allowed",
    ),
    Removal(
        SUBPOOLS, "D4", "a draining subpool has quota 0 in accounting", _BALANCE,
        "return last_quota if state is SubpoolState.ACTIVE else 0", "return last_quota",
        f"{_TEST_BALANCE}::test_the_quotas_for_the_scheduler",
    ),
    Removal(
        SUBPOOLS, "D4", "a draining subpool keeps the quota that its work needs, at most its last", _BALANCE,
        "return min(self.last_quota, self.usage.committed)", "return self.usage.committed",
        f"{_TEST_BALANCE}::test_the_quotas_for_the_scheduler",
    ),
    Removal(
        SUBPOOLS, "D4", "the shared queue has what all other leaves leave", _BALANCE,
        "return max(0, self.guarantee - sum(part.scheduling_quota for part in self.subpools))",
        "return self.unallocated", f"{_TEST_BALANCE}::test_the_quotas_for_the_scheduler",
    ),
    Removal(
        SUBPOOLS, "D7", "a quota is rounded down", _BALANCE, "gpus = math.floor(exact)", "gpus = math.ceil(exact)",
        f"{_TEST_BALANCE}::test_quotas_are_whole_gpus_floored",
    ),
    Removal(
        SUBPOOLS, "D7", "a quota is not negative", _BALANCE, "if number < 0:", "if False:",
        f"{_TEST_BALANCE}::test_an_invalid_quota_is_refused_with_a_message",
    ),
    Removal(
        SUBPOOLS, "D7", "the quotas of the subpools stay within the pool", _BALANCE, "if quota <= free:", "if True:",
        f"{_TEST_BALANCE}::test_a_subpool_gets_at_most_the_unallocated_quota",
    ),
    Removal(
        SUBPOOLS, "D7", "a pool is not reduced below its subpools", _BALANCE,
        "if guarantee >= balance.allocated:", "if True:",
        f"{_TEST_BALANCE}::test_a_guarantee_is_never_below_its_subpools",
    ),
    Removal(
        SUBPOOLS, "D6", "a subpool that is not ACTIVE takes no work", _ADMISSION,
        "if leaf.state not in {None, SubpoolState.ACTIVE}:", "if False:",
        f"{_TEST_ADMISSION}::test_a_closed_pool_is_closed_to_every_priority",
    ),
    Removal(
        SUBPOOLS, "D6", "a pool in maintenance takes work of osmo-admin only", _ADMISSION,
        "if leaf.maintenance and not ignores_maintenance:", "if False:",
        f"{_TEST_ADMISSION}::test_a_closed_pool_is_closed_to_every_priority",
    ),
    Removal(
        SUBPOOLS, "D5", "a gang above the maximum is refused", _ADMISSION,
        "if requested > limits.maximum:", "if False:", f"{_TEST_ADMISSION}::test_quota_and_maximum",
    ),
    Removal(
        SUBPOOLS, "D6", "HIGH and NORMAL work above the quota of its leaf is refused", _ADMISSION,
        "elif not priority.is_preemptible and requested > limits.quota:", "elif False:",
        f"{_TEST_ADMISSION}::test_quota_and_maximum",
    ),
    Removal(
        COHORTS, "D6", "a gang that the cohort tree could never hold is refused", _ADMISSION,
        "elif limits.tree is not None and requested > limits.tree.gpus:", "elif False:",
        f"{_TEST_ADMISSION}::test_a_gang_that_the_idle_tree_cannot_hold_is_refused",
    ),
    Removal(
        SUBPOOLS, "D6", "HIGH and NORMAL work starts within the quota of every node above it", _ADMISSION,
        "if not priority.is_preemptible and gate.used + gpus > gate.quota:", "if False:",
        f"{_TEST_ADMISSION}::test_start",
    ),
    Removal(
        SUBPOOLS, "D6", "all work starts within the maximum", _ADMISSION,
        "if gate.total_usage + gpus > gate.maximum:", "if False:", f"{_TEST_ADMISSION}::test_start",
    ),
    Removal(
        SCHEDULING, "limit", "the engine starts nothing above a limit", _GATES,
        "if above.alloc[r] + amount > above.limit[r]:", "if False:",
        f"{_TEST_GATES}::test_the_gate_checks_the_pods_of_one_attempt",
    ),
    Removal(
        SCHEDULING, "quota", "the engine starts non-preemptible work within quota", _GATES,
        "if not preemptible and above.non_preemptible[r] + amount > above.quota[r]:", "if False:",
        f"{_TEST_GATES}::test_amounts_are_exact",
    ),
    Removal(
        SCHEDULING, "preemption", "only work of lower priority of the same leaf is preempted",
        _PHASES,
        "return other.preemptible and other.queue is queue and other.fact.priority < priority",
        "return other.preemptible and other.queue is queue",
        "tests/unit/engine/test_eviction.py::test_a_preemption_moves_only_lower_priorities_of_its_own_leaf",
    ),
    Removal(
        SCHEDULING, "D11", "a preempted task has exit code 3006", "scheduling/domain/statuses.py",
        "TaskStatus.FAILED_PREEMPTED: 3006,", "TaskStatus.FAILED_PREEMPTED: 1,",
        "tests/unit/scheduling/test_statuses.py::test_every_end_of_a_task_is_finished_and_none_before_it",
    ),
    Removal(
        COHORTS, "available", "work starts only while the tree has quota left", _GATES,
        "return all(amount <= world.columns[r].available(queue.column) for r, amount in request)", "return True",
        f"{_TEST_GATES}::test_under_a_cohort_every_leaf_is_bounded_by_the_tree",
    ),
    Removal(
        COHORTS, "lending limit", "a node keeps what it does not lend", _TREE,
        "self.local[x] = max(0, self.subtree[x] - lending)", "self.local[x] = 0",
        f"{_TEST_TREE}::test_example_a_states",
    ),
    Removal(
        COHORTS, "borrowing limit", "a node borrows at most its limit", _TREE,
        "most = min(most, room_below + self._own_bound(x))", "pass",
        f"{_TEST_TREE}::test_story_1_production_borrows_from_research_and_not_the_reverse",
    ),
    Removal(
        COHORTS, "D12", "a tree with a cycle starts nothing new", _TREE,
        "return self.index[name] not in self.cyclic_indexes", "return True",
        "tests/unit/quota/test_worked_examples.py::test_a_cycle_admits_nothing_there_and_never_hangs",
    ),
    Removal(
        COHORTS, "D12", "a parent that would close a cycle is refused", "pools/domain/quota/rules.py",
        "        if parent == name:\n            return path\n", "",
        "tests/unit/quota/test_rules.py::test_the_whole_cycle_is_named",
    ),
    Removal(
        COHORTS, "debt", "usage beyond a reduced limit is debt", _TREE,
        "return 0 if allowed == UNLIMITED else max(0, -(self.balance(x) + allowed))", "return 0",
        f"{_TEST_TREE}::test_example_b_a_tighter_lending_limit_creates_a_debt_and_evicts_no_work",
    ),
    Removal(
        GANGS, "D13", "only one of the two minimums may be set", _PODGROUP,
        "if sub_group is not None and (member or 0) > 0:", "if False:", f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "a minimum is at least 1", _PODGROUP,
        "if sub_group is not None and sub_group <= 0:", "if False:", f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "a leaf has no minSubGroup", _PODGROUP,
        "if sub_group is not None and not self.children:", "if False:", f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "minSubGroup is at most the number of children", _PODGROUP,
        "if sub_group is not None and 0 < self.children < sub_group:", "if False:",
        f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "a leaf has a minMember", _PODGROUP,
        "if not self.children and self.member is None:", "if False:", f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "names in a PodGroup are unique", _PODGROUP, "if sub.name in first:", "if False:",
        f"{_TEST_PODGROUP}::test_structural_faults_stop_the_deeper_checks",
    ),
    Removal(
        GPU_QUOTA, "D14", "an amount equal to the cap is allowed", _CAPS,
        "if cap is not None and have.milli + requested.milli > cap.milli:",
        "if cap is not None and have.milli + requested.milli >= cap.milli:",
        f"{_TEST_CAPS}::test_totals_count_every_gpu_exactly",
    ),
    Removal(
        GPU_QUOTA, "D14", "a namespace has at most its maximum of workers", _CAPS,
        "if spec.max_workers is not None and more.workers and used.workers + more.workers > spec.max_workers:",
        "if False:", f"{_TEST_CAPS}::test_a_worker_counts_once_whatever_its_gpus",
    ),
    Removal(
        GPU_QUOTA, "D14", "a decrease is never refused", _CAPS,
        "if cap is not None and requested.milli > was.milli and have.milli - was.milli + requested.milli > cap.milli:",
        "if cap is not None and have.milli - was.milli + requested.milli > cap.milli:",
        f"{_TEST_CAPS}::test_only_increased_amounts_of_a_change_are_checked",
    ),
    Removal(
        GPU_QUOTA, "D14", "one worker stays within the single caps", _CAPS,
        "if cap is not None and cap.milli and requested.milli > cap.milli:", "if False:",
        f"{_TEST_CAPS}::test_caps_on_one_worker_are_per_gpu",
    ),
    Removal(
        GPU_QUOTA, "D14", "the alert is strictly above the threshold", "pools/domain/gpu_quota/status.py",
        "(self.total - self.used) * 100 < percent", "(self.total - self.used) * 100 <= percent",
        "tests/unit/gpu_quota/test_status.py::test_the_alert_condition_compares_the_exact_percent",
    ),
    Removal(
        OURS, "D10", "roles count for their pool only", "pools/domain/people/roles.py",
        "return pool is not None and permission in actor.permissions_by_pool.get(pool, frozenset())",
        "return pool is not None and any(permission in each for each in actor.permissions_by_pool.values())",
        "tests/unit/ledger/test_roles.py::test_the_table",
    ),
    Removal(
        SUBPOOLS, "D2", "a subpool has a queue of its own, which work of the pool itself does not use", _NAMES,
        'return container if leaf is None else f"{container}{SEPARATOR}{leaf}"', "return container",
        f"{_TEST_NAMES}::test_queue_names",
    ),
    Removal(
        SUBPOOLS, "D2", "an archived subpool has no queue", "scheduling/domain/queues/desired.py",
        "if part.state is not SubpoolState.ARCHIVED", "if True",
        f"{_TEST_QUEUES}::test_subpools_take_from_the_shared_leaf_and_archived_ones_are_gone",
    ),
    Removal(
        SUBPOOLS, "D4", "available may be negative while work drains", _BALANCE,
        "return self.quota - self.usage.used", "return max(0, self.quota - self.usage.used)",
        f"{_TEST_BALANCE}::test_a_subpool_shows_what_has_to_drain",
    ),
    Removal(
        SUBPOOLS, "D4", "the pool itself has what no ACTIVE subpool has", _BALANCE,
        "return guarantee - allocated", "return guarantee", f"{_TEST_BALANCE}::test_the_seeds_pool",
    ),
    Removal(
        SUBPOOLS, "D6", "LOW work may go over the quota", "scheduling/domain/priorities.py",
        "return self is Priority.LOW", "return False", f"{_TEST_ADMISSION}::test_quota_and_maximum",
    ),
    Removal(
        SUBPOOLS, "D10", "admins of a pool divide it, its users do not", _ROLES,
        "more = _POOL_ADMIN if kind is PoolRoleKind.ADMIN else _POOL_USER", "more = _POOL_ADMIN",
        "tests/unit/ledger/test_roles.py::test_the_table",
    ),
    Removal(
        SUBPOOLS, "D10", "users of a pool submit to it and to its subpools", _ROLES,
        "frozenset({Permission.POOL_READ, Permission.POOL_SUBMIT})", "frozenset({Permission.POOL_READ})",
        "tests/unit/ledger/test_roles.py::test_the_table",
    ),
    Removal(
        SCHEDULING, "priority", "higher priority first, inside a leaf", _RECORDS,
        "self._order = -priority, self.minimum_state, age, self.fact.name",
        "self._order = 0, self.minimum_state, age, self.fact.name", f"{_TEST_SEED}::test_priority_queueing_order",
    ),
    Removal(
        SCHEDULING, "priority", "of one priority, the earlier submission first", _RECORDS,
        "self._order = -priority, self.minimum_state, age, self.fact.name",
        "self._order = -priority, self.minimum_state, -age, self.fact.name",
        f"{_TEST_SEED}::test_priority_queueing_order",
    ),
    Removal(
        SCHEDULING, "preemption", "HIGH and NORMAL work is never preempted", _STATE,
        "if gang.preemptible and any(gang.active):", "if any(gang.active):",
        "tests/unit/engine/test_eviction.py::test_non_preemptible_work_is_never_evicted",
    ),
    Removal(
        SCHEDULING, "borrowing", "a pool loses only what it has borrowed", _VICTIMS,
        "        if alloc[r] > quota[r]:\n            return True\n    return False\n\n\ndef keeps_quota",
        "        if alloc[r] > 0:\n            return True\n    return False\n\n\ndef keeps_quota",
        f"{_TEST_RECLAIM}::test_a_leaf_inside_its_quota_is_safe_though_the_pool_above_it_is_over_its_own",
    ),
    Removal(
        SCHEDULING, "borrowing", "no reclaim pushes a queue below its quota", _VICTIMS,
        "if queue.alloc[r] > queue.quota[r] > queue.alloc[r] - lost.get(r, 0):", "if False:",
        f"{_TEST_RECLAIM}::test_a_gang_across_the_quota_is_skipped_for_one_that_is_not",
    ),
    Removal(
        SCHEDULING, "borrowing", "only a leaf inside its fair share reclaims", _PHASES,
        "return all(have <= fair for have, fair in zip(after, queue.fair, strict=True))", "return True",
        f"{_TEST_RECLAIM}::test_the_gate_is_checked_again_for_every_gang",
    ),
    Removal(
        COHORTS, "quota", "the own quota of a cohort is shared by all below it", _TREE,
        "self.nominal = [quota.nominal for quota in quotas]",
        "self.nominal = [0 if x in parents else quota.nominal for x, quota in enumerate(quotas)]",
        f"{_TEST_TREE}::test_example_a_subtree_quota",
    ),
    Removal(
        COHORTS, "T(x)", "usage beyond what a node keeps counts above it", _TREE,
        "self.usage[parent] += self.usage[x] - self.local[x]", "self.usage[parent] += 0",
        f"{_TEST_TREE}::test_example_a_states",
    ),
    Removal(
        COHORTS, "limits", "a root borrows nothing", _TREE,
        "allowed = self.borrowing[x] if self.parents[x] >= 0 else 0", "allowed = self.borrowing[x]",
        f"{_TEST_TREE}::test_a_root_borrows_nothing",
    ),
    Removal(
        GANGS, "minSubGroup", "without minSubGroup all children are needed", _GANG,
        "return len(self.children[x]) if min_sub_group is None else max(0, min_sub_group)",
        "return 0 if min_sub_group is None else max(0, min_sub_group)",
        f"{_TEST_PLAN}::test_surplus_pods_go_first_from_the_fullest_leaf",
    ),
    Removal(
        GANGS, "minSubGroup", "a group is ready with as many ready children as minSubGroup", _GANG,
        "return len(self.children[x]) if min_sub_group is None else max(0, min_sub_group)",
        "return len(self.children[x])", f"{_TEST_PLAN}::test_a_new_inference_service_requests_three_of_four_replicas",
    ),
    Removal(
        GANGS, "order", "SubGroups below their minimum come first", _GANG,
        "                return 0, 0, child\n", "                return 3, 0, child\n",
        f"{_TEST_PLAN}::test_two_running_replicas_need_one_more_not_both",
    ),
    Removal(
        GANGS, "D13", "a minMember is at least 1", _PODGROUP,
        "if member is not None and (member < 0 or (member == 0 and not self.children)):", "if False:",
        f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "a SubGroup with children has no minMember", _PODGROUP,
        "            yield self._violation_at(names.min_member, Fault.INNER_WITH_MIN_MEMBER, message)\n"
        "        if not self.children and self.member is None:\n",
        "        if not self.children and self.member is None:\n", f"{_TEST_PODGROUP}::test_one_broken_rule_each",
    ),
    Removal(
        GANGS, "D13", "a parent exists", _PODGROUP,
        "if sub.parent is not None and sub.parent not in first:", "if False:",
        f"{_TEST_PODGROUP}::test_structural_faults_stop_the_deeper_checks",
    ),
    Removal(
        GANGS, "D13", "parents form no cycle", _PODGROUP, "for cycle in cycles:", "for cycle in ():",
        f"{_TEST_PODGROUP}::test_the_cycle_is_named_whole",
    ),
    Removal(
        GPU_QUOTA, "check", "the total of a namespace is checked with what is used", _CAPS,
        "if cap is not None and have.milli + requested.milli > cap.milli:",
        "if cap is not None and requested.milli > cap.milli:", f"{_TEST_CAPS}::test_totals_count_every_gpu_exactly",
    ),
    Removal(
        GPU_QUOTA, "check", "one worker has at most its maximum of GPUs", _CAPS,
        "if spec.max_gpu_count is not None and worker.count > spec.max_gpu_count:", "if False:",
        f"{_TEST_CAPS}::test_gpus_of_one_worker",
    ),
    Removal(
        GPU_QUOTA, "check", "the caps on one worker are checked before the totals", _CAPS,
        "return [*broken_single_caps(spec, worker), *broken_total_caps(spec, used, totals_of_worker(worker))]",
        "return [*broken_total_caps(spec, used, totals_of_worker(worker)), *broken_single_caps(spec, worker)]",
        f"{_TEST_CAPS}::test_everything_that_breaks_is_said_in_the_order_of_the_checks",
    ),
    Removal(
        GPU_QUOTA, "status", "Exceeded: more is used than the cap", _CAP_STATUS,
        "return self.total is not None and self.used > self.total", "return False",
        f"{_TEST_CAP_STATUS}::test_exceeded_is_strict",
    ),
    Removal(
        GPU_QUOTA, "status", "an alert below the threshold that the quota sets", _CAP_STATUS,
        "if gauge.has_less_than(100 - spec.alert_threshold)]", "if gauge.has_less_than(1)]",
        f"{_TEST_CAP_STATUS}::test_the_alert_condition_compares_the_exact_percent",
    ),
    Removal(
        GPU_QUOTA, "status", "the default of the threshold is 95 percent", _CAPS,
        "DEFAULT_THRESHOLD = 95", "DEFAULT_THRESHOLD = 100",
        "tests/unit/gpu_quota/test_spec.py::test_nothing_said_is_nothing_checked",
    ),
    Removal(
        GPU_QUOTA, "status", "the available percentage is of the cap", _CAP_STATUS,
        "Fraction(self.total - self.used, self.total) * 100", "Fraction(self.used, self.total) * 100",
        f"{_TEST_CAP_STATUS}::test_percent_of_each_amount",
    ),
    Removal(
        SUBPOOLS, "D3", "a draining subpool is archived with its last workflow",
        "pools/services/configuration/subpools.py",
        "pk=leaf_id, parent=root, subpool_state=SubpoolState.DELETING, usage__live_workflows=0",
        "pk=-1, parent=root, subpool_state=SubpoolState.DELETING, usage__live_workflows=0",
        "tests/integration/workflows/test_workflow_lifecycle.py"
        "::test_the_last_workflow_that_ends_archives_a_draining_subpool",
    ),
    Removal(
        SUBPOOLS, "D8", "only an ACTIVE subpool changes its quota", "pools/services/configuration/subpools.py",
        '_require_active(row, "its quota cannot change")', "pass",
        "tests/integration/pools/test_subpools.py::test_only_an_active_subpool_changes",
    ),
    Removal(
        SCHEDULING, "preemption", "preempted work waits again, in its place",
        "scheduling/services/workflows/transitions.py",
        "self.attempts.retry(task, back.get(task.name))", "pass",
        "tests/integration/engine/test_seed_examples.py::test_preemption",
    ),
)  # fmt: skip
