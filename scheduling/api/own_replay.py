"""Replays of the installation's own history with other quotas (docs/replay.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypedDict
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import BodyReader, body_object
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    OBJECT,
    TEXT,
    UtcText,
    array_of,
    describe_operation,
    object_with,
)
from pools.api.views import View
from pools.domain.query_values import parse_datetime
from pools.transactions import database_time
from scheduling.models import HistoryReplay
from scheduling.models.history_replay import ReplayStatus
from scheduling.selectors.history_replays import find_replay, list_replays
from scheduling.services.own_replay import DEFAULT_TRIES, ReplayQuestion, find_replay_backend
from scheduling.services.replays import cancel_replay, request_replay

REPLAY_BODY = object_with(
    {
        "since": {**DATETIME, "description": "The beginning of the window (UTC)."},
        "until": {**DATETIME, "description": "Its end, at most 31 days later and not in the future; by default now."},
        "backend": {**TEXT, "description": "A simulated cluster; needed where you administer pools on several."},
        "changes": array_of(object_with({"set": OBJECT})),
        "advise": {**BOOLEAN, "description": "Propose quotas and lending limits, instead of trying changes."},
        "tries": {
            **INTEGER,
            "description": f"With `advise`: how many replays it may take besides today's (default {DEFAULT_TRIES}).",
        },
    },
    required=["since"],
)


class ReplaySideAnswer(TypedDict):
    """One of the two courses of a window."""

    summary: dict[str, Any] | None
    teams: dict[str, Any]


class ReplayResultAnswer(TypedDict):
    """What a window of the past would have looked like."""

    backend: str
    since: UtcText
    until: UtcText
    steps: int
    identical: bool
    first_difference: dict[str, Any] | None
    on: ReplaySideAnswer
    against: ReplaySideAnswer | None
    difference: dict[str, Any] | None
    people: list[dict[str, Any]]
    more_people: int
    sentences: list[str]
    advice: dict[str, Any] | None


class ReplayRefusalAnswer(TypedDict):
    """Why a replay failed."""

    message: str
    details: list[dict[str, Any]]


class ReplayAnswer(TypedDict):
    """A replay, with its answer when it is complete."""

    id: str
    status: Annotated[str, ReplayStatus]
    progress: Annotated[float, "The share that is done, from 0 to 1."]
    requested_at: UtcText
    started_at: UtcText | None
    ended_at: UtcText | None
    question: dict[str, Any]
    answer: ReplayResultAnswer | None
    refusal: ReplayRefusalAnswer | None


class OwnReplays(View):
    """What a window of the past would have looked like: one's own replays, and a request for one."""

    @describe_operation("Your newest replays of recorded history, without their answers.", answer=list[ReplayAnswer])
    def get(self, request: Request) -> Response:
        return Response([replay_body(row, with_answer=False) for row in list_replays(self.actor)])

    @describe_operation(
        "Request a replay of the recorded history of a simulated cluster, as it was and with other quotas, limits or "
        "weights; or, with `advise`, proposals of quotas and lending limits. It runs in the background and changes "
        "nothing.",
        body=REPLAY_BODY,
        answer=ReplayAnswer,
        status=202,
    )
    def post(self, request: Request) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("since", "until", "backend", "changes", "advise", "tries"), ())
        since, until = _read_time(reader, "since"), None
        if reader.body.get("until") is not None:
            until = _read_time(reader, "until")
        changes = reader.body.get("changes", [])
        if not isinstance(changes, list):
            reader.add_fault("changes", "bad_value", "must be a list of changes.")
        backend = reader.required_text("backend") if reader.is_given("backend") else None
        tries = _read_tries(reader)
        reader.raise_faults()
        assert since is not None
        question = ReplayQuestion(since, until or database_time(), changes, backend, tries)
        response = self.run_once(
            lambda: Response(replay_body(request_replay(actor=self.actor, question=question))),
            require=lambda: find_replay_backend(self.actor, question),
        )
        response.status_code = 202
        return response


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
        "requested_at": utc_text(row.requested_at),
        "started_at": utc_text(row.started_at),
        "ended_at": utc_text(row.ended_at),
        "question": row.question,
        "answer": row.answer if with_answer else None,
        "refusal": row.refusal,
    }


def _read_tries(reader: BodyReader) -> int | None:
    """The number of replays for advice; None if no advice is asked for."""
    is_advice, tries = reader.body.get("advise", False), reader.body.get("tries", DEFAULT_TRIES)
    if not isinstance(is_advice, bool):
        reader.add_fault("advise", "bad_value", "must be true or false.")
    if isinstance(tries, bool) or not isinstance(tries, int):
        reader.add_fault("tries", "bad_value", "must be a whole number.")
    elif is_advice is not True and "tries" in reader.body:
        reader.add_fault("tries", "bad_value", "is the number of replays for advice: add `advise`.")
    elif is_advice is True:
        return tries
    return None


def _read_time(reader: BodyReader, key: str) -> datetime | None:
    """A required time, in UTC if it has no zone; None with a fault."""
    text = reader.body.get(key)
    found = parse_datetime(text) if isinstance(text, str) else None
    if found is None:
        reader.add_fault(
            key, "missing" if text is None else "bad_value", "must be a time such as 2026-11-16T00:00:00 (UTC)."
        )
    return found
