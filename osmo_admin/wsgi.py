"""The web application as servers load it, and the part of it that clusters call."""

import gc
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

from osmo_admin import checks

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
application = get_wsgi_application()
checks.refuse_unsafe_settings()
gc.freeze()  # what is loaded by now stays: the collector need not look through it while somebody waits for an answer

_CLUSTER_PATHS = ("/webhooks/", "/health")


def webhooks(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Only what clusters ask: the port that is open to them serves no login and no page."""
    if not str(environ.get("PATH_INFO", "")).startswith(_CLUSTER_PATHS):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"Only /webhooks/ is served here.\n"]
    answer: Iterable[bytes] = application(environ, start_response)
    return answer
