"""The page on which a person links the own account with the own entry of a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axes.handlers.proxy import AxesProxyHandler
from axes.helpers import get_credentials
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from osmo_admin.access.login_limits import lockout_response
from osmo_admin.web.error_responses import STATUS_OF_KIND
from pools.admin import forms
from pools.domain.errors import DomainError
from pools.sign_on.accounts import link_by_password
from pools.sign_on.providers import LdapDirectory, SyncMode

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

EFFECTS = {
    SyncMode.FORCE: "Your roles become exactly those of your groups there, each time that they are read.",
    SyncMode.IMPORT: "Your groups there add roles to those that you have.",
    SyncMode.IGNORE: "Your roles stay as they are.",
}


class DirectoryLinkForm(forms.ServiceForm):
    """Name and password of the directory."""

    username = forms.text_field("Name there", required=True)
    password = forms.password_field("Password there", current=True)


def directory_link_page(site: AdminSite, request: HttpRequest, directory: LdapDirectory) -> HttpResponse:
    """Ask for name and password of the directory; wrong ones count as failed logins."""
    account = request.user.get_username()
    back = reverse("admin:pools_user_change", args=[account])
    form = DirectoryLinkForm(forms.submitted_data(request))
    status = 200
    if request.method == "POST" and form.is_valid():
        name, password = form.cleaned_data["username"], form.cleaned_data["password"]
        credentials = get_credentials(name)
        if not AxesProxyHandler.is_allowed(request, credentials):
            return lockout_response(request, None, credentials)
        try:
            if link_by_password(directory=directory, username=name, password=password, link_to=account):
                messages.success(request, f"Your account is linked with {directory.title}.")
                return HttpResponseRedirect(back)
            AxesProxyHandler.user_login_failed(DirectoryLinkForm, credentials, request)
            form.add_error(None, f"{directory.title} does not know this name with this password.")
        except DomainError as refusal:
            form.add_errors(refusal)
            status = STATUS_OF_KIND[refusal.kind]
    if form.errors and status == 200:
        status = 400
    lead = f"From then on you can log in with the password of {directory.title}. {EFFECTS[directory.sync]}"
    context = {
        **site.each_context(request),
        "title": f"Link your account with {directory.title}",
        "crumbs": [(account, back)],
        "form": form,
        "button": "Link the account",
        "lead": f"{lead} Your password here stays valid.",
        "back": back,
    }
    return TemplateResponse(request, "osmo/form.html", context, status=status)
