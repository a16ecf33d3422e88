"""Replays of recorded history as background jobs: request, run, cancel, and begin again after a process died.

A worker has two processes, and one of them has to be free for new work. So one replay runs at a time, and it takes the
turn of long background work for a few seconds and lets the others go first in between."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from pools.database.errors import is_database_away
from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change, database_time
from pools.domain.errors import Conflict, DomainError, Fault, NotFound, Throttled, Violation, ViolationAnswer
from pools.domain.people.roles import Actor
from pools.locking import lock_user
from pools.models import Backend, Pool
from scheduling.history.own.history_replays import find_replay
from scheduling.history.own.own_advice import advise_on_own_history
from scheduling.history.own.own_replay import (
    ReplayQuestion,
    ReplayResultAnswer,
    check_question,
    find_replay_backend,
    replay_own_history,
    utc_text,
    viewpoint,
    visible_roots,
)
from scheduling.history.replay.history_clock import TooLong
from scheduling.locking import LongWorkRuns, end_silent_long_work, hold_long_work_turn, try_replay
from scheduling.models import HistoryReplay
from scheduling.models.history.history_replay import ReplayStatus
from scheduling.services import notifications

logger = logging.getLogger(__name__)

MAX_KEPT = 20
"""The newest replays of a user are kept."""
MAX_WORK_SECONDS = 300.0
"""The time of one replay, without its pauses."""
TURN_SECONDS = 5.0
"""The time for which a replay works before other long background work may go first."""
PAUSE_SECONDS = 3.0
"""Longer than the time after which other long work tries again (LONG_JOB_RETRY_SECONDS in :mod:`scheduling.tasks`)."""
LOST_AFTER = timedelta(minutes=1)
"""A replay without a sign for this long has lost its process; long work without one loses its turn."""
MAX_TRIES = 2
_LIVE = (ReplayStatus.WAITING, ReplayStatus.RUNNING)


def request_replay(*, actor: Actor, question: ReplayQuestion) -> HistoryReplay:
    """Request a replay; a worker runs it. Raises `BadInput`, `ScenarioError`, `Forbidden`, `NotFound`, `Conflict`, and
    `Throttled` while another replay of the same user waits or runs."""
    backend = find_replay_backend(actor, question)
    roots = visible_roots(actor, backend)
    check_question(question, viewpoint(backend, roots, reads_all=actor.can_read_all))
    with change(actor=actor):
        owner = lock_user(actor.username)
        if owner is None:
            raise NotFound(f"User {actor.username} does not exist.")
        own = HistoryReplay.objects.filter(user=owner)
        if own.filter(status__in=_LIVE).exists():
            raise Throttled(
                "Another replay of yours waits or runs, and one replay of a user runs at a time: cancel it, or send "
                "this again when it has ended.",
                retry_after=5,
            )
        own.filter(pk__in=list(own.values_list("pk", flat=True)[MAX_KEPT - 1 :])).delete()
        row = HistoryReplay.objects.create(
            user=owner,
            backend_id=backend.pk,
            question={
                "backend": backend.name,
                "since": utc_text(question.since),
                "until": utc_text(question.until),
                "changes": list(question.changes),
                **({} if question.tries is None else {"advise": True, "tries": question.tries}),
            },
            reads_all=actor.can_read_all,
            pools=sorted(roots.values_list("pk", flat=True)),
        )
        transaction.on_commit(lambda: notifications.enqueue_history_replay(row.pk))
    row.refresh_from_db()
    return row


def cancel_replay(*, actor: Actor, replay_id: UUID) -> HistoryReplay:
    """Cancel a replay of one's own; one that has ended stays as it is. Raises `NotFound`."""
    row = find_replay(actor, replay_id)
    with change(actor=actor):
        _live(row).update(status=ReplayStatus.CANCELED, ended_at=Now())
    row.refresh_from_db()
    return row


def resume_replays() -> None:
    """Give replays whose process died or is frozen back to the workers, once; and queue those whose notification was
    lost. The place of a frozen process, and its turn of long work, become free."""
    if ended := end_silent_long_work(LOST_AFTER):
        logger.warning("%d processes with long work sent nothing for %s: their work ends.", ended, LOST_AFTER)
    lost = HistoryReplay.objects.filter(status=ReplayStatus.RUNNING, beat_at__lt=database_time() - LOST_AFTER)
    lost.filter(tries__gte=MAX_TRIES).update(
        status=ReplayStatus.FAILED,
        ended_at=Now(),
        refusal=_refusal_body(Conflict("The process that ran this replay died, twice: request a shorter time.")),
    )
    lost.update(status=ReplayStatus.WAITING, progress=0)
    for pk in HistoryReplay.objects.filter(status=ReplayStatus.WAITING).values_list("pk", flat=True):
        with left_out_on_error("a replay that waits", pk):
            notifications.enqueue_history_replay(pk)


def run_replay(replay_id: UUID) -> None:
    """Run a replay that waits; nothing if it was cancelled. While another replay runs, it stays waiting: the end of
    that one queues the oldest."""
    with try_replay() as is_free:
        if not is_free:
            return
        _run_waiting(replay_id)
    oldest = HistoryReplay.objects.filter(status=ReplayStatus.WAITING).order_by("requested_at", "pk").first()
    if oldest is not None:
        notifications.enqueue_history_replay(oldest.pk)


def _run_waiting(replay_id: UUID) -> None:
    waiting = HistoryReplay.objects.filter(pk=replay_id, status=ReplayStatus.WAITING)
    if not waiting.update(
        status=ReplayStatus.RUNNING, tries=F("tries") + 1, started_at=Now(), beat_at=Now(), progress=0
    ):
        return
    row = HistoryReplay.objects.get(pk=replay_id)
    work = _Work(row)
    try:
        with work:
            answer = _run(row, work)
    except TooLong:
        if work.is_out_of_time:
            message = (
                f"This replay takes more than {MAX_WORK_SECONDS:.0f} seconds, which one replay may: give a later since."
            )
            numbers = (("max_seconds", int(MAX_WORK_SECONDS)),)
            _fail(row, Conflict(message, [Violation("since", Fault.WINDOW_TOO_LONG, message, numbers=numbers)]))
    except DomainError as refusal:
        _fail(row, refusal)
    except Exception as error:
        if is_database_away(error):
            raise  # nothing can be written; the replay begins again without this process
        _fail(row, Conflict("This replay failed by a fault of OSMO Admin; the log of the worker has it."))
        raise
    else:
        _ours(row).update(status=ReplayStatus.COMPLETED, ended_at=Now(), answer=answer, progress=1)


def _run(row: HistoryReplay, work: _Work) -> ReplayResultAnswer:
    backend = Backend.objects.filter(pk=row.backend_id).first()
    if backend is None:
        raise NotFound("The cluster of this replay was removed.")
    wanted = row.question
    question = ReplayQuestion(_time(wanted["since"]), _time(wanted["until"]), wanted["changes"])
    roots = Pool.objects.roots().filter(backend=backend)
    view = viewpoint(backend, roots if row.reads_all else roots.filter(pk__in=row.pools), reads_all=row.reads_all)
    if wanted.get("advise"):
        return advise_on_own_history(backend, view, question, work, tries=wanted["tries"])
    return replay_own_history(backend, view, question, work.must_stop)


class _Work:
    """The turn of long work, for a few seconds at a time, the progress in the row, and the reasons to stop."""

    def __init__(self, row: HistoryReplay) -> None:
        self._row = row
        self._turn = ExitStack()
        self._worked = self._turn_began = 0.0
        self.is_out_of_time = False

    def __enter__(self) -> None:
        self._take_turn(0)

    def __exit__(self, *_: object) -> None:
        self._turn.close()

    def must_stop(self, share: float) -> bool:
        """Whether the replay has to stop; called at each instant."""
        spent = time.monotonic() - self._turn_began
        if self._worked + spent > MAX_WORK_SECONDS:
            self.is_out_of_time = True
            return True
        if spent < TURN_SECONDS:
            return False
        self._worked += spent
        self._turn.close()
        if not self._tell(share):
            return True
        time.sleep(PAUSE_SECONDS)
        return not self._take_turn(share)

    def _take_turn(self, share: float) -> bool:
        """Wait for the turn; False when the replay was cancelled meanwhile."""
        while True:
            try:
                self._turn.enter_context(hold_long_work_turn())
            except LongWorkRuns:
                time.sleep(0.5)
                if not self._tell(share):
                    return False
            else:
                self._turn_began = time.monotonic()
                return True

    def _tell(self, share: float) -> bool:
        """Write how far it is; False when it is not ours any more."""
        return bool(_ours(self._row).update(progress=share, beat_at=Now()))


def _live(row: HistoryReplay) -> Any:
    return HistoryReplay.objects.filter(pk=row.pk, status__in=_LIVE)


def _ours(row: HistoryReplay) -> Any:
    """The row while this process has it: a frozen process may wake up after another one has begun again."""
    return HistoryReplay.objects.filter(pk=row.pk, status=ReplayStatus.RUNNING, tries=row.tries)


def _fail(row: HistoryReplay, refusal: DomainError) -> None:
    _ours(row).update(status=ReplayStatus.FAILED, ended_at=Now(), refusal=_refusal_body(refusal))


class ReplayQuestionAnswer(TypedDict):
    """The window (UTC with its zone), and what is tried in it."""

    backend: str
    since: str
    until: str
    changes: list[Any]
    advise: NotRequired[bool]
    tries: NotRequired[int]


class ReplayRefusalAnswer(TypedDict):
    """Why a replay failed."""

    message: str
    details: list[ViolationAnswer]


def _refusal_body(refusal: DomainError) -> ReplayRefusalAnswer:
    error = refusal.as_dict()
    return {"message": error["message"], "details": error["details"]}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
