"""Access tokens: one's own, and for an osmo-admin those of all users. A secret is shown once, after its creation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.shown_secrets import make_secret
from pools.domain.changes.tokens import CreateToken, DeleteToken
from pools.domain.list_columns import TOKEN_COLUMNS
from pools.domain.people.roles import Permission, is_allowed
from pools.domain.structured_input.declared_values import fields_of
from pools.models import AccessToken, User
from pools.services.people.access_tokens import create_token, delete_token, get_token, get_token_owner, list_tokens

LIFETIME_CHOICES = [("7", "7 days"), ("31", "31 days"), ("90", "90 days"), ("365", "365 days")]
_NEW = fields_of(CreateToken)


class TokenForm(forms.ServiceForm):
    """A new token."""

    field_by_path = {"expires_at": "days"}
    name = forms.text_field(_NEW["name"].label, help_text=_NEW["name"].help)
    days = forms.choice_field("Lifetime", LIFETIME_CHOICES)
    description = forms.text_field(_NEW["description"].label, help_text=_NEW["description"].help)
    roles = forms.multiple_choice_field(_NEW["roles"].label, help_text=_NEW["roles"].help)

    def __init__(self, *args: Any, owner: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["roles"].choices = [(role, role) for role in sorted(owner.as_actor().roles)]  # type: ignore[attr-defined]


@admin.register(AccessToken)
class TokenAdmin(PolicyAdmin):
    """Digests are never shown; secrets are shown once."""

    address = "tokens"

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("tokens/-/create", self.protect(self._create), name="pools_token_create"),
            path("tokens/<str:name>/revoke", self.protect(self._revoke), name="pools_token_revoke"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        named = request.GET.get("owner") or actor.username
        owner = get_token_owner(actor, named, Permission.PLATFORM_READ, with_disabled=True)
        return self.render_page(
            request,
            "osmo/tokens.html",
            title="Access tokens",
            columns=TOKEN_COLUMNS,
            owner=owner,
            suffix=_owner_query(request, owner),
            tokens=list_tokens(actor=actor, owner=owner),
            may_write=owner.username == actor.username or is_allowed(actor, Permission.PLATFORM_WRITE),
            now=timezone.now(),
        )

    def _owner(self, request: HttpRequest, *, with_disabled: bool = False) -> User:
        """The owner of the tokens of this page. Raises Forbidden for another user, unless an osmo-admin asks."""
        actor = actor_of(request)
        return get_token_owner(actor, request.GET.get("owner") or actor.username, with_disabled=with_disabled)

    def _create(self, request: HttpRequest) -> HttpResponse:
        owner = self._owner(request)
        form = TokenForm(forms.submitted_data(request), owner=owner, initial={"days": "31"})
        back = reverse("admin:pools_accesstoken_changelist") + _owner_query(request, owner)

        def create() -> HttpResponse:
            data, actor = form.cleaned_data, actor_of(request)

            def make() -> tuple[str, str]:
                token, secret = create_token(
                    CreateToken(
                        owner=owner.username,
                        name=data["name"],
                        expires_at=timezone.now() + timedelta(days=int(data["days"])),
                        description=data["description"],
                        roles=data["roles"] or None,
                    ),
                    actor=actor,
                )
                return token.name, secret

            name, secret = make_secret(actor, form, repr((owner.username, data)), make)
            if secret is None:
                self.show_warning(
                    request,
                    f"Token {name} was created when this form was sent first, and its secret was shown then. If nobody "
                    "copied it, revoke the token and create another.",
                )
                return HttpResponseRedirect(back)
            return self.render_page(
                request,
                "osmo/token_secret.html",
                title=f"Token {name}",
                crumbs=[("Access tokens", back)],
                token=get_token(actor=actor, owner=owner.username, name=name),
                secret=secret,
                back=back,
            )

        for_owner = "" if owner == request.user else f" for {owner.username}"
        return self.change_by_form(
            request,
            form,
            create,
            title=f"Create an access token{for_owner}",
            button="Create the token",
            crumbs=[("Access tokens", back)],
        )

    def _revoke(self, request: HttpRequest, name: str) -> HttpResponse:
        owner = self._owner(request, with_disabled=True)
        back = reverse("admin:pools_accesstoken_changelist") + _owner_query(request, owner)
        if request.method == "POST":
            delete_token(DeleteToken(owner=owner.username, name=name), actor=actor_of(request))
            done = f"Token {name} was revoked; requests with this token are refused from now on."
            return self.show_removed(request, done, back)
        get_token(actor=actor_of(request), owner=owner.username, name=name)
        return self.render_form_page(
            request,
            forms.ServiceForm(),
            title=f"Revoke {name}",
            button="Revoke the token",
            crumbs=[("Access tokens", back)],
            danger=True,
            lead=f"Programs that use {name} of {owner.username} are refused from now on. This cannot be undone.",
        )


def _owner_query(request: HttpRequest, owner: User) -> str:
    return "" if owner == request.user else f"?{urlencode({'owner': owner.username})}"
