"""The gangs that wait, with their reasons (design, A5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from scheduling.domain.lists import PendingQueueQuery
from scheduling.domain.priorities import Priority
from scheduling.domain.start_words import start_about_sentence
from scheduling.selectors.queue.kept_starts import GangStart
from scheduling.selectors.queue.visible_queue import (
    WaitingGang,
    WaitingReason,
    WaitingReservation,
    list_waiting_gangs,
)
from scheduling.selectors.work.leaf_names import leaf_names_of


class StartRecordAnswer(TypedDict):
    """Of the last `like` forecasts like this one, `in_time` came true: the work had started by the `p90` of its first
    forecast."""

    like: int
    in_time: int


class StartAnswer(TypedDict):
    """When work is forecast to start: times by which it starts with that probability, and the same as a sentence, as
    exact as the forecast is sure. Where a reservation makes a latest start certain, the sentence has that alone."""

    text: str
    p10: ZonedText | None
    p50: ZonedText | None
    p90: ZonedText | None
    samples: int
    made_at: ZonedText
    never: str | None
    record: StartRecordAnswer


class ReasonAnswer(TypedDict):
    """Why work waits; the amounts are GPUs, null where the reason is not an amount, and of the `flavor` nearest to a
    start where the pool names some. `short` is the message in a few words."""

    code: str
    short: str
    message: str
    queue: str | None
    limit: str | None
    requested: float | str | None
    free: float | str | None
    missing: float | str | None
    flavor: NotRequired[str]


class QueuePositionAnswer(TypedDict):
    """The position of a waiting gang, with its reason and what would let it start."""

    position: int
    position_in_queue: int
    ahead: int
    reason: ReasonAnswer
    unblock: list[str]
    holders: list[str]
    nodes: list[str]
    unblock_needs_all: bool
    reservation: WaitingReservation | None
    start: StartAnswer | None


class WaitingGangAnswer(QueuePositionAnswer):
    """A gang that waits. Work that was preempted waits since then, with its old time of submission."""

    workflow: str
    group: str
    user: str
    backend: str
    pool: str
    queue: str
    priority: Annotated[str, Priority]
    submit_time: ZonedText
    waits_since: ZonedText
    gpus: int


class PendingQueueAnswer(TypedDict):
    """A page of the waiting gangs."""

    entries: list[WaitingGangAnswer]
    more_entries: bool


class PendingQueueList(View):
    """The waiting gangs that the caller may see, in the order of the queue. Positions also count the hidden gangs."""

    @describe_operation(
        "Show the waiting gangs with their positions and reasons.",
        query_parameters=parameters_of(PendingQueueQuery),
        answer=PendingQueueAnswer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(PendingQueueQuery, request)
        found, more = list_waiting_gangs(
            self.actor,
            pools=leaf_names_of(self.actor, *query.pool),
            users=query.user,
            workflows=query.workflow,
            limit=query.limit,
            offset=query.offset,
        )
        return Response(PendingQueueAnswer(entries=[pending_gang_entry(gang) for gang in found], more_entries=more))


def pending_gang_entry(gang: WaitingGang) -> WaitingGangAnswer:
    """One waiting gang."""
    return {
        "workflow": gang.workflow,
        "group": gang.group,
        "user": gang.user,
        "backend": gang.backend,
        "pool": gang.pool,
        "queue": gang.queue,
        "priority": gang.priority,
        "submit_time": zoned_text(gang.submit_time),
        "waits_since": zoned_text(gang.waits_since),
        "gpus": gang.gpus,
        **queue_position_body(gang),
    }


def queue_position_body(gang: WaitingGang) -> QueuePositionAnswer:
    """The position and the reason of a gang."""
    return {
        "position": gang.position,
        "position_in_queue": gang.position_in_queue,
        "ahead": gang.ahead,
        "reason": reason_body(gang.reason),
        "unblock": list(gang.unblock),
        "holders": list(gang.holders),
        "nodes": list(gang.nodes),
        "unblock_needs_all": gang.unblock_needs_all,
        "reservation": gang.reservation,
        "start": start_body(gang.start),
    }


def reason_body(reason: WaitingReason) -> ReasonAnswer:
    """Why a gang waits."""
    body: ReasonAnswer = {
        "code": reason.code,
        "short": reason.short,
        "message": reason.message,
        "queue": reason.queue,
        "limit": reason.limit,
        "requested": reason.requested,
        "free": reason.free,
        "missing": reason.missing,
    }
    if reason.flavor:
        body["flavor"] = reason.flavor
    return body


def start_body(start: GangStart | None) -> StartAnswer | None:
    """When a gang is forecast to start; None before its first forecast."""
    if start is None:
        return None
    return {
        "text": start_about_sentence(start, datetime.now(UTC)),
        "p10": zoned_text(start.p10),
        "p50": zoned_text(start.p50),
        "p90": zoned_text(start.p90),
        "samples": start.samples,
        "made_at": zoned_text(start.made_at),
        "never": start.never,
        "record": {"like": start.like, "in_time": start.in_time},
    }
