"""The page of a search, which works without scripts; the box in the head of every page asks the REST API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from pools.admin.base import actor_of
from scheduling.domain.list_columns import HIT_COLUMNS
from scheduling.page_addresses import address_of
from scheduling.selectors.work.search import MAX_SEARCH_TEXT, search

MAX_HITS = 50


def search_page(site: Any, request: HttpRequest) -> HttpResponse:
    """The objects with the words in their names, pages, and what may be begun."""
    text = request.GET.get("q", "").strip()[:MAX_SEARCH_TEXT]
    context = site.each_context(request)
    context |= {
        "title": f"Search: {text}" if text else "Search",
        "text": text,
        "columns": HIT_COLUMNS,
        "hits": [(hit, address_of(hit)) for hit in search(actor_of(request), text, limit=MAX_HITS)],
        "max_hits": MAX_HITS,
    }
    return TemplateResponse(request, "osmo/search.html", context)
