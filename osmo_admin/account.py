"""One's own account: another password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import actor_of
from pools.domain.errors import DomainError
from pools.models import User
from pools.services.users import set_password

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite


class OwnPasswordForm(forms.ServiceForm):
    """The old password, and a new one twice."""

    field_by_path = {"password": "new"}
    old = forms.password_field("Your password now", current=True)
    new = forms.password_field("New password", help_text="At least 8 characters; not a common one.")
    again = forms.password_field("New password again")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if "old" in given and not self.user.check_password(given["old"]):
            self.add_error("old", "This is not your password.")
        if "new" in given and "again" in given and given["new"] != given["again"]:
            self.add_error("again", "The two new passwords differ.")
        return given


def account_urls(site: AdminSite) -> list[URLPattern]:
    """Addresses that stand in place of Django's own."""
    return [
        path(
            "password_change/",
            site.admin_view(lambda request: change_own_password_page(site, request)),
            name="password_change",
        )
    ]


def change_own_password_page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Give oneself another password, through the service, so that the audit trail knows who did it."""
    user = cast("User", request.user)
    form = OwnPasswordForm(forms.submitted_data(request), user=user)
    if request.method == "POST" and form.is_valid():
        try:
            set_password(actor=actor_of(request), username=user.username, password=form.cleaned_data["new"])
        except DomainError as refusal:
            form.add_errors(refusal)
        else:
            user.refresh_from_db()
            update_session_auth_hash(request, user)
            messages.success(request, "Your password was changed. Other browsers were signed out.")
            return HttpResponseRedirect(reverse("admin:index"))
    context = {**site.each_context(request), "title": "Change your password", "crumbs": (), "form": form}
    context |= {"button": "Change password", "back": reverse("admin:index")}
    return TemplateResponse(request, "osmo/form.html", context, status=400 if form.errors else 200)
