"""The version of the service (design, O2)."""

from __future__ import annotations

from typing import TypedDict

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import describe_operation
from pools.api.views import View
from pools.api.warnings_header import CONTRACT_VERSION

# Outside of the body, which is OSMO's: clients of others may refuse a key that they do not know.
PRODUCT_HEADER = "X-OSMO-Admin-Version"


class VersionAnswer(TypedDict):
    """A release of OSMO; `hash` may be empty."""

    major: str
    minor: str
    revision: str
    hash: str


def version() -> VersionAnswer:
    """The release of OSMO whose clients this service supports; `hash` may be empty."""
    major, minor, revision = map(str, CONTRACT_VERSION)
    return {"major": major, "minor": minor, "revision": revision, "hash": ""}


class Version(View):
    """`osmo version`. The address needs no login and ignores an expired one. The version of the product is a header."""

    authentication_classes = ()
    permission_classes = ()

    @describe_operation("Which release of OSMO's wire contract is served.", answer=VersionAnswer, is_anonymous=True)
    def get(self, request: Request) -> Response:
        return Response(version(), headers={PRODUCT_HEADER: settings.PRODUCT_VERSION})


@require_safe
def client_version(request: HttpRequest) -> HttpResponse:
    """The client release to install; plain text for shell scripts that ask for it."""
    if request.headers.get("Accept", "").startswith("text/plain"):
        return HttpResponse(".".join(map(str, CONTRACT_VERSION)), content_type="text/plain")
    return JsonResponse(version())
