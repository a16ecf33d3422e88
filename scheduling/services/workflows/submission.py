"""Submission of work: a file comes in, a verdict goes out, in one transaction.

The file is read and checked before any lock. The pool's tree is locked late, for the verdict and the writes only. The
number of statements does not depend on how many workflows are submitted together.
Source: design, D5, D6, O7.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.conf import settings

from pools.database.driver import is_in_transaction
from pools.database.transactions import change, request_id
from pools.domain.errors import BadInput, DomainError, ErrorCode, Fault, Violation
from pools.domain.names import SHARED_QUEUE, k8s_queue_name, queue_name, split_name, with_pool_names
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import Gpus
from pools.locking import lock_leaf, read_leaf
from pools.models import Backend, Pool
from pools.permissions import require_permission, unknown_pool
from pools.selectors.quotas.quota_potential import potential_limit
from pools.selectors.submission_path import find_leaf_with_root
from scheduling.domain.cluster.pods.tokens import INPUT_DIRECTORY, OUTPUT_DIRECTORY
from scheduling.domain.judgement.admission import LeafFacts, SubmissionRefusal, TreeLimit, submission_verdict
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import WorkflowStatus
from scheduling.domain.workflow_spec import WorkflowSpec, simulated_runtime_seconds
from scheduling.locking import hold_render_turn
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.cluster.node_fit import unfitting_warnings
from scheduling.selectors.cluster.queue_sync_state import read_closed_queues
from scheduling.services.workflows.gpu_workers import single_worker_violations
from scheduling.services.workflows.group_commit import GroupCommit, Take
from scheduling.services.workflows.insert_rows import insert_workflows
from scheduling.services.workflows.live_work import (
    MOST_SIDE_BY_SIDE,
    LiveWork,
    NearLimit,
    count_live_work,
    lock_live_work,
)
from scheduling.services.workflows.new_rows import build_group, build_tasks
from scheduling.services.workflows.pool_rules import pool_spec_rules
from scheduling.services.workflows.refusals import (
    batch_refusal,
    file_refusal,
    live_work_refusal,
    verdict_refusal,
    worker_cap_refusal,
)
from scheduling.services.workflows.submission_pace import require_pace
from scheduling.specs import ParsedSpec, RenderBudget, SpecRules, check_labels, parse

MAX_NAMED_TASKS = 5  # in one message


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
class _PreparedSubmission:
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
    items: Sequence[_PreparedSubmission]


def with_priority(prepared: PreparedSubmissions, priority: Priority) -> PreparedSubmissions:
    """The same work with another priority."""
    items = [replace(item, submission=replace(item.submission, priority=priority)) for item in prepared.items]
    return replace(prepared, items=items)


def with_spec(prepared: PreparedSubmissions, spec: WorkflowSpec) -> PreparedSubmissions:
    """One workflow with other groups or tasks, for a dry run; its rendered file is that of the original."""
    (item,) = prepared.items
    return replace(prepared, items=[replace(item, spec=spec)])


def resubmission(original: Workflow, submission: Submission) -> Submission:
    """`submission` with the file of a recorded workflow. If the submission has no labels or variables, those of that
    workflow are used."""
    return replace(
        submission,
        file=original.spec,
        template=original.template_spec,
        already_rendered=True,
        labels=original.labels | dict(submission.labels),
        env_vars=original.env_vars | dict(submission.env_vars),
        app_uuid=submission.app_uuid or original.app_uuid,
        app_version=submission.app_version or original.app_version,
        parent=original,
    )


def retry_submission(failed: Workflow) -> Submission:
    """The submission of a failed workflow again, with the same file and priority. Raises BadInput if the workflow did
    not fail (design, O7.1)."""
    if not WorkflowStatus(failed.status).is_failed:
        message = f"Workflow {failed.name} is {failed.status}; only failed workflows can be restarted."
        violation = Violation("workflow", Fault.NOT_FAILED, message)
        raise BadInput(message, [violation], error_code=ErrorCode.USAGE, workflow_id=failed.name)
    return resubmission(failed, Submission(file="", priority=Priority(failed.priority)))


def check_prepared(*, actor: Actor, prepared: PreparedSubmissions) -> list[SubmissionReceipt]:
    """The dry run of :func:`submit_prepared`: the same checks on the same facts, read without locks. It raises the same
    errors, and writes nothing."""
    leaf = prepared.leaf
    try:
        found = read_leaf(leaf, count_live_work(_user_id(actor)))
    except Pool.DoesNotExist:
        raise unknown_pool(leaf.name) from None
    _refuse_or_accept(actor, _leaf_facts(leaf, found.root, found.state, found.quota), prepared.items)
    _require_room(actor, LiveWork(*found.more), len(prepared.items))
    return [SubmissionReceipt(item.spec, item.rendered, leaf, item.warnings) for item in prepared.items]


def submit(*, actor: Actor, pool: str, submission: Submission) -> SubmissionReceipt:
    """Admit one workflow to a leaf. Raises BadInput with all faults of the file at once, or with the numbers of the
    verdict; NotFound and Forbidden by role; Busy when the tree could not be locked in time."""
    return submit_many(actor=actor, pool=pool, submissions=[submission])[0]


def submit_many(*, actor: Actor, pool: str, submissions: Sequence[Submission]) -> list[SubmissionReceipt]:
    """Admit several workflows to one leaf, all or none, with one lock and one commit.

    Among several workflows, each fault carries the position of its workflow: `workflows[3].workflow.tasks[0].image`.
    """
    return submit_prepared(actor=actor, prepared=prepare_submissions(actor=actor, pool=pool, submissions=submissions))


def submit_prepared(*, actor: Actor, prepared: PreparedSubmissions) -> list[SubmissionReceipt]:
    """The second half of :func:`submit_many`: the verdict and the writes, under the lock of the tree.

    Small requests of one user to one leaf that arrive while another one is in its transaction share the next
    transaction (:mod:`scheduling.services.workflows.group_commit`); each has its own verdict, answer and audit entries.
    A request that has a transaction already, because its answer is stored with it or because it is a preview, is
    admitted alone.
    """
    request = _Request(actor, prepared, request_id.get())
    if not request.is_small or is_in_transaction():
        return _admit_alone(request)
    return _GROUPS.run((actor.username, _user_id(actor), prepared.leaf.pk), request)


@dataclass(frozen=True, slots=True)
class _Request:
    """Prepared submissions that are admitted all or none, and the id of their request in the audit trail."""

    actor: Actor
    prepared: PreparedSubmissions
    request_id: str

    @property
    def items(self) -> Sequence[_PreparedSubmission]:
        return self.prepared.items

    @property
    def is_small(self) -> bool:
        """Whether other submissions of the user may run at the same time."""
        return len(self.items) <= MOST_SIDE_BY_SIDE and not settings.OSMO.max_submissions_per_minute


def _admit_alone(request: _Request) -> list[SubmissionReceipt]:
    [outcome] = _admit_group(request, lambda _: [])
    if isinstance(outcome, DomainError):
        raise outcome
    return outcome


def _admit_group(first: _Request, take: Take[_Request]) -> list[list[SubmissionReceipt] | DomainError]:
    """The receipts or the refusal of `first`, and of the requests of the same user to the same leaf that `take` adds
    (at most as many as may share the lock of the user's live work)."""
    group = [first]
    try:
        if first.is_small:
            with suppress(NearLimit):
                return _admit(group, take, is_shared=True)
        return _admit(group, take, is_shared=False)
    except _AllRefused as end:
        return [*end.refusals]


class _AllRefused(Exception):
    """Ends a transaction in which nothing was admitted: a rollback does not wait for the disk."""

    def __init__(self, refusals: Sequence[DomainError]) -> None:
        super().__init__()
        self.refusals = refusals


def _admit(
    group: list[_Request], take: Take[_Request], *, is_shared: bool
) -> list[list[SubmissionReceipt] | DomainError]:
    """`is_shared` says whether other submissions of the user may run at the same time; it may raise NearLimit. The
    requests that are taken are added to `group`."""
    actor, leaf = group[0].actor, group[0].prepared.leaf
    with change(actor=actor):
        try:
            locked = lock_leaf(leaf, *lock_live_work(_user_id(actor), is_shared=is_shared))
        except Pool.DoesNotExist:
            raise unknown_pool(leaf.name) from None
        group += take(MOST_SIDE_BY_SIDE - _count(group))
        facts, live = _leaf_facts(leaf, locked.root, locked.state, locked.quota), LiveWork(*locked.more)
        refusals = [_find_refusal(request, facts) for request in group]
        wanted, limit = _count(_accepted(group, refusals)), settings.OSMO.max_live_workflows
        if wanted and is_shared and not live.has_room(wanted, limit, is_shared=True):
            raise NearLimit
        for index, request in enumerate(group):
            if refusals[index] is None:
                refusals[index] = _find_room_refusal(request, live)
            if refusals[index] is None:
                live = replace(live, live=live.live + len(request.items))
        accepted = _accepted(group, refusals)
        if not accepted:
            raise _AllRefused([refusal for refusal in refusals if refusal])
        if pace := settings.OSMO.max_submissions_per_minute:
            requested = _count(accepted)
            require_pace(username=actor.username, user_id=_user_id(actor), requested=requested, limit=pace)
        workflows = iter(_insert(accepted, locked.time))
        # Nothing follows the commit: what fails after it would be tried again.
        return [refusal or _receipts(request, workflows) for request, refusal in zip(group, refusals, strict=True)]


def _receipts(request: _Request, workflows: Iterator[Workflow]) -> list[SubmissionReceipt]:
    leaf = request.prepared.leaf
    return [SubmissionReceipt(item.spec, item.rendered, leaf, item.warnings, next(workflows)) for item in request.items]


def _count(group: Sequence[_Request]) -> int:
    """The number of workflows."""
    return sum(len(request.items) for request in group)


def _accepted(group: Sequence[_Request], refusals: Sequence[DomainError | None]) -> list[_Request]:
    return [request for request, refusal in zip(group, refusals, strict=True) if refusal is None]


def _find_refusal(request: _Request, facts: LeafFacts) -> DomainError | None:
    try:
        _refuse_or_accept(request.actor, facts, request.items)
    except DomainError as refusal:
        return refusal
    return None


def _find_room_refusal(request: _Request, live: LiveWork) -> DomainError | None:
    try:
        _require_room(request.actor, live, len(request.items))
    except DomainError as refusal:
        return refusal
    return None


_GROUPS: GroupCommit[_Request, list[SubmissionReceipt]] = GroupCommit(
    together=_admit_group, alone=_admit_alone, size=lambda request: len(request.items)
)


def _require_room(actor: Actor, live: LiveWork, requested: int) -> None:
    limit = settings.OSMO.max_live_workflows
    if not live.has_room(requested, limit, is_shared=False):
        raise live_work_refusal(actor.username, live.live, requested, limit)


def _user_id(actor: Actor) -> int:
    assert actor.user_id is not None, "only people submit"
    return actor.user_id


def prepare_submissions(*, actor: Actor, pool: str, submissions: Sequence[Submission]) -> PreparedSubmissions:
    """The first half of :func:`submit_many`, without any lock: permission, and the files read and checked."""
    leaf = find_leaf_with_root(pool)
    if leaf is None or not is_allowed(actor, Permission.POOL_READ, leaf.root.name):
        raise unknown_pool(pool)
    require_permission(actor, Permission.POOL_SUBMIT, pool)
    rules = pool_spec_rules(leaf.root)
    prepared: list[_PreparedSubmission] = []
    faults: list[list[Violation]] = []
    files = _parse_files(actor, submissions, rules)
    of_queue = _queue_warnings(leaf)
    for submission, parsed in zip(submissions, files, strict=False):
        labels = dict(parsed.spec.labels if parsed.spec else {}) | dict(submission.labels)
        found = [*parsed.violations, *_label_violations(submission, labels)]
        faults.append(found)
        if parsed.spec is not None and not found:
            warnings = (
                *parsed.warnings,
                *_priority_warnings(submission, parsed.spec),
                *_data_warnings(leaf.root, parsed.spec),
                *_topology_warnings(leaf.root, parsed.spec),
                *of_queue,
            )
            prepared.append(_PreparedSubmission(submission, parsed.spec, parsed.rendered_text, warnings, labels))
    if any(faults):
        raise (
            file_refusal(faults[0])
            if len(submissions) == 1
            else batch_refusal(faults, unread=len(submissions) - len(files))
        )
    prepared = _with_node_warnings(leaf.root, prepared)
    limits = [single_worker_violations(leaf.root, item.spec) for item in prepared]
    if any(limits):
        raise worker_cap_refusal(limits)
    return PreparedSubmissions(leaf, prepared)


def _parse_files(actor: Actor, submissions: Sequence[Submission], rules: SpecRules) -> list[ParsedSpec]:
    """The files in their order, up to the one that has spent the budget of rendering, which they share. One request
    of a user renders at a time; no transaction is open meanwhile."""
    user_id = _user_id(actor)
    known: dict[tuple[object, ...], ParsedSpec] = {}  # many workflows often share one file
    found: list[ParsedSpec] = []
    with ExitStack() as turn:
        budget = RenderBudget(lambda: turn.enter_context(hold_render_turn(user_id)))
        for submission in submissions:
            if budget.is_spent:
                break
            found.append(_parse_file(submission, rules, known, budget))
    return found


def _parse_file(
    submission: Submission, rules: SpecRules, known: dict[tuple[object, ...], ParsedSpec], budget: RenderBudget
) -> ParsedSpec:
    mark = (
        submission.file,
        submission.set_variables,
        submission.set_string_variables,
        submission.already_rendered,
    )
    if mark not in known:
        known[mark] = parse(
            submission.file,
            set_variables=submission.set_variables,
            set_string_variables=submission.set_string_variables,
            rules=rules,
            is_rendered=submission.already_rendered,
            budget=budget,
        )
    return known[mark]


def _priority_warnings(submission: Submission, spec: WorkflowSpec) -> list[str]:
    """A warning if a parameter of the submission overrules the priority in the file."""
    requested = submission.priority
    if requested is None or spec.priority in {None, requested}:
        return []
    return [f"The file asks for priority {spec.priority}, the submission for {requested}: it is {requested}."]


def _data_warnings(root: Pool, spec: WorkflowSpec) -> list[str]:
    """A warning for tasks with inputs and outputs on a cluster, which moves no data. On a simulated backend no task
    reads or writes anything."""
    if root.backend is None or root.backend.kind != Backend.Kind.KUBERNETES:
        return []
    tasks = [task.name for group in spec.groups for task in group.tasks if task.inputs or task.outputs]
    if not tasks:
        return []
    message = (
        f"Data is not moved on cluster {root.backend.name}: the inputs and outputs of {_few(tasks)} are neither "
        f"fetched nor stored. {INPUT_DIRECTORY} and "
        f"{OUTPUT_DIRECTORY} are empty directories of the pod, so read and write storage from the command. "
        "A group still waits for the tasks that its inputs name."
    )
    return [message]


def _with_node_warnings(root: Pool, prepared: list[_PreparedSubmission]) -> list[_PreparedSubmission]:
    """The submissions, with a warning for each group that no node of the backend could ever hold."""
    if root.backend is None:
        return prepared
    found = unfitting_warnings(root, root.backend, [item.spec for item in prepared])
    return [
        replace(item, warnings=(*item.warnings, *more)) if more else item
        for item, more in zip(prepared, found, strict=True)
    ]


def _queue_warnings(leaf: Pool) -> list[str]:
    """A warning if the queue of this leaf in its cluster is known to be unusable."""
    root = leaf.root
    if root.backend is None or root.backend.kind != Backend.Kind.KUBERNETES:
        return []
    namespace = root.backend.namespace
    short_name = split_name(leaf.name).subpool or SHARED_QUEUE
    queue = k8s_queue_name(queue_name(namespace, root.name, short_name))
    if (message := read_closed_queues(root.backend.pk).get(queue)) is None:
        return []
    return [f"The work waits here until its queue can be used: {with_pool_names(message, namespace)}"]


def _topology_warnings(root: Pool, spec: WorkflowSpec) -> list[str]:
    """A warning for topology requirements on a simulated backend, whose nodes have no labels."""
    if root.backend is None or root.backend.kind == Backend.Kind.KUBERNETES:
        return []
    tasks = [task.name for group in spec.groups for task in group.tasks if task.topology]
    if not tasks:
        return []
    message = (
        f"`topology` has no effect on the simulated cluster {root.backend.name}: {_few(tasks)} may run on any nodes. "
        "A Kubernetes cluster places them by the node labels of the keys."
    )
    return [message]


def _few(names: Sequence[str]) -> str:
    """The first of these names, and how many follow."""
    more = f" and {len(names) - MAX_NAMED_TASKS} more" if len(names) > MAX_NAMED_TASKS else ""
    return f"{', '.join(names[:MAX_NAMED_TASKS])}{more}"


def _label_violations(submission: Submission, labels: Mapping[str, str]) -> list[Violation]:
    """Faults of the labels in the parameters; the labels in the file were checked with the file."""
    if not submission.labels:
        return []
    together = [fault for fault in check_labels(labels, "label") if fault.path == "label"]
    return [*together, *(fault for fault in check_labels(submission.labels, "label") if fault.path != "label")]


def _leaf_facts(leaf: Pool, root: Pool, state: SubpoolState | None, quota: Gpus) -> LeafFacts:
    return LeafFacts(
        pool=leaf.name,
        quota=quota,
        maximum=root.effective_maximum,
        state=state,
        tree=_tree_limit(root),
        archived=root.archived,
        maintenance=root.enable_maintenance,
    )


def _tree_limit(root: Pool) -> TreeLimit | None:
    found = potential_limit(root)
    return None if found is None else TreeLimit(found.gpus, found.node, found.limit, found.bound)


def _refuse_or_accept(actor: Actor, facts: LeafFacts, prepared: Sequence[_PreparedSubmission]) -> None:
    refusals: list[SubmissionRefusal | None] = [
        submission_verdict(
            facts,
            priority=item.priority,
            largest_gang=item.spec.largest_gang_gpus,
            ignores_maintenance=actor.is_admin,
        )
        for item in prepared
    ]
    if not any(refusals):
        return
    first = next(refusal for refusal in refusals if refusal)
    if len(prepared) == 1 or not first.is_by_quota:  # a closed pool refuses all of them; one message is enough
        raise verdict_refusal(first, prepared[0].spec.name if len(prepared) == 1 else None)
    raise batch_refusal([[refusal.violation] if refusal else [] for refusal in refusals], ErrorCode.RESOURCE)


def _insert(group: Sequence[_Request], now: datetime) -> list[Workflow]:
    actor = group[0].actor
    workflows: list[Workflow] = []
    groups: list[Group] = []
    tasks: list[Task] = []
    request_ids: dict[str, str] = {}
    for request in group:
        for item in request.items:
            # Workflows that are submitted together are served in their order.
            at = now + timedelta(microseconds=len(workflows))
            workflow = _new_workflow(actor, request.prepared.leaf, item, at)
            workflows.append(workflow)
            request_ids[str(workflow.uuid)] = request.request_id
            for position, group_spec in enumerate(item.spec.groups):
                row = build_group(workflow, position, group_spec)
                groups.append(row)
                tasks += build_tasks(row, group_spec)
    needed_gpus = [item.spec.largest_gang_gpus for request in group for item in request.items]
    insert_workflows(actor.username, workflows, groups, tasks, needed_gpus, request_ids)
    return workflows


def _new_workflow(actor: Actor, leaf: Pool, item: _PreparedSubmission, now: datetime) -> Workflow:
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
