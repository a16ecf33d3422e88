"""Replays of the installation's own history with other quotas (docs/replay.md)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, TypedDict
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import describe_change
from pools.api.rendering import zoned_text
from pools.api.request_parsing import body_object
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.database.transactions import database_time
from pools.domain.changes.command import read_command
from scheduling.domain.changes.replays import DEFAULT_TRIES, RequestReplay
from scheduling.history.own.history_replays import find_replay, list_replays
from scheduling.history.own.own_replay import ReplayQuestion, ReplayResultAnswer, find_replay_backend
from scheduling.history.own.replays import ReplayQuestionAnswer, ReplayRefusalAnswer, cancel_replay, request_replay
from scheduling.models import HistoryReplay
from scheduling.models.history.history_replay import ReplayStatus


class ReplayAnswer(TypedDict):
    """A replay, with its answer when it is complete."""

    id: str
    status: Annotated[str, ReplayStatus]
    progress: Annotated[float, "The share that is done, from 0 to 1."]
    requested_at: ZonedText
    started_at: ZonedText | None
    ended_at: ZonedText | None
    question: ReplayQuestionAnswer
    answer: ReplayResultAnswer | None
    refusal: ReplayRefusalAnswer | None


class OwnReplays(View):
    """What a window of the past would have looked like: one's own replays, and a request for one."""

    @describe_operation("Your newest replays of recorded history, without their answers.", answer=list[ReplayAnswer])
    def get(self, request: Request) -> Response:
        return Response([replay_body(row, with_answer=False) for row in list_replays(self.actor)])

    @describe_change(RequestReplay, required=["since"], answer=ReplayAnswer, status=202)
    def post(self, request: Request) -> Response:
        command = read_command(RequestReplay, body_object(request))
        tries = (command.tries or DEFAULT_TRIES) if command.advise else None
        until = command.until or database_time()
        question = ReplayQuestion(command.since, until, command.changes, command.backend, tries)
        response = self.run_once(
            partial(self._request, question), require=partial(find_replay_backend, self.actor, question)
        )
        response.status_code = 202
        return response

    def _request(self, question: ReplayQuestion) -> Response:
        return Response(replay_body(request_replay(actor=self.actor, question=question)))


class OwnReplay(View):
    """One of one's own replays."""

    @describe_operation("One of your replays: how far it is, and its answer when it is complete.", answer=ReplayAnswer)
    def get(self, request: Request, replay: UUID) -> Response:
        return Response(replay_body(find_replay(self.actor, replay)))


class OwnReplayCancel(View):
    """The end of a replay that nobody needs any more."""

    @describe_operation("Cancel one of your replays; one that has ended stays as it is.", answer=ReplayAnswer)
    def post(self, request: Request, replay: UUID) -> Response:
        return Response(replay_body(cancel_replay(actor=self.actor, replay_id=replay)))


def replay_body(row: HistoryReplay, *, with_answer: bool = True) -> ReplayAnswer:
    """A replay."""
    return {
        "id": str(row.pk),
        "status": row.status,
        "progress": row.progress,
        "requested_at": zoned_text(row.requested_at),
        "started_at": zoned_text(row.started_at),
        "ended_at": zoned_text(row.ended_at),
        "question": row.question,
        "answer": row.answer if with_answer else None,
        "refusal": row.refusal,
    }
