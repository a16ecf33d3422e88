"""The inbox: news for the caller, and what was read."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change
from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.domain.changes.notices import MarkAllRead, MarkRead
from pools.domain.lists import InboxQuery
from pools.domain.people.notices import NoticeKind
from pools.models import InboxNotice
from pools.selectors.inbox import count_unread, inbox_of
from pools.selectors.list_order import read_part
from pools.services.people.inbox import mark_all_read, mark_read


class NewsAnswer(TypedDict):
    """A piece of news; `page` is the address of the page of its object, empty without one."""

    id: int
    kind: Annotated[str, NoticeKind]
    subject: str
    title: str
    text: str
    page: str
    read: bool
    created_at: ZonedText


class InboxAnswer(TypedDict):
    """A page of the inbox, with the number of all unread news (100 at most)."""

    news: list[NewsAnswer]
    unread: int
    more_entries: bool


class MarkedAnswer(TypedDict):
    """The number of news that were unread before."""

    marked: int


def _marked_body(count: int) -> MarkedAnswer:
    return {"marked": count}


_MARK: ChangeAnswer[MarkRead, int] = ChangeAnswer(_marked_body)
_MARK_ALL: ChangeAnswer[MarkAllRead, int] = ChangeAnswer(_marked_body)


class Inbox(View):
    """News of the caller's own work, of the pools that the caller administers, and of the installation."""

    @describe_operation("List news, the newest first.", query_parameters=parameters_of(InboxQuery), answer=InboxAnswer)
    def get(self, request: Request) -> Response:
        query = read_query(InboxQuery, request)
        rows = inbox_of(self.actor, only_unread=query.unread)
        page, more = read_part(rows, limit=query.limit, offset=query.offset)
        news = [news_body(row) for row in page]
        return Response(InboxAnswer(news=news, unread=count_unread(self.actor), more_entries=more))


class InboxReadAll(View):
    """All news of the caller."""

    @describe_change(MarkAllRead, answer=MarkedAnswer)
    def post(self, request: Request) -> Response:
        return answer_change(self, MarkAllRead, mark_all_read, _MARK_ALL, {})


class InboxReadOne(View):
    """One piece of news."""

    @describe_change(MarkRead, answer=MarkedAnswer)
    def post(self, request: Request, news: int) -> Response:
        return answer_change(self, MarkRead, mark_read, _MARK, {"news": news})


def news_body(row: InboxNotice) -> NewsAnswer:
    """One piece of news."""
    return {
        "id": row.pk,
        "kind": row.kind,
        "subject": row.subject,
        "title": row.title,
        "text": row.text,
        "page": row.page,
        "read": row.is_read,
        "created_at": zoned_text(row.created_at),
    }
