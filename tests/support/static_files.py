"""The list of static files, read once in each process of the tests.

Each `Client()` builds the middleware anew, and with it the list of a few hundred files from the disk, which takes
longer than many a request. A served process builds it once.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from osmo_admin.web.static_files import StaticFilesMiddleware

_READ_FROM = ("DEBUG", "FORCE_SCRIPT_NAME", "STATIC", "WHITENOISE")


def read_static_files_once() -> None:
    """From now on each new middleware takes the list of the first one with the same settings."""
    build: Any = StaticFilesMiddleware.__init__
    built: dict[str, dict[str, Any]] = {}

    def take_built(self: StaticFilesMiddleware, get_response: Any = None) -> None:
        key = repr([(name, getattr(settings, name)) for name in dir(settings) if name.startswith(_READ_FROM)])
        if key not in built:
            build(self, get_response)
            built[key] = vars(self)
        vars(self).update(built[key], get_response=get_response)

    StaticFilesMiddleware.__init__ = take_built
