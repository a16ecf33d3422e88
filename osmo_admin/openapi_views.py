"""The OpenAPI file and its page, made once per process: generating it costs half a second, and anybody may ask."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.views import SpectacularSwaggerSplitView

_RENDERERS: dict[str, Any] = {"yaml": OpenApiYamlRenderer, "json": OpenApiJsonRenderer}


@require_safe
def openapi_file(request: HttpRequest) -> HttpResponse:
    """The OpenAPI file; YAML, or JSON with `?format=json` or `Accept: application/json`."""
    wants_json = request.GET.get("format") == "json" or "application/json" in request.headers.get("Accept", "")
    kind = "json" if wants_json else "yaml"
    return HttpResponse(render_openapi(kind), content_type=_RENDERERS[kind].media_type)


@cache
def render_openapi(kind: str) -> bytes:
    """The file as `manage.py spectacular` writes it."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    document = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    content: bytes = _RENDERERS[kind]().render(document, renderer_context={})
    return content


class OpenApiPage(SpectacularSwaggerSplitView):
    """The page that reads the file; its script comes by itself, so that no inline script needs to be allowed."""

    authentication_classes = ()
    permission_classes = ()
    url_name = "openapi"
