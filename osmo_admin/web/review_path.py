"""The short path of admission reviews: an API server waits for each of them before it stores an object.

A review with a mark needs no login, session or page, so its answer is made without Django's middlewares. This path
answers only if the review succeeds. In all other cases (another address, a body that cannot be read, an error of the
database) the request goes the ordinary way, which answers it with every check and its message.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.core.signals import request_started
from django.http import HttpResponse
from prometheus_client import Histogram

from pools.api.request_parsing import parse_json
from pools.database.transactions import request_id
from scheduling.domain.cluster.admission_review import ReviewAnswer
from scheduling.domain.cluster.queue_access import WorkloadKind
from scheduling.services.gpu_quota.admission import review_gpu_request
from scheduling.services.webhooks.reviews import review_object

logger = structlog.get_logger(__name__)

_PREFIX = "/webhooks/"
_REVIEWERS: Mapping[str, Callable[..., ReviewAnswer]] = {
    "pod": partial(review_object, WorkloadKind.POD),
    "podgroup": partial(review_object, WorkloadKind.POD_GROUP),
    "gpu_quota": review_gpu_request,
}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_SECONDS = Histogram(
    "osmo_admission_review_seconds", "Admission reviews by address and answer.", ["address", "allowed"]
)


class ReviewPath:
    """A WSGI application that answers admission reviews itself and passes all other requests on."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(_PREFIX) and environ["REQUEST_METHOD"] == "POST":
            response = _review_response(environ)
            if response is not None:
                start_response("200 OK", list(response.items()))
                return response
        return self._application(environ, start_response)


def _review_response(environ: Mapping[str, Any]) -> HttpResponse | None:
    """The answer to a review whose address has a backend and a mark; None for the ordinary way."""
    address, _, rest = environ["PATH_INFO"].removeprefix(_PREFIX).partition("/")
    backend, _, mark = rest.partition("/")
    review = _REVIEWERS.get(address)
    if review is None or not mark or "/" in mark or "HTTP_CONTENT_ENCODING" in environ:
        return None
    length = environ.get("CONTENT_LENGTH") or "0"
    if not length.isdigit() or int(length) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        return None
    begin = time.perf_counter()
    body = environ["wsgi.input"]
    this_request = str(uuid.uuid4())
    token = request_id.set(this_request)
    request_started.send(sender=ReviewPath, environ=environ)  # closes connections that are too old
    try:
        answer = review(parse_json(body.read(int(length))), backend=backend, mark=mark)
    except Exception as error:  # noqa: BLE001  (the ordinary way reports it)
        logger.info("review_repeated", error=type(error).__name__)
        body.seek(0)
        return None
    finally:
        request_id.reset(token)
    is_allowed = answer["response"]["allowed"]
    if not is_allowed:
        logger.info("review_refused", address=address, backend=backend, request_id=this_request)
    _SECONDS.labels(address, "yes" if is_allowed else "no").observe(time.perf_counter() - begin)
    return HttpResponse(
        json.dumps(answer, separators=(",", ":")),
        content_type="application/json",
        headers={**_HEADERS, "X-Request-ID": this_request},
    )
