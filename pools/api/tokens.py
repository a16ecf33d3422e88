"""Access tokens, one's own and other people's (contract, section 3)."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, boolean, only
from pools.api.rendering import naive
from pools.api.schema import DRY_RUN, NULL, TEXT, TIME, Query, array, documented, fields, nullable
from pools.api.times import moment
from pools.api.users import ROLE_GIVEN, roles_given
from pools.api.views import View
from pools.models import AccessToken, User
from pools.security.tokens import new_secret, secret_from
from pools.services.dry_run import effect_of
from pools.services.tokens import create_token, delete_token, token_of, tokens_of

TOKEN = fields(
    {
        "user_name": TEXT,
        "token_name": TEXT,
        "expires_at": TIME,
        "description": nullable(TEXT),
        "roles": array(TEXT),
    }
)
MADE_WITH = [
    Query("expires_at", TEXT, "The day (UTC) on which it ends, at most a year away; 31 days from now if not given."),
    Query("description", TEXT, "What it is for."),
    Query("roles", TEXT, "Only these of the owner's roles; all if not given.", many=True),
    DRY_RUN,
]


class _Tokens(View):
    def _listed(self, owner: str) -> list[dict[str, Any]]:
        rows = tokens_of(actor=self.actor, owner=owner)
        held = User.objects.get(username=owner).as_actor().roles if rows else frozenset()
        return [token_body(row, owner, held) for row in rows]


class TokenList(_Tokens):
    """The access tokens of a user; never their secrets."""

    @documented("List access tokens.", answer=array(TOKEN))
    def get(self, request: Request, user: str | None = None) -> Response:
        return Response(self._listed(user or self.actor.username))


class TokenDetail(_Tokens):
    """One access token."""

    @documented("Make an access token. Its secret is answered this once.", query=MADE_WITH, answer=TEXT)
    def post(self, request: Request, name: str, user: str | None = None) -> Response:
        only(body_object(request), "description", "tags")
        owner, seed = user or self.actor.username, new_secret()
        expires_at, roles = moment(request, "expires_at"), request.query_params.getlist("roles")

        def deed() -> str:
            return create_token(
                actor=self.actor,
                owner=owner,
                name=name,
                expires_at=expires_at,
                description=request.query_params.get("description", ""),
                roles=[role for role in roles if role] or None,
                secret=secret_from(seed),
            )[1]

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: self._listed(owner)))
        return self.once(lambda: Response(deed()), keep=lambda _: seed, give=secret_from)

    @documented("Delete an access token; whoever uses it is out at once.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, name: str, user: str | None = None) -> Response:
        only(body_object(request), "description", "tags")
        owner = user or self.actor.username

        def deed() -> None:
            delete_token(actor=self.actor, owner=owner, name=name)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: self._listed(owner)))
        deed()
        return Response(None)


class TokenRoles(View):
    """What one token may do."""

    @documented(
        "Show what a token may do.",
        answer=fields({"user_name": TEXT, "token_name": TEXT, "roles": array(ROLE_GIVEN)}),
    )
    def get(self, request: Request, name: str, user: str | None = None) -> Response:
        owner = user or self.actor.username
        token = token_of(actor=self.actor, owner=owner, name=name)
        roles = [role for role in roles_given(token.owner) if token.roles is None or role["role_name"] in token.roles]
        return Response({"user_name": owner, "token_name": token.name, "roles": roles})


def token_body(token: AccessToken, owner: str, held: frozenset[str]) -> dict[str, Any]:
    """A token in a list, with the roles it has right now."""
    return {
        "user_name": owner,
        "token_name": token.name,
        "expires_at": naive(token.expires_at),
        "description": token.description or None,
        "roles": sorted(held if token.roles is None else held & set(token.roles)),
    }
