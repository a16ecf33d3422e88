"""Requests for approval by a second person: ask, approve, reject, withdraw, expire (docs/approvals.md).

An approval calls the stored service again, in the name of the approver, under its usual locks and checks and with the
version of the object that the requester saw. A request whose object changed meanwhile is superseded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from pools.database.one_by_one import work_in_batch
from pools.database.transactions import change, database_time
from pools.domain.approvals import ApprovalNeeded, ApprovalState
from pools.domain.changes.approvable import APPROVABLE
from pools.domain.changes.approvals import Approve, Reject, Withdraw
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.pools import DeletePool, PatchPool, PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.errors import BadInput, Conflict, Fault, Forbidden, NotFound, Stale, Throttled, Violation
from pools.domain.people.roles import SYSTEM, Actor, is_allowed, may_as_owner
from pools.locking import lock_approval, lock_user
from pools.models import ApprovalRequest, Pool, User
from pools.permissions import require_as_owner, require_permission
from pools.services.changes.approval_check import approved
from pools.services.changes.shown_effects import effect_in_transaction
from pools.services.configuration.pools import delete_pool, patch_pool, put_pool
from pools.services.configuration.subpools import create_subpool, delete_subpool, resize_subpool

_SERVICES: Mapping[type[ChangeCommand], Callable[..., object]] = {
    PutPool: put_pool,
    PatchPool: patch_pool,
    DeletePool: delete_pool,
    CreateSubpool: create_subpool,
    ResizeSubpool: resize_subpool,
    DeleteSubpool: delete_subpool,
}
MAX_WAITING = 50
"""Requests of one person that wait at the same time: each is a notice to everybody who can decide."""
EXPIRED_NOTE = "nobody decided in time"


def request_approval(
    command: ChangeCommand,
    *,
    actor: Actor,
    need: ApprovalNeeded,
    description: str = "",
    tags: Sequence[str] | None = None,
) -> ApprovalRequest:
    """Store the change that the service refused with `need`. A repetition of a waiting request returns that request.

    Raises Conflict if another request for the same object waits, Throttled if too many of the actor's requests wait.
    """
    new = ApprovalRequest(
        service=command.service,
        arguments={**command.as_json(), **need.resolved, **({"tags": tags} if command.has_tags else {})},
        arguments_format=command.format,
        subject=need.subject,
        pool=need.subject.partition("--")[0],
        pool_id_then=need.pool_id,
        expected_version=need.version,
        above=need.limit,
        needs=[dict(each.numbers) for each in need.violations],
        description=description,
        requested_by=actor.username,
    )
    waiting = ApprovalRequest.objects.filter(subject=need.subject, state=ApprovalState.WAITING)
    with change(actor=actor, description=description):
        lock_user(actor.username)
        _expire(ApprovalRequest.objects.filter(subject=need.subject))
        if (other := waiting.first()) is not None:
            return _same_request(other, new)
        _require_room(actor)
        new.expires_at = database_time() + timedelta(hours=settings.OSMO.approval_hours)
        try:
            with transaction.atomic():
                new.save()
        except IntegrityError:
            if (other := waiting.first()) is None:
                raise
            return _same_request(other, new)  # of a person who requested it at the same moment
        new.refresh_from_db()
        return new


def _same_request(waiting: ApprovalRequest, new: ApprovalRequest) -> ApprovalRequest:
    """The waiting request, if `new` is the same once more. Raises Conflict for another one."""
    if _content(waiting) == _content(new):
        return waiting
    message = (
        f"Request {waiting.pk} of {waiting.requested_by} for {waiting.subject} waits already: one change of an object "
        "is decided at a time. Decide or withdraw it first."
    )
    raise Conflict(message, [Violation("", Fault.APPROVAL_WAITS_ONCE, message, numbers=(("request", waiting.pk),))])


def _content(row: ApprovalRequest) -> tuple[object, ...]:
    """What makes two requests the same; a value of null is the same as a missing one."""
    arguments = {name: value for name, value in row.arguments.items() if value is not None}
    return (row.service, arguments, row.arguments_format, row.expected_version, row.requested_by)


def _require_room(actor: Actor) -> None:
    if ApprovalRequest.objects.waiting().filter(requested_by=actor.username).count() >= MAX_WAITING:
        message = (
            f"{MAX_WAITING} requests of yours wait for a decision, which is the most. Withdraw one, or wait until "
            "somebody decides. Nothing was changed."
        )
        raise Throttled(
            message,
            [Violation("", Fault.TOO_MANY_APPROVALS, message, numbers=(("limit", MAX_WAITING),))],
            retry_after=600,
        )


def list_requests(actor: Actor) -> QuerySet[ApprovalRequest]:
    """The requests that the actor may see, the newest first."""
    return ApprovalRequest.objects.visible_to(actor).order_by("-pk")


def get_request(actor: Actor, pk: int) -> ApprovalRequest:
    """One request. Raises NotFound."""
    row = list_requests(actor).filter(pk=pk).first()
    if row is None:
        raise NotFound(f"There is no approval request {pk}, or you have no role on its pool.")
    return row


def may_decide(actor: Actor, row: ApprovalRequest) -> bool:
    """Whether the actor may approve or reject this request: another person with the permission for the change."""
    return actor.username != row.requested_by and is_allowed(actor, row.permission, _pool_now(row))


def may_withdraw(actor: Actor, row: ApprovalRequest) -> bool:
    """Whether the actor may take this request back: the requester, with every token that could request the change."""
    return actor.username == row.requested_by and may_as_owner(actor, row.permission, _pool_now(row))


def _pool_now(row: ApprovalRequest) -> str:
    """The name that the pool of a request has now, by which people have their roles; that of then if it is gone."""
    known: str | None = getattr(row, "pool_now", None)
    return known or Pool.objects.filter(pk=row.pool_id_then).values_list("name", flat=True).first() or row.pool


def count_decidable(actor: Actor) -> int:
    """The number of waiting requests that the actor may decide."""
    waiting = ApprovalRequest.objects.visible_to(actor).waiting().exclude(requested_by=actor.username)
    return sum(may_decide(actor, row) for row in waiting)


def approve(command: Approve, *, actor: Actor, description: str = "") -> ApprovalRequest:
    """Make the requested change, in the name of `actor`.

    Raises Forbidden (the requester; a missing role), Conflict (decided already, expired, superseded; the requester lost
    the role), and the errors of the change itself, after which the request still waits.
    """
    row = get_request(actor, command.approval)
    _require_second_person(actor, row)
    try:
        with change(actor=actor, description=_description(row, actor)):
            row = _lock_waiting(row.pk)
            _require_requester(row)
            title, note = f"Approve request {row.pk}", _description(row, actor)
            with (
                transaction.atomic(),
                effect_in_transaction(actor=actor, title=title, description=note),
            ):
                run_requested(actor, row)
            return _decide(row, ApprovalState.APPROVED, actor, description)
    except (Stale, NotFound) as refusal:
        reason = refusal.message
    _supersede(actor, row.pk, reason)
    message = (
        f"Request {row.pk} was not approved, because {row.subject} changed after it was made: {reason} The request is "
        f"superseded; {row.requested_by} can make a new one from the present state."
    )
    raise Conflict(message, [Violation("", Fault.APPROVAL_SUPERSEDED, message)])


def reject(command: Reject, *, actor: Actor, description: str = "") -> ApprovalRequest:
    """Refuse the requested change. Raises Forbidden, Conflict like :func:`approve`."""
    row = get_request(actor, command.approval)
    _require_second_person(actor, row)
    with change(actor=actor, description=description or f"rejected the request of {row.requested_by}"):
        return _decide(_lock_waiting(row.pk), ApprovalState.REJECTED, actor, description)


def withdraw(command: Withdraw, *, actor: Actor, description: str = "") -> ApprovalRequest:
    """Take the own request back. Raises Forbidden for another person, Conflict for a decided request."""
    row = get_request(actor, command.approval)
    if row.requested_by != actor.username:
        message = f"Request {row.pk} is of {row.requested_by}, who alone can withdraw it. You can reject it instead."
        raise Forbidden(message, [Violation("", Fault.NOT_REQUESTER, message)])
    require_as_owner(actor, row.permission, _pool_now(row))
    with change(actor=actor, description=description):
        return _decide(_lock_waiting(row.pk), ApprovalState.WITHDRAWN, actor, description)


def expire_requests() -> int:
    """Expire the requests that nobody decided in time, and return their number."""
    due = ApprovalRequest.objects.filter(state=ApprovalState.WAITING, expires_at__lte=Now())
    return work_in_batch("the expiry of a request for approval", list(due.values_list("pk", flat=True)), _expire_some)


def _expire_some(requests: Sequence[int]) -> int:
    if not requests:
        return 0
    with change(actor=SYSTEM, description=EXPIRED_NOTE):
        return _expire(ApprovalRequest.objects.filter(pk__in=requests))


def run_requested(actor: Actor, row: ApprovalRequest) -> object:
    """Make the requested change without a further approval; also the operation of its dry run. Raises Stale if the
    object is another one by now."""
    if not Pool.objects.roots().filter(pk=row.pool_id_then, name=row.pool).exists():
        raise Stale(f"Pool {row.pool} was renamed or removed.")
    if row.expected_version is None and Pool.objects.filter(name=row.subject).exists():
        raise Stale(f"{row.subject} exists by now.")
    command, note = _read_stored(row)
    with approved():
        return _SERVICES[type(command)](
            command, actor=actor, description=_description(row, actor), expected_version=row.expected_version, **note
        )


def _read_stored(row: ApprovalRequest) -> tuple[ChangeCommand, dict[str, Any]]:
    """The stored change, and its tags. Raises Conflict, after which the request still waits, if another
    version of the product stored what this one cannot read."""
    kind, values, note = APPROVABLE.get(row.service), dict(row.arguments), {}
    if kind is not None and kind.has_tags:
        note["tags"] = values.pop("tags", None)
    try:
        if kind is not None:
            return kind.from_json(values, row.arguments_format), note
    except BadInput:
        pass
    message = (
        f"Request {row.pk} was stored by another version of the product and cannot be read here, so nothing was "
        f"changed. It still waits: {row.requested_by} can withdraw it and ask again."
    )
    raise Conflict(message, [Violation("", Fault.APPROVAL_UNREADABLE, message)])


def _description(row: ApprovalRequest, actor: Actor) -> str:
    """The reason in the audit trail, which names both people."""
    about = f"request {row.pk} of {row.requested_by}, approved by {actor.username}"
    return f"{about}: {row.description}" if row.description else about


def _require_second_person(actor: Actor, row: ApprovalRequest) -> None:
    require_permission(actor, row.permission, _pool_now(row))
    if actor.username == row.requested_by:
        message = (
            f"Request {row.pk} is your own: a second person with the role for this change approves or rejects it. You "
            "can withdraw it."
        )
        raise Forbidden(message, [Violation("", Fault.APPROVAL_BY_SECOND_PERSON, message)])


def _require_requester(row: ApprovalRequest) -> None:
    """The requester must still have the permission for the change: else one person alone stands behind it."""
    user = User.objects.filter(username=row.requested_by, is_active=True, date_joined__lte=row.requested_at).first()
    if user is None or not is_allowed(user.as_actor(), row.permission, _pool_now(row)):
        message = (
            f"{row.requested_by} has no role for this change any more, so request {row.pk} cannot be approved. Reject "
            "it, or make the change as a request of your own."
        )
        raise Conflict(message, [Violation("", Fault.REQUESTER_LOST_ROLE, message)])


def _lock_waiting(pk: int) -> ApprovalRequest:
    """Lock a request. Raises Conflict unless it waits for a decision."""
    row = lock_approval(pk)
    if row.state != ApprovalState.WAITING:
        by = f" by {row.decided_by}" if row.decided_by else ""
        message = f"Request {pk} is {row.state}{by} already; a decision is final."
        raise Conflict(message, [Violation("state", Fault.APPROVAL_IS_FINAL, message)])
    if row.expires_at <= database_time():
        message = f"Request {pk} expired at {row.expires_at:%Y-%m-%d %H:%M} UTC. {row.requested_by} can make it again."
        raise Conflict(message, [Violation("expires_at", Fault.APPROVAL_EXPIRED, message)])
    return row


def _decide(row: ApprovalRequest, state: ApprovalState, actor: Actor, note: str) -> ApprovalRequest:
    row.state, row.decided_by, row.decided_at, row.decision_note = state, actor.username, database_time(), note
    row.save(update_fields=["state", "decided_by", "decided_at", "decision_note"])
    return row


def _supersede(actor: Actor, pk: int, reason: str) -> None:
    """Another decision may have come first; then that one counts."""
    with change(actor=actor, description=reason):
        row = lock_approval(pk)
        if row.state == ApprovalState.WAITING:
            _decide(row, ApprovalState.SUPERSEDED, actor, reason)


def _expire(rows: QuerySet[ApprovalRequest]) -> int:
    due = rows.filter(state=ApprovalState.WAITING, expires_at__lte=Now())
    return due.update(state=ApprovalState.EXPIRED, decided_at=Now(), decision_note=EXPIRED_NOTE)
