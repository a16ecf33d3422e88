"""The pages on which people change their own password and their own mail address."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.auth import authenticate, update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import actor_of
from pools.domain.changes.profiles import UpdateProfile
from pools.domain.changes.users import SetPassword
from pools.domain.errors import DomainError
from pools.domain.structured_input.declared_values import fields_of
from pools.models import User
from pools.services.people.users import set_password, update_profile

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite


_EMAIL, _PASSWORD = fields_of(UpdateProfile)["email"], fields_of(SetPassword)["password"]


class OwnPasswordForm(forms.ServiceForm):
    """The old password, and a new one twice."""

    field_by_path = {"password": "new"}
    old = forms.password_field("Current password", current=True)
    new = forms.password_field(_PASSWORD.label, help_text=_PASSWORD.help)
    again = forms.password_field("New password again")

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if "old" in data and not self._is_own_password(data["old"]):
            self.add_error("old", "This is not your password.")
        if "new" in data and "again" in data and data["new"] != data["again"]:
            self.add_error("again", "The two new passwords differ.")
        return data

    def _is_own_password(self, password: str) -> bool:
        """Check it like a login, so that wrong ones are counted: a stolen session must not try passwords. A backend
        that does not know `is_own` is left out: a directory would let in another person of this name."""
        username = cast("User", self.request.user).username
        return authenticate(self.request, username=username, password=password, is_own=True) is not None


class OwnMailForm(forms.ServiceForm):
    """The mail address of the own account."""

    email = forms.text_field(_EMAIL.label, help_text=_EMAIL.help)


def account_urls(site: AdminSite) -> list[URLPattern]:
    """The URLs that replace Django's own."""
    password, mail = (partial(page, site) for page in (change_own_password_page, change_own_mail_page))
    return [
        path("password_change/", site.admin_view(password), name="password_change"),
        path("mail_change/", site.admin_view(mail), name="mail_change"),
    ]


def change_own_password_page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Change the own password through the service, so that the audit log names the person."""
    user = cast("User", request.user)
    form = OwnPasswordForm(forms.submitted_data(request), request=request)

    def save() -> str:
        command = SetPassword(username=user.username, password=form.cleaned_data["new"])
        set_password(command, actor=actor_of(request))
        user.refresh_from_db()
        update_session_auth_hash(request, user)
        return "Your password was changed. Other browsers were signed out."

    words = {"title": "Change your password", "button": "Change password", "back": reverse("admin:index")}
    return _change_by_form(site, request, form, save, words)


def change_own_mail_page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Change the mail address of the own account, to which the notices of the profile go."""
    user = cast("User", request.user)
    form = OwnMailForm(forms.submitted_data(request), initial={"email": user.email})

    def save() -> str:
        email = form.cleaned_data["email"]
        update_profile(UpdateProfile(email=email), actor=actor_of(request))
        return f"Your mail address is {email} now." if email else "You have no mail address."

    back = reverse("admin:pools_user_change", args=[user.username])
    words = {"title": "Change your mail address", "button": "Save the address", "back": back}
    return _change_by_form(site, request, form, save, words)


def _change_by_form(
    site: AdminSite, request: HttpRequest, form: forms.ServiceForm, save: Callable[[], str], words: dict[str, str]
) -> HttpResponse:
    """A page that is one form. `save` makes the change and returns what is said about it on the page of `back`."""
    if request.method == "POST" and form.is_valid():
        try:
            messages.success(request, save())
            return HttpResponseRedirect(words["back"])
        except DomainError as refusal:
            form.add_errors(refusal)
    context = {**site.each_context(request), "crumbs": (), "form": form, **words}
    return TemplateResponse(request, "osmo/form.html", context, status=400 if form.errors else 200)
