"""The reference of the API as pages of the dashboard; people who are not signed in read it without the menu."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from osmo_admin.api_document.reference import Operation, read_reference
from osmo_admin.site import AdminSite
from osmo_admin.web.error_views import not_found_page
from pools.admin import forms
from pools.domain.columns import list_columns

KEY_COLUMNS = list_columns("key", "type", "meaning")
PARAMETER_COLUMNS = list_columns("parameter", "place", "type", "meaning")


@require_safe
def api_page(request: HttpRequest) -> HttpResponse:
    """Each operation in one line, by tag."""
    reference = read_reference()
    paragraphs = [" ".join(text.split()) for text in reference.text.split("\n\n")]
    found = {"groups": reference.groups, "count": len(reference.operations), "paragraphs": paragraphs}
    return _page(request, "osmo/api_page.html", "API reference", crumbs=(), **found)


@require_safe
def api_operation(request: HttpRequest, name: str) -> HttpResponse:
    """The parameters, the body and the answers of one operation."""
    operation = read_reference().operations.get(name)
    if operation is None:
        return not_found_page(request, "The API does not have this operation.")
    return _page(
        request,
        "osmo/api_operation.html",
        f"{operation.method} {operation.path}",
        crumbs=[("API reference", reverse("api_page"))],
        operation=operation,
        commands=_command(operation, request.build_absolute_uri("/").rstrip("/")),
        key_columns=KEY_COLUMNS,
        parameter_columns=PARAMETER_COLUMNS,
        script=forms.script_media("copy"),
    )


def _command(operation: Operation, server: str) -> list[str]:
    """The request with curl."""
    globbing = "--globoff " if "{" in operation.path else ""  # curl reads {a} as a choice of addresses
    parts = [f"curl -X {operation.method} {globbing}'{server}{operation.path}'"]
    if operation.needs_login:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if operation.example:
        parts += ["-H 'Content-Type: application/json'", f"-d '{operation.example}'"]
    return " \\\n  ".join(parts).splitlines()


def _site() -> AdminSite:
    site = admin.site
    assert isinstance(site, AdminSite)
    return site


def _page(request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
    frame = _site().each_context(request)
    outer = "osmo/base.html" if frame["menu"] else "osmo/frame/signed_out.html"
    return TemplateResponse(request, template, {**frame, "title": title, "frame": outer, **context})
