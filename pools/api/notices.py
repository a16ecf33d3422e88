"""Notices: where they go, which are chosen, and what came of them (docs/notices.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import BodyReader, body_object, collect_faults, query_boolean, query_integer, query_page
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    INTEGER,
    LIMIT,
    NULL,
    OFFSET,
    TEXT,
    QueryParameter,
    UtcText,
    array_of,
    describe_operation,
    object_with,
)
from pools.api.views import View
from pools.domain.errors import BadInput, Conflict, NotFound, Violation
from pools.domain.notices import Channel, NoticeKind
from pools.models import Notice, NoticeTarget
from pools.services.dry_run import read_effect
from pools.services.notice_targets import (
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
    enabled: bool
    follows_profile: bool
    failures: int
    retry_at: UtcText | None
    off_reason: str


class NewTargetAnswer(TypedDict):
    """A new target. Only this answer has the secret that verifies its signatures."""

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
    status: Annotated[str, Literal[*Notice.Status.values]]
    attempts: int
    created_at: UtcText
    attempted_at: UtcText | None
    ended_at: UtcText | None
    error: str


class NoticeListAnswer(TypedDict):
    """A page of notices."""

    notices: list[NoticeAnswer]
    more_entries: bool


class SentAgainAnswer(TypedDict):
    """The number of notices that are sent again."""

    notices: int


_CHANNEL = {"type": "string", "enum": [str(each) for each in Channel]}
_KIND = {"type": "string", "enum": [str(each) for each in NoticeKind]}
_STATUS = {"type": "string", "enum": list(Notice.Status.values)}
_CHANGES = {"address": TEXT, "kinds": array_of(_KIND), "pools": array_of(TEXT), "enabled": BOOLEAN}
_NEW = {
    "name": TEXT,
    "channel": {"type": "string", "enum": ["webhook", "mail", "apprise"]},
    "address": TEXT,
    "kinds": array_of(_KIND),
    "pools": array_of(TEXT),
    "pool": TEXT,
    "installation": BOOLEAN,
}


class NoticeTargetList(View):
    """Where notices go: the caller's own targets, those of administered pools, and those of the installation."""

    @describe_operation("List the targets of notices; never their secrets.", answer=list[TargetAnswer])
    def get(self, request: Request) -> Response:
        return Response([target_body(row) for row in list_targets(self.actor)])

    @describe_operation(
        "Add a target of notices: a signed webhook, a mail address, or an address of Apprise (Slack, Teams and "
        "others). Only this answer contains the secret that verifies a webhook's signatures.",
        query_parameters=[DRY_RUN],
        body=object_with(_NEW, required=["name", "channel", "address"]),
        answer=NewTargetAnswer,
    )
    def post(self, request: Request) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(tuple(_NEW))
        name, channel, address = (reader.required_text(key) for key in ("name", "channel", "address"))
        values: dict[str, Any] = {
            "kinds": reader.read_texts("kinds") if reader.is_given("kinds") else None,
            "pools": reader.read_texts("pools") if reader.is_given("pools") else [],
            "pool": reader.any_text("pool") or None,
            "is_installation": reader.boolean("installation"),
            "description": reader.description,
        }
        reader.raise_faults()

        def operation() -> Response:
            made, secret = create_target(actor=self.actor, name=name, channel=channel, address=address, **values)
            answer: NewTargetAnswer = {"target": target_body(made), "secret": secret or None}
            return Response(answer)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=self._bodies))

        def repeat_secret() -> Response:
            message = (
                f"The target {name} was added by the first request with this Idempotency-Key. A secret was in that "
                "answer only. If it was lost, ask for a new one: POST /api/notices/target/ID/secret."
            )
            raise Conflict(message, [Violation("Idempotency-Key", "secret_shown_once", message)])

        return self.run_once(operation, require=lambda: None, repeat_secret=repeat_secret)

    def _bodies(self) -> list[TargetAnswer]:
        return [target_body(row) for row in list_targets(self.actor)]


class NoticeTargetDetail(View):
    """One target."""

    @describe_operation("Show a target of notices.", answer=TargetAnswer)
    def get(self, request: Request, target: int) -> Response:
        return Response(target_body(get_target(self.actor, target)))

    @describe_operation(
        "Change a target: its address, the kinds of notices, the pools to which it is limited, on or off.",
        query_parameters=[DRY_RUN],
        body=object_with(_CHANGES, required=()),
        answer=TargetAnswer,
    )
    def patch(self, request: Request, target: int) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(tuple(_CHANGES))
        values: dict[str, Any] = {
            "address": reader.required_text("address") if reader.is_given("address") else None,
            "kinds": reader.read_texts("kinds") if reader.is_given("kinds") else None,
            "pools": reader.read_texts("pools") if reader.is_given("pools") else None,
            "is_enabled": reader.boolean("enabled") if reader.is_given("enabled") else None,
            "description": reader.description,
        }
        reader.raise_faults()

        def operation() -> Response:
            return Response(target_body(update_target(actor=self.actor, target_id=target, **values)))

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: target_body(get_target(self.actor, target))))
        return operation()

    @describe_operation("Remove a target and its notices.", query_parameters=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, target: int) -> Response:
        BodyReader(body_object(request)).reject_unknown_keys(())

        def operation() -> None:
            delete_target(actor=self.actor, target_id=target)

        def left() -> list[TargetAnswer]:
            return [target_body(row) for row in list_targets(self.actor).filter(pk=target)]

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=left))
        operation()
        return Response(None)


class NoticeTargetTest(View):
    """A test of a target."""

    @describe_operation(
        "Send a test notice. It is sent within seconds; GET /api/notices shows what came of it.", answer=NoticeAnswer
    )
    def post(self, request: Request, target: int) -> Response:
        return self.run_once(
            lambda: Response(notice_body(send_test(actor=self.actor, target_id=target))),
            require=lambda: require_owner(self.actor, get_target(self.actor, target)),
        )


class NoticeTargetSecret(View):
    """The secret of a webhook."""

    @describe_operation(
        "Replace the secret that verifies a webhook's signatures; only this answer contains it.", answer=SecretAnswer
    )
    def post(self, request: Request, target: int) -> Response:
        return Response({"secret": renew_secret(actor=self.actor, target_id=target)})


class NoticeTargetReplay(View):
    """The dead letters of a target."""

    @describe_operation("Send all dead letters of a target again, in their order.", answer=SentAgainAnswer)
    def post(self, request: Request, target: int) -> Response:
        return Response({"notices": replay_dead_notices(actor=self.actor, target_id=target)})


class NoticeList(View):
    """The notices to the targets that the caller may see."""

    @describe_operation(
        "List notices, the newest first.",
        query_parameters=[
            QueryParameter("status", _STATUS, "waiting, delivered, or dead (no longer tried)."),
            QueryParameter("target", INTEGER, "Only those to this target."),
            LIMIT,
            OFFSET,
        ],
        answer=NoticeListAnswer,
    )
    def get(self, request: Request) -> Response:
        (limit, offset), target, status = collect_faults(
            lambda: query_page(request), lambda: query_integer(request, "target", 0), lambda: _query_status(request)
        )
        rows = list_notices(self.actor)
        rows = rows.filter(status=status) if status else rows
        rows = rows.filter(target_id=target) if target else rows
        found = list(rows[offset : offset + limit + 1])
        return Response({"notices": [notice_body(row) for row in found[:limit]], "more_entries": len(found) > limit})


class NoticeReplay(View):
    """One notice."""

    @describe_operation("Send a notice again, with the same id.", answer=NoticeAnswer)
    def post(self, request: Request, notice: str) -> Response:
        try:
            message_id = UUID(notice.removeprefix("msg_"))
        except ValueError:
            raise NotFound(f"{notice[:60]} is not the id of a notice; one begins with msg_.") from None
        return Response(notice_body(replay_notice(actor=self.actor, message_id=message_id)))


def _query_status(request: Request) -> str:
    status = request.query_params.get("status", "")
    if status and status not in Notice.Status.values:
        message = f"status: give {', '.join(Notice.Status.values)}."
        raise BadInput.of([Violation("status", "bad_query", message)])
    return status


def target_body(row: NoticeTarget) -> TargetAnswer:
    """A target as lists show it: never with its secrets."""
    return {
        "id": row.pk,
        "name": row.name,
        "user": row.user.username if row.user else None,
        "pool": row.pool.name if row.pool else None,
        "channel": row.channel,
        "address": row.user.email if row.is_profile and row.user else row.shown_address,
        "kinds": row.kinds,
        "pools": row.pools,
        "enabled": row.is_enabled,
        "follows_profile": row.is_profile,
        "failures": row.failures,
        "retry_at": utc_text(row.retry_at) if row.retry_at else None,
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
        "created_at": utc_text(row.created_at),
        "attempted_at": utc_text(row.attempted_at) if row.attempted_at else None,
        "ended_at": utc_text(row.ended_at) if row.ended_at else None,
        "error": row.error,
    }
