"""Replays of the installation's own history with other quotas (docs/replay.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import BodyReader, body_object
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    array_of,
    describe_operation,
    nullable,
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
_SIDE = object_with({"summary": nullable(OBJECT), "teams": OBJECT})
REPLAY_ANSWER = object_with(
    {
        "backend": TEXT,
        "since": DATETIME,
        "until": DATETIME,
        "steps": INTEGER,
        "identical": BOOLEAN,
        "first_difference": nullable(OBJECT),
        "on": _SIDE,
        "against": nullable(_SIDE),
        "difference": nullable(OBJECT),
        "people": array_of(OBJECT),
        "more_people": INTEGER,
        "sentences": array_of(TEXT),
        "advice": nullable(OBJECT),
    }
)
REPLAY = object_with(
    {
        "id": TEXT,
        "status": {**TEXT, "enum": list(ReplayStatus)},
        "progress": {**NUMBER, "description": "The share that is done, from 0 to 1."},
        "requested_at": DATETIME,
        "started_at": nullable(DATETIME),
        "ended_at": nullable(DATETIME),
        "question": OBJECT,
        "answer": nullable(REPLAY_ANSWER),
        "refusal": nullable(object_with({"message": TEXT, "details": array_of(OBJECT)})),
    }
)


class OwnReplays(View):
    """What a window of the past would have looked like: one's own replays, and a request for one."""

    @describe_operation("Your newest replays of recorded history, without their answers.", answer=array_of(REPLAY))
    def get(self, request: Request) -> Response:
        return Response([replay_body(row, with_answer=False) for row in list_replays(self.actor)])

    @describe_operation(
        "Request a replay of the recorded history of a simulated cluster, as it was and with other quotas, limits or "
        "weights; or, with `advise`, proposals of quotas and lending limits. It runs in the background and changes "
        "nothing.",
        body=REPLAY_BODY,
        answer=REPLAY,
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

    @describe_operation("One of your replays: how far it is, and its answer when it is complete.", answer=REPLAY)
    def get(self, request: Request, replay: UUID) -> Response:
        return Response(replay_body(find_replay(self.actor, replay)))


class OwnReplayCancel(View):
    """The end of a replay that nobody needs any more."""

    @describe_operation("Cancel one of your replays; one that has ended stays as it is.", answer=REPLAY)
    def post(self, request: Request, replay: UUID) -> Response:
        return Response(replay_body(cancel_replay(actor=self.actor, replay_id=replay)))


def replay_body(row: HistoryReplay, *, with_answer: bool = True) -> dict[str, Any]:
    """The JSON of a replay."""
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
