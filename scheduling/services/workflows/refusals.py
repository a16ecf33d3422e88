"""Refusals of a submission: the judgement of a leaf, and the errors, each with one message and then all faults at once
(design, O7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings

from pools.domain.errors import BadInput, DomainError, ErrorCode, Fault, Throttled, Violation
from pools.domain.people.roles import Actor
from pools.domain.values.counting import counted
from pools.locking import LeafReading
from pools.models import Pool
from pools.selectors.clusters import is_observed
from pools.selectors.quotas.quota_potential import potential_limit
from scheduling.domain.flavor_choices import PoolFlavors
from scheduling.domain.judgement.admission import (
    FlavorLimits,
    LeafFacts,
    SubmissionRefusal,
    TreeLimit,
    submission_verdict,
)
from scheduling.domain.priorities import Priority
from scheduling.domain.workflow_spec import WorkflowSpec

MAX_DETAILS = 500
ROOM_RETRY_SECONDS = 60


def find_refusal(
    actor: Actor,
    leaf: Pool,
    found: LeafReading,
    works: Sequence[tuple[Priority, WorkflowSpec]],
    flavors: PoolFlavors,
) -> DomainError | None:
    """Why the leaf does not take these workflows, or None: first the verdict on each (design, D5), then the limit of
    the user's live workflows."""
    root = found.root
    facts = LeafFacts(
        pool=leaf.name,
        limits=_limits(root, found),
        parts=root.part_flavors,
        state=found.state,
        archived=root.archived,
        maintenance=root.enable_maintenance,
        observed=backend.name if (backend := leaf.root.backend) is not None and is_observed(backend) else "",
    )
    refusals = [
        submission_verdict(
            facts,
            priority=priority,
            gangs=[flavors.needs_of(group) for group in spec.groups],
            ignores_maintenance=actor.is_admin,
        )
        for priority, spec in works
    ]
    if first := next(filter(None, refusals), None):
        if len(works) == 1 or not first.is_by_quota:  # a closed pool refuses all of them; one message is enough
            return verdict_refusal(first, works[0][1].name if len(works) == 1 else None)
        return batch_refusal([refusal.violations if refusal else () for refusal in refusals], ErrorCode.RESOURCE)
    return find_room_refusal(actor, found.live, len(works))


def _limits(root: Pool, found: LeafReading) -> dict[str, FlavorLimits]:
    """What bounds a submission to the leaf, by flavor."""
    limits = {}
    for flavor, quota, maximum in found.quotas:
        most = potential_limit(root, flavor)
        tree = None if most is None else TreeLimit(most.gpus, most.node, most.limit, most.bound)
        limits[flavor] = FlavorLimits(quota, maximum, tree)
    return limits


def find_room_refusal(actor: Actor, live: int, requested: int) -> Throttled | None:
    """The refusal if this number of workflows and the live ones of the user are too many together, or None."""
    limit = settings.OSMO.max_live_workflows
    return live_work_refusal(actor.username, live, requested, limit) if live + requested > limit else None


def file_refusal(faults: Sequence[Violation]) -> BadInput:
    """The file of one workflow is not valid."""
    more = f" ({len(faults) - 1} more in details)" if len(faults) > 1 else ""
    message = f"The workflow file is not valid: {_location_text(faults[0])}{faults[0].message}{more}"
    return BadInput(message, faults, error_code=_error_code(faults))


def verdict_refusal(refusal: SubmissionRefusal, name: str | None) -> BadInput:
    """The file is valid, but the pool refuses it. `name` is the name of the workflow, if there is only one."""
    code = ErrorCode.RESOURCE if refusal.is_by_quota else ErrorCode.USAGE
    return BadInput(refusal.message, refusal.violations, error_code=code, workflow_id=name)


def worker_cap_refusal(faults: Sequence[Sequence[Violation]]) -> BadInput:
    """Tasks of some workflows exceed a cap on one worker, so they would wait forever. The message is that of the
    first."""
    if len(faults) == 1:
        return BadInput(faults[0][0].message, faults[0][:MAX_DETAILS], error_code=ErrorCode.RESOURCE)
    return batch_refusal(faults, ErrorCode.RESOURCE)


def live_work_refusal(username: str, live: int, requested: int, limit: int) -> Throttled:
    """The user has too many workflows that have not ended. Nobody knows when the next one ends, so the answer proposes
    to ask again after a while."""
    have = counted(live, "workflow that has", "workflows that have")
    message = (
        f"{username} has {have} not ended; with the {requested} of this request there would be more than {limit}, the "
        "most of one user. Nothing was stored: wait until some have ended, or cancel some."
    )
    numbers = (("live", live), ("requested", requested), ("limit", limit))
    violation = Violation("workflow", Fault.TOO_MANY_LIVE_WORKFLOWS, message, numbers=numbers)
    return Throttled(message, [violation], error_code=ErrorCode.RESOURCE, retry_after=ROOM_RETRY_SECONDS)


def batch_refusal(
    faults: Sequence[Sequence[Violation]], error_code: ErrorCode | None = None, *, unread: int = 0
) -> BadInput:
    """Some of several workflows are refused, so none was submitted. `faults` are the faults of each workflow, in order;
    each path in the answer begins with the position of its workflow. `unread`: workflows behind these that were not
    read, because a template was too slow."""
    found = [
        replace(fault, path=f"workflows[{index}].{fault.path}") for index, each in enumerate(faults) for fault in each
    ]
    refused = sum(1 for each in faults if each)
    unlisted = len(found) - MAX_DETAILS
    listed = found[:MAX_DETAILS]
    if unlisted > 0:
        listed.append(
            Violation(
                "workflows",
                Fault.MORE,
                f"{counted(unlisted, 'more fault is', 'more faults are')} not listed. Correct these first.",
            )
        )
    if unread:
        text = f"The {unread} workflows after it were" if unread > 1 else "The workflow after it was"
        listed.append(
            Violation("workflows", Fault.NOT_READ, f"{text} not read: a template was too slow. Correct it first.")
        )
    message = (
        f"{refused} of {counted(len(faults) + unread, 'workflow')} cannot be submitted, so none was: "
        f"{_location_text(found[0])}{found[0].message}"
    )
    return BadInput(message, listed, error_code=error_code or _error_code(found))


def _location_text(fault: Violation) -> str:
    """Where the fault is; without the path where the message begins with it."""
    path = [] if fault.message.startswith((f"{fault.path} ", f"{fault.path}:")) else [fault.path]
    place = ", ".join([f"line {fault.line}"] * bool(fault.line) + path)
    return f"{place}: " if place else ""


def _error_code(faults: Sequence[Violation]) -> ErrorCode:
    """Faults that no correction of the file can remove are about resources (design, O7.3: no platform)."""
    return ErrorCode.RESOURCE if all(fault.code == Fault.NO_PLATFORM for fault in faults) else ErrorCode.USAGE
