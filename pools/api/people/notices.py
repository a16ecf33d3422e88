"""Notices: where they go, which are chosen, and what came of them (docs/notices.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change, effect_on
from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import NULL, ZonedText, describe_operation
from pools.api.views import View
from pools.domain.changes.notices import (
    CreateTarget,
    DeleteTarget,
    NoticeChange,
    RenewSecret,
    ReplayDeadNotices,
    ReplayNotice,
    SendTest,
    UpdateTarget,
)
from pools.domain.errors import Conflict, Fault, Violation
from pools.domain.lists import NoticeQuery
from pools.domain.people.notices import Channel, NoticeKind, NoticeStatus
from pools.domain.people.roles import Actor
from pools.models import Notice, NoticeTarget
from pools.selectors.list_order import read_part
from pools.services.people.notice_targets import (
    create_target,
    delete_target,
    get_target,
    list_notices,
    list_targets,
    renew_secret,
    replay_dead_notices,
    replay_notice,
    require_owner,
    send_test,
    update_target,
)


class TargetAnswer(TypedDict):
    """Where notices go; never with its secrets."""

    id: int
    name: str
    user: str | None
    pool: str | None
    channel: Annotated[str, Channel]
    address: str
    kinds: list[Annotated[str, NoticeKind]]
    pools: list[str]
    quiet_hours: str
    enabled: bool
    follows_profile: bool
    failures: int
    retry_at: ZonedText | None
    off_reason: str


class NewTargetAnswer(TypedDict):
    """A new destination. Only this answer has the secret that verifies its signatures."""

    target: TargetAnswer
    secret: str | None


class SecretAnswer(TypedDict):
    """The secret that verifies the signatures of a webhook."""

    secret: str


class NoticeAnswer(TypedDict):
    """A notice with what came of it."""

    id: str
    target: int
    target_name: str
    kind: Annotated[str, NoticeKind]
    subject: str
    title: str
    text: str
    status: Annotated[str, NoticeStatus]
    attempts: int
    created_at: ZonedText
    attempted_at: ZonedText | None
    ended_at: ZonedText | None
    error: str


class NoticeListAnswer(TypedDict):
    """A page of notices."""

    notices: list[NoticeAnswer]
    more_entries: bool


class SentAgainAnswer(TypedDict):
    """The number of notices that are sent again."""

    notices: int


def _require_owner(actor: Actor, address: Mapping[str, Any]) -> None:
    require_owner(actor, get_target(actor, address["target"]))


def _all_bodies(_: NoticeChange, actor: Actor) -> list[TargetAnswer]:
    return [target_body(row) for row in list_targets(actor)]


def _one_body(command: UpdateTarget, actor: Actor) -> TargetAnswer:
    return target_body(get_target(actor, command.target))


def _left_bodies(command: DeleteTarget, actor: Actor) -> list[TargetAnswer]:
    return [target_body(row) for row in list_targets(actor).filter(pk=command.target)]


def _new_body(made: tuple[NoticeTarget, str]) -> NewTargetAnswer:
    return {"target": target_body(made[0]), "secret": made[1] or None}


def _secret_body(secret: str) -> SecretAnswer:
    return {"secret": secret}


def _number_body(count: int) -> SentAgainAnswer:
    return {"notices": count}


def _secret_was_shown(done: str) -> Conflict:
    message = (
        f"{done} by the first request with this Idempotency-Key. A secret was in that answer only. If it was lost, ask "
        "for a new one: POST /api/notices/target/ID/secret."
    )
    return Conflict(message, [Violation("Idempotency-Key", Fault.SECRET_SHOWN_ONCE, message)])


def _repeat_creation(command: CreateTarget) -> Response:
    raise _secret_was_shown(f"The destination {command.name} was added")


def _repeat_renewal(_: RenewSecret) -> Response:
    raise _secret_was_shown("The secret was replaced")


def target_body(row: NoticeTarget) -> TargetAnswer:
    """A destination as lists show it: never with its secrets."""
    return {
        "id": row.pk,
        "name": row.name,
        "user": row.user.username if row.user else None,
        "pool": row.pool.name if row.pool else None,
        "channel": row.channel,
        "address": row.user.email if row.is_profile and row.user else row.shown_address,
        "kinds": row.kinds,
        "pools": row.pools,
        "quiet_hours": row.quiet_hours,
        "enabled": row.is_enabled,
        "follows_profile": row.is_profile,
        "failures": row.failures,
        "retry_at": zoned_text(row.retry_at) if row.retry_at else None,
        "off_reason": row.off_reason,
    }


def notice_body(row: Notice) -> NoticeAnswer:
    """A notice with what came of it."""
    return {
        "id": f"msg_{row.message_id.hex}",
        "target": row.target_id,
        "target_name": row.target.name,
        "kind": row.kind,
        "subject": row.subject,
        "title": row.title,
        "text": row.text,
        "status": row.status,
        "attempts": row.attempts,
        "created_at": zoned_text(row.created_at),
        "attempted_at": zoned_text(row.attempted_at) if row.attempted_at else None,
        "ended_at": zoned_text(row.ended_at) if row.ended_at else None,
        "error": row.error,
    }


_CREATION: ChangeAnswer[CreateTarget, tuple[NoticeTarget, str]] = ChangeAnswer(
    _new_body, effect_on(_all_bodies), repeat_secret=_repeat_creation
)
_UPDATE: ChangeAnswer[UpdateTarget, NoticeTarget] = ChangeAnswer(
    target_body, effect_on(_one_body), guard=_require_owner
)
_DELETION: ChangeAnswer[DeleteTarget, None] = ChangeAnswer(
    answer_nothing, effect_on(_left_bodies), guard=_require_owner
)
_TEST: ChangeAnswer[SendTest, Notice] = ChangeAnswer(notice_body, guard=_require_owner)
_RENEWAL: ChangeAnswer[RenewSecret, str] = ChangeAnswer(
    _secret_body, guard=_require_owner, repeat_secret=_repeat_renewal
)
_REPLAY_DEAD: ChangeAnswer[ReplayDeadNotices, int] = ChangeAnswer(_number_body, guard=_require_owner)
_REPLAY: ChangeAnswer[ReplayNotice, Notice] = ChangeAnswer(notice_body)


class NoticeTargetList(View):
    """Where notices go: the caller's own destinations, those of administered pools, and those of the installation."""

    @describe_operation("List the destinations of notices; never their secrets.", answer=list[TargetAnswer])
    def get(self, request: Request) -> Response:
        return Response([target_body(row) for row in list_targets(self.actor)])

    @describe_change(CreateTarget, required=("name", "channel", "address"), answer=NewTargetAnswer)
    def post(self, request: Request) -> Response:
        return answer_change(self, CreateTarget, create_target, _CREATION, {})


class NoticeTargetDetail(View):
    """One target."""

    @describe_operation("Show a destination of notices.", answer=TargetAnswer)
    def get(self, request: Request, target: int) -> Response:
        return Response(target_body(get_target(self.actor, target)))

    @describe_change(UpdateTarget, answer=TargetAnswer)
    def patch(self, request: Request, target: int) -> Response:
        return answer_change(self, UpdateTarget, update_target, _UPDATE, {"target": target})

    @describe_change(DeleteTarget, answer=NULL)
    def delete(self, request: Request, target: int) -> Response:
        return answer_change(self, DeleteTarget, delete_target, _DELETION, {"target": target})


class NoticeTargetTest(View):
    """A test of a destination."""

    @describe_change(SendTest, answer=NoticeAnswer)
    def post(self, request: Request, target: int) -> Response:
        return answer_change(self, SendTest, send_test, _TEST, {"target": target})


class NoticeTargetSecret(View):
    """The secret of a webhook."""

    @describe_change(RenewSecret, answer=SecretAnswer)
    def post(self, request: Request, target: int) -> Response:
        return answer_change(self, RenewSecret, renew_secret, _RENEWAL, {"target": target})


class NoticeTargetReplay(View):
    """The dead letters of a destination."""

    @describe_change(ReplayDeadNotices, answer=SentAgainAnswer)
    def post(self, request: Request, target: int) -> Response:
        return answer_change(self, ReplayDeadNotices, replay_dead_notices, _REPLAY_DEAD, {"target": target})


class NoticeList(View):
    """The notices to the destinations that the caller may see."""

    @describe_operation(
        "List notices, the newest first.", query_parameters=parameters_of(NoticeQuery), answer=NoticeListAnswer
    )
    def get(self, request: Request) -> Response:
        query = read_query(NoticeQuery, request)
        rows = list_notices(self.actor)
        rows = rows.filter(status=query.status) if query.status else rows
        rows = rows.filter(target_id=query.target) if query.target else rows
        page, more = read_part(rows, limit=query.limit, offset=query.offset)
        return Response(NoticeListAnswer(notices=[notice_body(row) for row in page], more_entries=more))


class NoticeReplay(View):
    """One notice."""

    @describe_change(ReplayNotice, answer=NoticeAnswer)
    def post(self, request: Request, notice: str) -> Response:
        return answer_change(self, ReplayNotice, replay_notice, _REPLAY, {"notice": notice})
