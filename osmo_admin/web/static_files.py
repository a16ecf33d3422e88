"""The sending of static files and pages: built files with a year of cache, pages compressed."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, HttpResponseNotFound
from django.middleware.gzip import GZipMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import MissingFileError
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
    """WhiteNoise, with a year of cache for names with a hash. Sources, which are sent where there is no build, may be
    edited while the server runs, so they are looked at again."""

    FOREVER = YEAR

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer to the request: a file, or what comes behind this middleware."""
        if settings.STATIC_ROOT is None and (kept := self.files.get(request.path_info)) is not None:
            *_, (_, path, _) = kept.alternatives  # the last one is the file itself
            try:
                self.files[request.path_info] = self.get_static_file(path, request.path_info)
            except MissingFileError:
                return HttpResponseNotFound()
        response: HttpResponseBase = super().__call__(request)
        return response


class PageCompressionMiddleware(GZipMiddleware):
    """Compress pages. Answers of the API are small, and its streams must not be held back. Django adds a random number
    of bytes, so the length of a page tells nothing about the secrets in it."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)
