"""A submission from the file to the commit: the file is read and checked before any lock, then one transaction locks
the pool's tree, judges, inserts, and counts the user's live work.

The number of statements does not depend on how many workflows are submitted together. A dry run is the same function,
which reads without locks and inserts nothing.
Source: design, D5, D6, O7.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pools.database.transactions import change
from pools.domain.errors import DomainError, Violation
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.locking import lock_leaf, lock_live_work, read_leaf
from pools.models import Pool
from pools.permissions import require_permission, unknown_pool
from pools.selectors.submission_path import find_leaf_with_root
from scheduling.domain.flavor_choices import PoolFlavors
from scheduling.domain.priorities import Priority
from scheduling.domain.workflow_spec import WorkflowSpec, simulated_runtime_seconds
from scheduling.locking import hold_render_turn
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.services.workflows.gpu_workers import single_worker_violations
from scheduling.services.workflows.insert_rows import insert_workflows
from scheduling.services.workflows.new_rows import build_group, build_tasks
from scheduling.services.workflows.pool_rules import pool_spec_rules
from scheduling.services.workflows.refusals import (
    batch_refusal,
    file_refusal,
    find_refusal,
    find_room_refusal,
    worker_cap_refusal,
)
from scheduling.services.workflows.submission_pace import find_pace_refusal
from scheduling.services.workflows.submission_warnings import read_warnings
from scheduling.specs import ParsedSpec, RenderBudget, SpecRules, check_labels, parse


@dataclass(frozen=True, slots=True)
class Submission:
    """A client's request: the file and its parameters. `template` is the file before a dry run rendered it;
    `already_rendered` says that `file` is no longer a template. Without `priority` the priority in the file counts,
    else NORMAL."""

    file: str
    priority: Priority | None = None
    set_variables: tuple[str, ...] = ()
    set_string_variables: tuple[str, ...] = ()
    template: str = ""
    already_rendered: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    parent: Workflow | None = None
    app_uuid: str = ""
    app_version: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionReceipt:
    """The result of a submission. `workflow` is None for a dry run and for a validation."""

    spec: WorkflowSpec
    rendered: str
    pool: Pool
    warnings: tuple[str, ...]
    workflow: Workflow | None = None


@dataclass(frozen=True, slots=True)
class PreparedSubmission:
    """A submission whose file was read and found valid."""

    submission: Submission
    spec: WorkflowSpec
    rendered: str
    warnings: tuple[str, ...]
    labels: Mapping[str, str]

    @property
    def priority(self) -> Priority:
        return self.submission.priority or self.spec.priority or Priority.NORMAL


@dataclass(frozen=True, slots=True)
class PreparedSubmissions:
    """Submissions to one leaf whose files were read and found valid."""

    leaf: Pool
    items: Sequence[PreparedSubmission]


def submit(*, actor: Actor, pool: str, submission: Submission) -> SubmissionReceipt:
    """Admit one workflow to a leaf. Raises BadInput with all faults of the file at once, or with the numbers of the
    verdict; Throttled at a limit of the user; NotFound and Forbidden by role; Busy when a lock was not free in time."""
    return submit_many(actor=actor, pool=pool, submissions=[submission])[0]


def submit_many(*, actor: Actor, pool: str, submissions: Sequence[Submission]) -> list[SubmissionReceipt]:
    """Admit several workflows to one leaf, all or none, with one lock and one commit.

    Among several workflows, each fault carries the position of its workflow: `workflows[3].workflow.tasks[0].image`.
    """
    return submit_prepared(actor=actor, prepared=prepare_submissions(actor=actor, pool=pool, submissions=submissions))


def prepare_submissions(*, actor: Actor, pool: str, submissions: Sequence[Submission]) -> PreparedSubmissions:
    """The first half of :func:`submit_many`, without any lock: permission, and the files read and checked."""
    leaf = find_leaf_with_root(pool)
    if leaf is None or not is_allowed(actor, Permission.POOL_READ, leaf.root.name):
        raise unknown_pool(pool)
    require_permission(actor, Permission.POOL_SUBMIT, pool)
    files = _parse_files(actor, submissions, pool_spec_rules(leaf.root))
    labels = [
        dict(parsed.spec.labels if parsed.spec else {}) | dict(submission.labels)
        for submission, parsed in zip(submissions, files, strict=False)
    ]
    faults = [
        [*parsed.violations, *_label_violations(submission, merged)]
        for submission, parsed, merged in zip(submissions, files, labels, strict=False)
    ]
    if any(faults):
        unread = len(submissions) - len(files)
        raise file_refusal(faults[0]) if len(submissions) == 1 else batch_refusal(faults, unread=unread)
    specs = [parsed.spec for parsed in files if parsed.spec is not None]
    warnings = read_warnings(leaf, specs, labels, [submission.priority for submission in submissions])
    limits = [single_worker_violations(leaf.root, spec) for spec in specs]
    if any(limits):
        raise worker_cap_refusal(limits)
    items = [
        PreparedSubmission(submission, spec, parsed.rendered_text, (*parsed.warnings, *more), merged)
        for submission, spec, parsed, more, merged in zip(submissions, specs, files, warnings, labels, strict=True)
    ]
    return PreparedSubmissions(leaf, items)


def submit_prepared(
    *, actor: Actor, prepared: PreparedSubmissions, is_dry_run: bool = False
) -> list[SubmissionReceipt]:
    """The second half of :func:`submit_many`: the verdict and the rows. A dry run reads without locks what the verdict
    needs, raises the same errors, and writes nothing; only the pace of submissions does not count for it."""
    leaf, items = prepared.leaf, prepared.items
    with nullcontext() if is_dry_run else change(actor=actor):
        facts = read_leaf(leaf, actor) if is_dry_run else lock_leaf(leaf, actor)
        if facts is None:
            raise unknown_pool(leaf.name)
        flavors = read_pool_flavors(facts.root)
        if refusal := find_refusal(actor, leaf, facts, [(item.priority, item.spec) for item in items], flavors):
            raise refusal
        workflows = [None] * len(items) if is_dry_run else _insert(actor, prepared, facts.time, flavors)
        if not is_dry_run and (refusal := _find_late_refusal(actor, len(items))):
            raise refusal
    return [
        SubmissionReceipt(item.spec, item.rendered, leaf, item.warnings, workflow)
        for item, workflow in zip(items, workflows, strict=True)
    ]


def _find_late_refusal(actor: Actor, inserted: int) -> DomainError | None:
    """Count again, with the rows that were inserted and under the lock of the user's live work: another submission of
    the user may have been committed meanwhile, to another leaf."""
    live = lock_live_work(actor) - inserted
    return find_room_refusal(actor, live, inserted) or find_pace_refusal(actor, inserted)


def _insert(actor: Actor, prepared: PreparedSubmissions, now: datetime, flavors: PoolFlavors) -> list[Workflow]:
    workflows: list[Workflow] = []
    groups: list[Group] = []
    tasks: list[Task] = []
    for place, item in enumerate(prepared.items):
        # Workflows that are submitted together are served in their order.
        workflow = _new_workflow(actor, prepared.leaf, item, now + timedelta(microseconds=place))
        workflows.append(workflow)
        for position, group_spec in enumerate(item.spec.groups):
            group = build_group(workflow, position, group_spec)
            groups.append(group)
            tasks += build_tasks(group, group_spec)
    needed_gpus = [item.spec.largest_gang_gpus for item in prepared.items]
    by_flavor = [flavors.claims(item.spec.groups) for item in prepared.items]
    insert_workflows(actor.username, workflows, groups, tasks, needed_gpus, by_flavor)
    return workflows


def _new_workflow(actor: Actor, leaf: Pool, item: PreparedSubmission, now: datetime) -> Workflow:
    submission, spec = item.submission, item.spec
    runtime = simulated_runtime_seconds(item.labels)
    return Workflow(
        uuid=uuid.uuid4(),
        spec_name=spec.name,
        pool=leaf,
        root_pool=leaf.root,
        submitted_by_id=_user_id(actor),
        priority=item.priority,
        submit_time=now,
        exec_timeout=spec.exec_timeout,
        queue_timeout=spec.queue_timeout,
        simulated_runtime=None if runtime is None else timedelta(seconds=runtime),
        labels=dict(item.labels),
        env_vars=dict(submission.env_vars),
        spec=item.rendered,
        template_spec=submission.template or (submission.file if submission.file != item.rendered else ""),
        warnings=list(item.warnings),
        parent=submission.parent,
        app_uuid=submission.app_uuid,
        app_version=submission.app_version,
    )


def _parse_files(actor: Actor, submissions: Sequence[Submission], rules: SpecRules) -> list[ParsedSpec]:
    """The files in their order, up to the one that has spent the budget of rendering, which they share. One request
    of a user renders at a time; no transaction is open meanwhile."""
    user_id = _user_id(actor)
    known: dict[tuple[object, ...], ParsedSpec] = {}  # many workflows often share one file
    found: list[ParsedSpec] = []
    with ExitStack() as turn:
        budget = RenderBudget(lambda: turn.enter_context(hold_render_turn(user_id)))
        for each in submissions:
            if budget.is_spent:
                break
            mark = (each.file, each.set_variables, each.set_string_variables, each.already_rendered)
            if mark not in known:
                known[mark] = parse(
                    each.file,
                    set_variables=each.set_variables,
                    set_string_variables=each.set_string_variables,
                    rules=rules,
                    is_rendered=each.already_rendered,
                    budget=budget,
                )
            found.append(known[mark])
    return found


def _label_violations(submission: Submission, labels: Mapping[str, str]) -> list[Violation]:
    """Faults of the labels in the parameters; the labels in the file were checked with the file."""
    if not submission.labels:
        return []
    together = [fault for fault in check_labels(labels, "label") if fault.path == "label"]
    return [*together, *(fault for fault in check_labels(submission.labels, "label") if fault.path != "label")]


def _user_id(actor: Actor) -> int:
    assert actor.user_id is not None, "only people submit"
    return actor.user_id
