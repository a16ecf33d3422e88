"""Times in queries: UTC, with or without a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rest_framework.request import Request

from pools.domain.errors import BadInput, Violation

_FORM = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d:?\d\d)?\Z", re.ASCII | re.IGNORECASE
)


def query_datetime(request: Request, name: str) -> datetime | None:
    """The time of a query parameter, None when it is not there. Raises BadInput."""
    value = request.query_params.get(name)
    if value is None or value == "":
        return None
    text = value.strip().replace(" ", "+") if re.search(r"\d \d\d:?\d\d\Z", value) and "T" in value else value.strip()
    if _FORM.match(text):
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found
    sentence = f"{name}={value[:60]!r}: give a time in UTC, as 2026-11-20 or 2026-11-20T11:33:25."
    raise BadInput.of([Violation(name, "bad_query", sentence)])
