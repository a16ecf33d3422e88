"""The answer to a form whose page is older than the login: its input, to be copied."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template import loader

from osmo_admin.web.preserved_input import read_input


def csrf_failure_page(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403. The input is shown and not sent again, because another site may have sent the form."""
    fields = [
        (name, value) for name, value in read_input(request).fields if name not in _HIDDEN_FIELDS and value.strip()
    ]
    context = {"typed": fields, "address": request.get_full_path()}
    return HttpResponse(loader.render_to_string("403_csrf.html", context), status=403)


_HIDDEN_FIELDS = {"step", "seen", "version", "next"}  # hidden fields of our own forms
