"""Dry runs of a change: the real service runs, its effect is read, and the transaction is rolled back.

A change and its dry run therefore share one code path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NotRequired, TypedDict

from django.db import transaction

from pools.database.transactions import one_snapshot, read_changes, reset_changes
from pools.domain.approvals import ApprovalNeeded
from pools.domain.errors import BadInput, Conflict, DomainError, Fault, Violation, ViolationAnswer
from pools.domain.people.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import JsonAmount
from pools.models import Pool, Reservation
from pools.representations.subpool import PoolTreeAnswer, pool_tree_body
from pools.services.changes.approval_check import approved
from pools.services.changes.shown_effects import note_memos, tokens_before
from pools.signals import AffectedWorkflows, Impact, ImpactReader, impact_requested


class ImpactBody(TypedDict):
    """The workflows that a change would concern: the names that the actor may see, and the number of others."""

    may_be_reclaimed: list[str]
    may_be_reclaimed_elsewhere: int
    could_start: list[str]
    could_start_elsewhere: int
    could_no_longer_start: list[str]
    could_no_longer_start_elsewhere: int


class NodeBody(TypedDict):
    """A resource of a node of the cohort trees."""

    name: str
    kind: str
    flavor: str
    resource: str


class NumberChangeBody(TypedDict):
    """A number before and after a change; null where the node is not in a cohort tree."""

    before: JsonAmount | None
    after: JsonAmount | None


class NeighbourAnswer(NodeBody):
    """A node whose numbers a change moves."""

    numbers: dict[str, NumberChangeBody]


class DebtAnswer(NodeBody, NumberChangeBody):
    """A debt that a change moves."""


class FieldChangeAnswer(TypedDict):
    """A value of the configuration that differs."""

    path: str
    before: Any
    after: Any


class EffectAnswer(ImpactBody):
    """The effect of a change, which is not made; the last keys are there for a change of a pool or a cohort."""

    dry_run: bool
    before: Any
    after: Any
    violations: list[ViolationAnswer]
    warnings: list[str]
    draining: list[str]
    changes: NotRequired[list[FieldChangeAnswer]]
    neighbours: NotRequired[list[NeighbourAnswer]]
    debts: NotRequired[list[DebtAnswer]]
    becomes_reclaimable: NotRequired[list[str]]


def effect_on_pool_tree(root_name: str, operation: Callable[[], object], *, actor: Actor) -> EffectAnswer:
    """The effect of `operation` on a pool's tree (design, A2, `dry_run`); `before` is None for a pool that does
    not exist yet. See :func:`read_effect`."""
    return read_effect(
        operation,
        read_state=lambda: read_pool_tree(root_name),
        read_draining=lambda: _draining_workflows(root_name),
        actor=actor,
    )


def read_effect(
    operation: Callable[[], object],
    *,
    read_state: Callable[[], Any],
    read_state_after: Callable[[], Any] | None = None,
    read_draining: Callable[[], list[str]] = list,
    actor: Actor | None = None,
) -> EffectAnswer:
    """The effect of `operation`, which runs and is rolled back: the state before it (`read_state`) and after it
    (`read_state_after`, or `read_state` again).

    `warnings` are those that the change itself would answer with. `draining` are the workflows of `read_draining` that
    do not drain before the change. A change that a rule forbids (quota, name, state) has violations and no `after`; one
    that needs the approval of a second person has violations of code `approval_needed` and its effect. Unreadable
    input, missing objects and missing roles raise as in a real change. With `actor` the effect also says which
    workflows the next scheduling cycle would treat differently after the change (:class:`pools.signals.Impact`): those
    that the actor may see by name, the others as a number.
    """
    violations, after, drains, warnings = [], None, [], []
    impact_readers: list[ImpactReader] = []
    with one_snapshot():
        before, draining_before, tokens = read_state(), set(read_draining()), tokens_before()
    try:
        with transaction.atomic():
            reset_changes()
            result, needed = _run_past_approval(operation)
            warnings = warnings_of(result)
            violations = [violation.as_dict() for violation in needed]
            after = (read_state_after or read_state)()
            drains = [name for name in read_draining() if name not in draining_before]
            if actor is not None and (backend_ids := read_changes().backend_ids):
                answers: list[Any] = impact_requested.send(
                    sender=None, actor=actor, backend_ids=backend_ids, tokens=tokens
                )
                impact_readers = [read_impact for _, read_impact in answers]
            transaction.set_rollback(True)
    except (BadInput, Conflict) as refusal:
        if _is_unreadable(refusal):
            raise
        violations = [violation.as_dict() for violation in refusal.violations]
    # This may take seconds, so it holds no lock.
    impact = [read_impact() for read_impact in impact_readers]
    note_memos(memo for each in impact for memo in each.memos)
    return {
        "dry_run": True,
        "before": before,
        "after": after,
        "violations": violations,
        "warnings": warnings,
        "draining": drains,
        **impact_body(impact),  # type: ignore[typeddict-item]  # it has none of the keys that are not always there
    }


def _run_past_approval(operation: Callable[[], object]) -> tuple[object, tuple[Violation, ...]]:
    """The result of the operation, and the approvals that it needs: the effect is shown all the same."""
    try:
        return operation(), ()
    except ApprovalNeeded as refusal:
        with approved():
            return operation(), refusal.violations


def impact_body(impact: Collection[Impact]) -> ImpactBody:
    """The keys of an effect about workflows."""
    reclaimed, starting, blocked = (
        [getattr(each, kind) for each in impact] for kind in ("reclaimed", "starting", "blocked")
    )
    return {
        "may_be_reclaimed": _names(reclaimed),
        "may_be_reclaimed_elsewhere": _count_hidden(reclaimed),
        "could_start": _names(starting),
        "could_start_elsewhere": _count_hidden(starting),
        "could_no_longer_start": _names(blocked),
        "could_no_longer_start_elsewhere": _count_hidden(blocked),
    }


def _names(affected: Iterable[AffectedWorkflows]) -> list[str]:
    return [name for each in affected for name in each.names]


def _count_hidden(affected: Iterable[AffectedWorkflows]) -> int:
    return sum(each.hidden_count for each in affected)


def warnings_of(result: object) -> list[str]:
    """The warnings of the result of a change, or of a list of results, each once."""
    results = result if isinstance(result, list) else [result]
    return list(dict.fromkeys(text for each in results for text in getattr(each, "warnings", ())))


_UNREADABLE = {Fault.UNKNOWN_KEY, Fault.MISSING, Fault.BAD_VALUE, Fault.BAD_QUOTA, Fault.BAD_JSON, Fault.BAD_QUERY}


def _is_unreadable(refusal: DomainError) -> bool:
    return bool(refusal.details) and any(violation.code in _UNREADABLE for violation in refusal.details)


def read_pool_tree(root_name: str) -> PoolTreeAnswer | None:
    """A pool's tree as dry runs show it, None if there is none."""
    root = Pool.objects.roots().select_related("backend").filter(name=root_name).first()
    return pool_tree_body(root) if root else None


def _draining_workflows(root_name: str) -> list[str]:
    """Names of the live workflows on the DELETING subpools."""
    rows = Reservation.objects.filter(pool__parent__name=root_name, pool__subpool_state=SubpoolState.DELETING)
    return list(rows.order_by("created_at", "workflow_name").values_list("workflow_name", flat=True))
