"""The base of every admin page: read-only, open to the users that :mod:`pools.permissions` allows.

Django's permission tables are not used. A page writes only by calling a service, so this module adds, changes and
deletes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from pools.admin.done_changes import GONE, DoneChange, keep_done, making_marks, read_done
from pools.domain.errors import DomainError, NotFound
from pools.domain.page_addresses import PREVIEW_SEGMENT
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.models import User
from pools.permissions import platform_roles

Breadcrumbs = Sequence[tuple[str, str]]


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in user as an actor, looked up once per request. Without a login the actor has no roles."""
    actor: Actor | None = getattr(request, "_osmo_actor", None)
    if actor is None:
        user = request.user
        actor = user.as_actor() if isinstance(user, User) else Actor(username="")
        request._osmo_actor = actor  # type: ignore[attr-defined]
    return actor


class PolicyAdmin(ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A model's pages: a list at `address`, rendered by `show_list`, and each object below it, if the class has
    `show_object`; further addresses come from `extra_urls`. :mod:`pools.domain.page_addresses` has the scheme."""

    address: ClassVar[str]
    """The address of the list, without the slash before it."""
    object_address: ClassVar[str] = ""
    """The route of one object, with `<str:object_id>`; empty: its name below the list's address."""

    admin_site: Any  # our AdminSite, which the pages cannot import: it registers them
    read_permission: ClassVar[Permission | None] = None
    """What opens these pages at all; None: everybody may, and each page shows what the actor may see."""
    roles_that_see: ClassVar[str] = ""
    """The roles that do, for a person without them, where `may_see` asks for more than `read_permission`."""

    def may_see(self, actor: Actor) -> bool:
        """Whether `actor` may open these pages at all."""
        return self.read_permission is None or is_allowed(actor, self.read_permission)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.may_see(actor_of(request))

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may_see(actor_of(request))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        """Only the addresses of this class; Django's add, delete and history views have none."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        urls = [path(self.address, self.protect(self.show_list), name=f"{name}_changelist"), *self.extra_urls()]
        if type(self).show_object is not PolicyAdmin.show_object:
            route = self.object_address or f"{self.address}/<str:object_id>"
            urls.append(path(route, self.protect(self.show_object), name=f"{name}_change"))
        return urls

    def extra_urls(self) -> list[URLPattern]:
        """Further addresses."""
        return []

    def protect(self, view: Any) -> Any:
        """A view that requires the login and the permission of this model's pages."""

        def protected_view(request: HttpRequest, **arguments: Any) -> HttpResponse:
            if not self.may_see(actor_of(request)):
                refusal: HttpResponse = self.admin_site.role_required_page(request, self._roles())
                return refusal
            try:
                answer: HttpResponse = view(request, **arguments)
            except NotFound:
                if (done := self._page_of_gone(request)) is None:
                    raise
                return done
            return answer

        return self.admin_site.admin_view(protected_view)

    def _roles(self) -> str:
        return self.roles_that_see or platform_roles(self.read_permission)

    def _page_of_gone(self, request: HttpRequest) -> TemplateResponse | None:
        """What was said when this person removed the object whose form they come back to; None if they did not."""
        address, is_repeated = request.path.removesuffix(PREVIEW_SEGMENT), request.method == "POST"
        marks = making_marks(actor_of(request), address) if is_repeated else ()
        done = read_done(actor_of(request), address, GONE, waits_for=marks)
        if done is None:
            return None
        status = 404 if is_repeated else 200
        return self.render_page(request, "osmo/change_done.html", title="Done", status=status, done=done)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        """The list page."""
        raise NotImplementedError

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of one object."""
        raise NotImplementedError

    def render_page(
        self,
        request: HttpRequest,
        template: str,
        *,
        title: str,
        crumbs: Breadcrumbs = (),
        status: int = 200,
        **context: Any,
    ) -> TemplateResponse:
        """A page inside the frame of the site. `crumbs`: the (text, address) of the pages above; a tab has none."""
        request.current_app = self.admin_site.name
        site = self.admin_site.each_context(request)
        full_context = {
            **site,
            "title": title,
            "crumbs": () if site["tabs"] else crumbs,
            "actor": actor_of(request),
            **context,
        }
        return TemplateResponse(request, template, full_context, status=status)

    def render_form_page(
        self, request: HttpRequest, form: Any, *, title: str, button: str, crumbs: Breadcrumbs, **more: Any
    ) -> TemplateResponse:
        """A page that is one form; its back link is the page right above it. The status is 400 after a refusal."""
        words = {
            "title": title,
            "button": button,
            "back": crumbs[-1][1],
            **more,
        }
        return self.render_page(
            request, "osmo/form.html", crumbs=crumbs, form=form, status=400 if form.errors else 200, **words
        )

    def change_by_form(
        self, request: HttpRequest, form: Any, make: Callable[[], HttpResponse], **words: Any
    ) -> HttpResponse:
        """A page that is one form; `make` makes the change of a submitted form, which shows why one is refused."""
        if request.method == "POST" and form.is_valid():
            try:
                return make()
            except DomainError as refusal:
                form.add_errors(refusal)
        return self.render_form_page(request, form, **words)

    def show_success(self, request: HttpRequest, message: str) -> None:
        """Show a message of success on the next page."""
        messages.success(request, message)

    def show_removed(self, request: HttpRequest, message: str, address: str) -> HttpResponseRedirect:
        """The next page after an object was removed without a preview. The person who comes back to its form reads the
        message there, too."""
        self.show_success(request, message)
        keep_done(actor_of(request), request.path, GONE, DoneChange(message=message, address=address, version=None))
        return HttpResponseRedirect(address)

    def show_warning(self, request: HttpRequest, message: str) -> None:
        """Show a warning on the next page."""
        messages.warning(request, message)
