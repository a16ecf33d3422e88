"""The web dashboard: Django's admin with pages of our own, open to everybody with a login.

Our own permissions decide, page by page, what a person may see and do; Django's staff flag and permissions do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.db.models import Model
from django.db.models.base import ModelBase
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from osmo_admin.access.login import LoginForm, login_choices
from osmo_admin.web import preserved_input
from osmo_admin.web.error_responses import STATUS_OF_KIND, retry_after_header, to_domain_error
from pools.database.transactions import renew_failed_snapshot
from pools.domain.errors import DomainError, ErrorKind, Forbidden

if TYPE_CHECKING:
    from pools.models import User

View = Callable[..., HttpResponse]

_REFUSAL_TITLES = {
    ErrorKind.FORBIDDEN: "Not allowed",
    ErrorKind.NOT_FOUND: "Not found",
    ErrorKind.BUSY: "Busy, try again",
}


class AdminSite(admin.AdminSite):
    """The only site of the installation."""

    site_title = "OSMO Admin"
    login_form = LoginForm
    login_template = "osmo/login.html"
    logout_template = "osmo/logged_out.html"
    final_catch_all_view = False  # an unknown address is a 404 for everybody, not a login form

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """What the frame of a page shows. Django's list of all models is not among it: the menu takes its place."""
        from osmo_admin.navigation import bell_of, menu_of, tabs_of  # noqa: PLC0415  # pages, which are loaded later

        is_known = self.has_permission(request)
        menu = menu_of(request) if is_known else []
        words = {
            "site_title": self.site_title,
            "site_subheader": "GPUs that teams share",
            "docs_url": settings.OSMO.docs_url,
        }
        return {**words, "menu": menu, "tabs": tabs_of(request, menu), "bell": bell_of(request) if is_known else None}

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_authenticated)

    def register(
        self,
        model_or_iterable: type[Model] | Iterable[type[Model]],
        admin_class: type[admin.ModelAdmin[Any]] | None = None,
        **options: Any,
    ) -> None:
        """Register pages that use our permissions. Pages of installed apps use Django's permissions and edit rows
        directly, so they are not registered."""
        from pools.admin.base import PolicyAdmin  # noqa: PLC0415  # registers pages, which needs this class

        if admin_class is None or not issubclass(admin_class, PolicyAdmin):
            return
        models = [model_or_iterable] if isinstance(model_or_iterable, ModelBase) else model_or_iterable
        super().register(models, admin_class, **options)

    def admin_view(self, view: View, cacheable: bool = False) -> View:  # type: ignore[override]  # its views are ours
        """As Django's, with two differences: a refusal that a view did not handle becomes a page with its message, and
        the input of a form whose session has ended is kept during the login."""

        @wraps(view)
        def with_refusal_page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                return view(request, *args, **kwargs)
            except Exception as error:
                refusal = to_domain_error(error)
                if refusal is None:
                    raise
                renew_failed_snapshot()
                return self.refusal_page(request, refusal)

        guarded: View = super().admin_view(with_refusal_page, cacheable)

        @wraps(guarded)
        def with_session_check(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            is_submitted = request.method == "POST" and request.path != reverse("admin:logout")
            if is_submitted and not self.has_permission(request):
                return self.signed_out_page(request)
            return guarded(request, *args, **kwargs)

        return with_session_check

    @method_decorator(never_cache)
    def signed_out_page(self, request: HttpRequest) -> HttpResponse:
        """The login page for a form whose session has ended; it carries the input of the form."""
        context = {
            **self.each_context(request),
            "title": "Log in",
            "form": LoginForm(request),
            "app_path": reverse("admin:login"),
            REDIRECT_FIELD_NAME: request.get_full_path(),
            "signed_out": True,
            **login_choices(request),
            preserved_input.FIELD_NAME: preserved_input.read_input(request).serialize(),
        }
        return TemplateResponse(request, self.login_template, context, status=403)

    @method_decorator(never_cache)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Django's login. A signed-in person is redirected to the requested page; input that was kept from before the
        login can be sent again after it."""
        if request.method == "GET" and self.has_permission(request):
            next_url = request.GET.get(REDIRECT_FIELD_NAME, "")
            is_ours = url_has_allowed_host_and_scheme(next_url, {request.get_host()}, require_https=request.is_secure())
            return HttpResponseRedirect(next_url if is_ours else reverse("admin:index"))
        text = request.POST.get(preserved_input.FIELD_NAME, "")
        typed = preserved_input.parse_input(text) if text else None
        kept = {preserved_input.FIELD_NAME: text, "signed_out": True} if typed else {}
        kept |= login_choices(request)
        answer: HttpResponse = super().login(request, {**(extra_context or {}), **kept})
        form = getattr(answer, "context_data", {}).get("form")
        if isinstance(form, LoginForm) and form.refusal is not None:
            answer.status_code = STATUS_OF_KIND[form.refusal.kind]
            for name, value in retry_after_header(form.refusal).items():
                answer.headers[name] = value
        if isinstance(answer, HttpResponseRedirect) and settings.OSMO.sign_on_providers:
            from osmo_admin.access.provider_pages import follow_sign_on  # noqa: PLC0415  # as in get_urls
            from pools.services.people.users import record_password_login  # noqa: PLC0415  # models, as above

            if not follow_sign_on(request):
                record_password_login(cast("User", request.user))
        if typed is None or not isinstance(answer, HttpResponseRedirect):
            return answer
        context = {**self.each_context(request), "title": "You are signed in again", "typed": typed}
        return TemplateResponse(request, "osmo/preserved_input.html", {**context, "address": answer.url})

    def logout(  # type: ignore[override]  # it may redirect
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django's logout; a session that began at an identity provider ends there, too. Its address is also a page,
        to which the search leads."""
        if request.method == "GET":
            return TemplateResponse(request, "osmo/log_out.html", {**self.each_context(request), "title": "Log out"})
        from osmo_admin.access.provider_pages import sign_out_address  # noqa: PLC0415  # as in get_urls

        title, address = sign_out_address(request) if request.method == "POST" else ("", "")
        context = {"provider_title": title, "provider_address": address}
        answer: HttpResponse = super().logout(request, {**(extra_context or {}), **context})
        return answer

    def refusal_page(self, request: HttpRequest, refusal: DomainError) -> HttpResponse:
        """A page with the message of a refusal, inside the frame of the site if the frame can be rendered."""
        context = {"title": _REFUSAL_TITLES.get(refusal.kind, "Refused"), "message": refusal.message}
        status = STATUS_OF_KIND[refusal.kind]
        if refusal.kind is ErrorKind.BUSY:  # the frame needs the database, which may be the part that does not respond
            answer = TemplateResponse(request, "osmo/plain.html", context, status=status)
            for name, value in retry_after_header(refusal).items():
                answer.headers[name] = value
            return answer
        frame = {**self.each_context(request), "is_refusal": True}
        return TemplateResponse(request, "osmo/refusal.html", {**frame, **context}, status=status)

    def role_required_page(self, request: HttpRequest, roles: str) -> HttpResponse:
        """The answer to a person without one of the roles that the page needs."""
        message = f"This page needs the role {roles}; {request.user.get_username()} does not have it."
        return self.refusal_page(request, Forbidden(f"{message} Ask an osmo-admin."))

    def get_urls(self) -> list[URLPattern | URLResolver]:
        from osmo_admin.access import account, client_login, provider_pages  # noqa: PLC0415  # show forms, which are loaded with the pages

        def page(route: str, view: View, name: str) -> URLPattern:
            return path(route, self.admin_view(view), name=name)

        return [
            *account.account_urls(self),
            *provider_pages.sign_on_urls(self),
            *client_login.client_login_urls(self),
            page("", self.index, "index"),
            path("login/", self.login, name="login"),
            page("logout/", self.logout, "logout"),
            page("search", self.search, "search"),
            *(each for pages in self._registry.values() for each in pages.get_urls()),
        ]

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The page of a search."""
        from scheduling.admin.search import search_page  # noqa: PLC0415  # as above

        return search_page(self, request)

    def index(  # type: ignore[override]  # it may redirect
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The first page: the overview."""
        from osmo_admin.home import home_page  # noqa: PLC0415  # as above

        return home_page(self, request)
