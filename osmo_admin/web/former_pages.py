"""The addresses that pages had in former versions."""

from __future__ import annotations

from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.utils.encoding import iri_to_uri
from django.utils.http import escape_leading_slashes

from pools.domain.page_addresses import current_address


def former_page(request: HttpRequest) -> HttpResponse:
    """A permanent redirect with the query. Of a form that was open during the upgrade it keeps method and input."""
    current = current_address(request.path_info)
    if current is None:
        raise Http404
    query = request.META.get("QUERY_STRING", "")
    address = escape_leading_slashes(iri_to_uri(quote(current) + (f"?{query}" if query else "")))
    answer = HttpResponsePermanentRedirect(address)
    if request.method not in {"GET", "HEAD"}:
        answer.status_code = 308
    return answer
