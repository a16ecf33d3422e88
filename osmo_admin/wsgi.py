"""The WSGI application, and its part for the webhook server."""

import gc
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

from osmo_admin import checks

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
application = get_wsgi_application()
checks.refuse_unsafe_settings()
gc.freeze()  # loaded objects stay, so the garbage collector need not scan them during a request

_CLUSTER_PATHS = ("/webhooks/", "/health")


def webhooks(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Serve only the admission webhooks: the port for clusters has no login and no pages."""
    if not str(environ.get("PATH_INFO", "")).startswith(_CLUSTER_PATHS):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"Only /webhooks/ is served here.\n"]
    answer: Iterable[bytes] = application(environ, start_response)
    return answer
