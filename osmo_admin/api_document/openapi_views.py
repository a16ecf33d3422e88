"""The OpenAPI file and its page. The file is generated once per process: that takes half a second, without a login."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.views import SpectacularSwaggerSplitView

from scheduling.configuration.schema import SCHEMA

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


@require_safe
def configuration_schema(request: HttpRequest) -> HttpResponse:
    """The JSON schema of files of the configuration, for editors; without a login, as the OpenAPI file."""
    return JsonResponse(SCHEMA, content_type="application/schema+json", json_dumps_params={"indent": 2})


class OpenApiPage(SpectacularSwaggerSplitView):
    """Swagger UI, which sends requests. Its script is a file of its own, so that no inline script has to be allowed."""

    authentication_classes = ()
    permission_classes = ()
    url_name = "openapi"
    template_name = "osmo/api_try.html"
