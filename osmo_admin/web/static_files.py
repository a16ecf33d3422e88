"""The sending of static files and pages: built files with a year of cache, pages compressed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

YEAR = 365 * 24 * 60 * 60


class BuiltFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # the library has no types
    """Built files by the names of their sources. A file of another package keeps its name."""

    def stored_name(self, name: str) -> str:
        try:
            return str(super().stored_name(name))
        except ValueError:  # not one of our files
            return name


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # the library has no types
    """WhiteNoise, with a year of cache for names with a hash."""

    FOREVER = YEAR


class PageCompressionMiddleware(GZipMiddleware):
    """Compress pages. Answers of the API are small, and its streams must not be held back. Django adds a random number
    of bytes, so the length of a page tells nothing about the secrets in it."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)
