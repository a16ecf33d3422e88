"""The page on which a person consents to the login of a client (`osmo login`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from osmo_admin.access.provider_pages import session_identity
from osmo_admin.web.error_responses import STATUS_OF_KIND
from pools.admin.base import actor_of
from pools.domain.errors import DomainError
from pools.services.people.client_logins import answer_client_login, find_client_login

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

MAX_CODE = 40  # characters of a typed code


def client_login_urls(site: AdminSite) -> list[URLPattern]:
    """The address that a client shows."""
    return [
        path("client-login/", site.admin_view(lambda request: client_login_page(site, request)), name="client_login")
    ]


def client_login_page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Ask for the code; show who waits with it; then take the answer of the person."""
    code = (request.POST.get("code") or request.GET.get("code") or "")[:MAX_CODE]
    answer = request.POST.get("answer", "") if request.method == "POST" else ""
    login, message, status = None, "", 200
    try:
        if answer in {"approve", "deny"}:
            is_approved = answer == "approve"
            answer_client_login(
                actor=actor_of(request), user_code=code, is_approved=is_approved, identity=session_identity(request)
            )
            done = "The client is logged in. Close this page." if is_approved else "The client was refused."
            messages.success(request, done)
            return HttpResponseRedirect(reverse("admin:index"))
        if code:
            login = find_client_login(code)
    except DomainError as refusal:
        message, status = refusal.message, STATUS_OF_KIND[refusal.kind]
    context = {**site.each_context(request), "title": "Log in a client", "crumbs": (), "login": login, "code": code}
    context |= {"message": message, "person": request.user}
    return TemplateResponse(request, "osmo/client_login.html", context, status=status)
