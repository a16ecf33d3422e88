"""Actions of users on admitted workflows: cancel, report an end, tag."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from pools.database.transactions import change, database_time
from pools.domain.errors import BadInput, Conflict, DomainError, Fault, NotFound, Violation
from pools.domain.gpu_quota.pool_settings import gpu_namespace_of
from pools.domain.people.roles import Actor, Permission, is_allowed, may_as_owner
from pools.locking import lock_namespaces, lock_pool_tree, lock_pool_trees
from pools.models import Backend, Pool
from pools.permissions import require_as_owner, require_permission
from scheduling.domain.changes.workflows import CancelWorkflow, EndWorkflow, TagWorkflow
from scheduling.domain.observed.observed_object import ObservedAction, observed_obstacle
from scheduling.domain.receipts.causes import EndCause, InterruptionFacts
from scheduling.domain.statuses import TaskStatus, WorkflowStatus
from scheduling.locking import lock_workflow
from scheduling.models import Workflow
from scheduling.selectors.work.observed_objects import find_observed_object
from scheduling.selectors.work.workflows import get_visible_workflow
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_TAGS = 64
_TAG = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:/-]{0,61}[A-Za-z0-9])?\Z", re.ASCII)


def cancel_workflow(command: CancelWorkflow, *, actor: Actor, description: str = "") -> Workflow:
    """End an active workflow as FAILED_CANCELED and release its GPUs at once. For the owner or an admin of the pool.

    A finished workflow is a BadInput, unless `force`; then nothing changes.
    """
    visible = require_own_or_manage(actor, command.name)
    reason = command.message or description
    with change(actor=actor, description=reason):
        root = _lock_root(visible)
        work = WorkflowTransition(root, [visible.pk], now=database_time())
        workflow = work.workflows[visible.pk]
        try:
            _require_cancellable(workflow)
        except BadInput:
            if not command.force:
                raise
        else:
            _cancel_all(work, [workflow], actor, reason)
    return workflow


def cancel_workflows(names: Collection[str], *, actor: Actor, message: str = "") -> dict[str, str]:
    """End active workflows as :func:`cancel_workflow`, all in one transaction. Returns for each name why its workflow
    stays as it is; empty if it has ended."""
    refusals, found = dict.fromkeys(names, ""), dict[int, list[Workflow]]()
    for name in refusals:
        try:
            visible = require_own_or_manage(actor, name)
        except DomainError as refusal:
            refusals[name] = refusal.message
        else:
            found.setdefault(visible.root_pool_id, []).append(visible)
    with change(actor=actor, description=message):
        roots = lock_pool_trees(found)
        if namespaces := {namespace for root in roots if (namespace := gpu_namespace_of(root.config))}:
            lock_namespaces(namespaces)  # of all trees before the first change, which would lock those of its own
        for root in roots:
            root.backend = found[root.pk][0].root_pool.backend
            work, ending = WorkflowTransition(root, [row.pk for row in found[root.pk]], now=database_time()), []
            for workflow in work.workflows.values():
                try:
                    _require_cancellable(workflow)
                except DomainError as refusal:
                    refusals[workflow.name] = refusal.message
                else:
                    ending.append(workflow)
            _cancel_all(work, ending, actor, message)
    return refusals


def cancel_pending_workflows(*, actor: Actor, leaf: Pool) -> int:
    """Cancel every PENDING workflow of a leaf (design, D3), except those of an observed cluster, which its own
    scheduler keeps, and return their number. The caller holds the tree's lock."""
    pending = Workflow.objects.filter(pool=leaf, status=WorkflowStatus.PENDING, observed=None)
    work = WorkflowTransition(leaf.root, list(pending.values_list("pk", flat=True)), now=database_time())
    _cancel_all(work, work.workflows.values(), actor, f"{leaf.name} was deleted")
    return len(work.workflows)


def end_workflow(command: EndWorkflow, *, actor: Actor, description: str = "") -> Workflow:
    """Report the end of the running gangs (or of one) of a workflow on a simulated backend. For an admin of the pool.
    The exit actions of the gangs may change the result.

    Raises Conflict for a gang that is not running and for a cluster, where ends are observed, NotFound for an
    unknown group.
    """
    visible = require_manage(actor, command.name)
    group, status = command.group, TaskStatus(command.status)
    with change(actor=actor, description=description):
        root = _lock_root(visible)
        assert root.backend is not None
        if root.backend.kind != Backend.Kind.SIMULATED:
            raise Conflict(f"Cluster {root.backend.name} runs on Kubernetes; the end of work is observed there.")
        work = WorkflowTransition(root, [visible.pk], now=database_time())
        groups = work.groups[visible.pk]
        if group is not None and group not in groups:
            raise NotFound(f"Workflow {visible.name} has no such group. It has {', '.join(groups)}.")
        requested = list(groups.values()) if group is None else [groups[group]]
        running = [each for each in requested if each.status == TaskStatus.RUNNING]
        if not running:
            what = f"Group {group} of workflow {visible.name}" if group else f"Workflow {visible.name}"
            states = ", ".join(f"{each.name} {each.status}" for each in requested)
            message = f"{what} is not running ({states}); only a running group can end."
            raise Conflict(message, [Violation("group", Fault.NOT_RUNNING, message)], workflow_id=visible.name)
        for each in running:
            work.report_end(each, status, description if status is not TaskStatus.COMPLETED else "")
        work.save()
    return work.workflows[visible.pk]


def tag_workflow(command: TagWorkflow, *, actor: Actor, description: str = "") -> Workflow:
    """Remove tags, then add tags. For the owner or an admin of the pool. A repetition is not an error."""
    visible = require_own_or_manage(actor, command.name)
    rule = "1 to 63 letters, digits and - _ . : /, a letter or digit first and last"
    found = [
        Violation("add", Fault.BAD_TAG, f"A tag is not valid: {rule}.") for tag in command.add if not _TAG.match(tag)
    ]
    if found:
        raise BadInput.of(found)
    with change(actor=actor, description=description):
        workflow = lock_workflow(visible.pk)
        tags = dict.fromkeys([tag for tag in workflow.tags if tag not in command.remove] + list(command.add))
        if len(tags) > MAX_TAGS:
            message = f"{workflow.name} would have {len(tags)} tags; at most {MAX_TAGS} are allowed. Remove some."
            raise BadInput.of([Violation("add", Fault.TOO_MANY, message)])
        workflow.tags = list(tags)
        workflow.save(update_fields=["tags"])
    return workflow


def may_cancel(actor: Actor, workflow: Workflow) -> bool:
    """Whether :func:`cancel_workflow` allows this actor."""
    root = workflow.root_pool.name
    if _is_own(actor, workflow):
        return may_as_owner(actor, Permission.POOL_SUBMIT, root)
    return is_allowed(actor, Permission.POOL_MANAGE_WORK, root)


def require_own_or_manage(actor: Actor, name: str) -> Workflow:
    """The workflow, if the actor owns it (through a token with fewer roles: and may submit to its pool) or is an admin
    of its pool. Raises NotFound, Forbidden."""
    workflow = get_visible_workflow(actor, name)
    if _is_own(actor, workflow):
        require_as_owner(actor, Permission.POOL_SUBMIT, workflow.root_pool.name)
    else:
        require_permission(actor, Permission.POOL_MANAGE_WORK, workflow.root_pool.name)
    return workflow


def _is_own(actor: Actor, workflow: Workflow) -> bool:
    return actor.user_id is not None and workflow.submitted_by_id == actor.user_id


def require_manage(actor: Actor, name: str) -> Workflow:
    """The workflow, if the actor is an admin of its pool. Raises NotFound, Forbidden."""
    workflow = get_visible_workflow(actor, name)
    require_permission(actor, Permission.POOL_MANAGE_WORK, workflow.root_pool.name)
    return workflow


def _require_cancellable(workflow: Workflow) -> None:
    """Raises Conflict for work of an observed cluster, to which nothing is written, and BadInput for work that has
    ended."""
    if message := observed_obstacle(workflow.name, find_observed_object(workflow), ObservedAction.CANCEL):
        raise Conflict(message, [Violation("name", Fault.CLUSTER_OBSERVED, message)], workflow_id=workflow.name)
    if not WorkflowStatus(workflow.status).is_active:
        message = f"Workflow {workflow.name} has already ended ({workflow.status}); there is nothing to cancel."
        raise BadInput(message, [Violation("status", Fault.ENDED, message)], workflow_id=workflow.name)


def _lock_root(workflow: Workflow) -> Pool:
    root = lock_pool_tree(workflow.root_pool_id)
    root.backend = workflow.root_pool.backend
    return root


def _cancel_all(work: WorkflowTransition, workflows: Iterable[Workflow], actor: Actor, message: str) -> None:
    for workflow in workflows:
        reason = message or f"cancelled by {actor.username}"
        is_own = actor.username == workflow.submitted_by.username
        why = None if is_own else InterruptionFacts(EndCause.PERSON, by_user=actor.username, note=message)
        work.end_open_groups(workflow, TaskStatus.FAILED_CANCELED, reason, include_waiting=True, why=why)
        workflow.cancelled_by = actor.username
        workflow.failure_message = message
    work.save()
