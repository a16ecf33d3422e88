"""The inbox: news for the person, the newest first, and what they have read."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import paginate
from pools.domain.changes.notices import MarkAllRead, MarkRead
from pools.domain.list_columns import INBOX_COLUMNS
from pools.models import InboxNotice
from pools.representations.page_parameters import read_choice
from pools.selectors.inbox import inbox_of
from pools.services.people.inbox import mark_all_read, mark_read

_LIST = "admin:pools_inboxnotice_changelist"


@admin.register(InboxNotice)
class InboxAdmin(PolicyAdmin):
    """Each person sees the news that concerns them."""

    address = "inbox"

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("inbox/-/read", self.protect(self._read_all), name="pools_inboxnotice_read_all"),
            path("inbox/<int:news>/read", self.protect(self._read), name="pools_inboxnotice_read"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        only_unread = read_choice(request.GET, "unread", ["true"]) == "true"
        window = paginate(inbox_of(actor_of(request), only_unread=only_unread), request.GET.get("page"))
        return self.render_page(
            request, "osmo/inbox.html", title="Inbox", columns=INBOX_COLUMNS, window=window, only_unread=only_unread
        )

    def _read(self, request: HttpRequest, news: int) -> HttpResponse:
        if request.method == "POST":
            mark_read(MarkRead(news=news), actor=actor_of(request))
        return _back(request)

    def _read_all(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            mark_all_read(MarkAllRead(), actor=actor_of(request))
        return _back(request)


def _back(request: HttpRequest) -> HttpResponseRedirect:
    """The list with the filter and the page that the person was on."""
    kept = {name: request.GET[name] for name in ("unread", "page") if name in request.GET}
    return HttpResponseRedirect(reverse(_LIST, query=kept))
