"""The one way of a change over REST: reading, dry run, approval, idempotency, version (design, A1).

    @describe_change(ResizeSubpool, answer=SubpoolAnswer)
    def patch(self, request: Request, parent: str, subpool: str) -> Response:
        address = {"parent": parent, "subpool_name": subpool}
        return answer_change(self, ResizeSubpool, resize_subpool, SUBPOOL_CHANGES, address)

The declarations of the changes are in :mod:`pools.domain.changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from rest_framework.response import Response

from pools.api.questions import parameters_of, read_values
from pools.api.request_parsing import Unwrap, expected_version, query_boolean, unwrap_body
from pools.api.schema import (
    DRY_RUN,
    REQUEST_APPROVAL,
    TEXT,
    Handler,
    QueryParameter,
    Schema,
    array_of,
    describe_operation,
    object_with,
    without_type_lists,
)
from pools.api.views import View
from pools.domain.approvals import ApprovalNeeded
from pools.domain.changes.command import ChangeCommand, CommandT, body_fields, read_command, summary_of, title_of
from pools.domain.errors import Violation
from pools.domain.people.roles import Actor
from pools.domain.structured_input.declared_values import DeclaredValue, fields_of
from pools.permissions import require_permission, require_platform
from pools.representations.approval import approval_body
from pools.services.changes.dry_run import EffectAnswer, read_effect
from pools.services.changes.shown_effects import confirmed_effect, confirming, previewing, shown_command
from pools.services.configuration.approvals import request_approval

ResultT = TypeVar("ResultT")
_REASON: Schema = {"type": "string", "description": "The reason for the change, which the audit trail keeps."}
_TAGS: Schema = {**array_of(TEXT), "description": "Tags of the revision that the change makes."}


@dataclass(frozen=True, slots=True)
class ChangeAnswer(Generic[CommandT, ResultT]):
    """How the changes of one kind of object are answered: `render` makes the body, or a response with headers, of
    the result of the service, and `effect` is that of a dry run, which calls the function that it is given. `guard`
    refuses an address of another kind, and actors who may not change what belongs to somebody else; with
    `guards_repetitions` it is called only before an answer is repeated, because it makes a query that the service
    repeats. `repeat_secret` answers the repetition of a change whose answer had a secret, which is not stored. A
    change that does not keep its answers is made again when a request is repeated."""

    render: Callable[[ResultT], object]
    effect: Callable[[CommandT, Callable[[], ResultT], Actor], EffectAnswer] | None = None
    guard: Callable[[Actor, Mapping[str, Any]], object] | None = None
    guards_repetitions: bool = False
    repeat_secret: Callable[[CommandT], Response] | None = None
    keeps_answers: bool = True


def answer_nothing(_result: object) -> None:
    """The answer of a change about which there is nothing to say: `null`."""


def effect_on(
    read_state: Callable[[CommandT, Actor], object],
) -> Callable[[CommandT, Callable[[], object], Actor], EffectAnswer]:
    """The effect of a change on what `read_state` finds for it."""

    def effect(command: CommandT, run: Callable[[], object], actor: Actor) -> EffectAnswer:
        return read_effect(run, read_state=partial(read_state, command, actor))

    return effect


def answer_change(
    view: View,
    kind: type[CommandT],
    service: Callable[..., ResultT],
    answer: ChangeAnswer[CommandT, ResultT],
    address: Mapping[str, Any],
    *,
    unwrap: Unwrap = unwrap_body,
) -> Response:
    """The answer of one change. The permission is checked before the body is read, and again by the service."""

    def require() -> None:
        if answer.guard is not None:
            answer.guard(view.actor, address)
        require_change(view.actor, kind, address)

    if not answer.guards_repetitions:
        require()
    faults: list[Violation] = []
    values, description, tags = unwrap(view.request, faults)
    in_query = read_values(kind, view.request)
    command = read_command(kind, values, {**address, **in_query}, faults)
    note: dict[str, Any] = {"actor": view.actor, "description": description}
    if kind.has_tags:
        note["tags"] = tags
    if kind.needs_version:
        note["expected_version"] = expected_version(view.request)
    is_preview = query_boolean(view.request, "dry_run")
    asks = kind.may_need_approval and query_boolean(view.request, "request_approval")

    def run() -> ResultT:
        return service(command, **note)

    def respond() -> Response:
        if is_preview and answer.effect is not None:
            with previewing(shown_command(command), view.actor):
                return Response(answer.effect(command, run, view.actor))
        with confirmed_effect(command, actor=view.actor, title=title_of(command), description=description):
            answered = answer.render(run())
        return answered if isinstance(answered, Response) else Response(answered)

    try:
        with confirming(shown_command(command), view.actor) if kind.has_preview and not is_preview else nullcontext():
            if view.request.method != "POST" or not answer.keeps_answers:
                return respond()
            repeat = partial(answer.repeat_secret, command) if answer.repeat_secret else None
            return view.run_once(respond, require=require, is_preview=is_preview, repeat_secret=repeat)
    except ApprovalNeeded as need:
        # Stored after the transaction of the refused change; a repetition finds the same request.
        if not asks:
            raise
        row = request_approval(command, actor=view.actor, need=need, description=description, tags=tags)
    return Response(approval_body(row, view.actor), status=202, headers={"Location": f"/api/configs/approval/{row.pk}"})


def require_change(actor: Actor, kind: type[ChangeCommand], address: Mapping[str, Any]) -> None:
    """Refuse actors without the permission for this change: Forbidden, or NotFound for a pool that they do not see."""
    if kind.permission is None:
        return
    if kind.pool_field:
        require_permission(actor, kind.permission, address[kind.pool_field])
    else:
        require_platform(actor, kind.permission)


def _property(about: DeclaredValue) -> dict[str, Any]:
    texts = (about.sentence, about.kind.schema.get("description", ""))
    return {**without_type_lists(about.kind.schema), "description": " ".join(text for text in texts if text)}


def schema_of(fields: Mapping[str, DeclaredValue], required: Sequence[str] = ()) -> Schema:
    """The schema of a body with these keys; more may follow (wrapper, reason). No key is required where a wrapper may
    be around them."""
    return object_with(properties_of(fields), required=required, additional=True)


def properties_of(fields: Mapping[str, DeclaredValue]) -> dict[str, Schema]:
    """The schema of each of these keys."""
    return {name: _property(about) for name, about in fields.items()}


def _notes_of(kinds: Sequence[type[ChangeCommand]]) -> dict[str, Schema]:
    """The keys that accompany a change, and are none of its fields: what the audit trail keeps, and tags of a revision.
    A change that keeps neither, or whose object has a description of its own, has none."""
    if not any(kind.audit for kind in kinds) or any("description" in fields_of(kind) for kind in kinds):
        return {}
    return {"description": _REASON} | ({"tags": _TAGS} if any(kind.has_tags for kind in kinds) else {})


def describe_change(
    *kinds: type[ChangeCommand],
    answer: Any,
    body: Schema | None = None,
    required: Sequence[str] = (),
    query_parameters: Sequence[QueryParameter] = (),
    status: int = 200,
) -> Callable[[Handler], Handler]:
    """The description of an operation that makes one of these changes; `body` is the schema of a body that is one field
    of the change. Where further keys may follow, those that accompany each change are described too. `required` are
    those of a body that has no wrapper."""
    preview = [DRY_RUN] if all(kind.has_preview for kind in kinds) else []
    needs = [REQUEST_APPROVAL] if any(kind.may_need_approval for kind in kinds) else []
    fields = {name: about for kind in kinds for name, about in body_fields(kind).items()}
    of_kinds = [each for kind in kinds for each in parameters_of(kind)]
    actions = dict.fromkeys(action for kind in kinds for action in kind.audit)
    notes = _notes_of(kinds)
    if body is None and (fields or notes):
        body = schema_of(fields, required)
    if body and body["additionalProperties"] is True:
        body = {**body, "properties": {**body["properties"], **notes}}
    return describe_operation(
        " ".join(summary_of(kind) for kind in kinds),
        query_parameters=[*query_parameters, *of_kinds, *preview, *needs],
        body=body,
        answer=answer,
        status=status,
        details=f"In the audit trail: {', '.join(actions)}." if actions else "",
        has_version=any(kind.needs_version for kind in kinds),
    )
