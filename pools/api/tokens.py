"""Access tokens of the caller and of other users (contract, section 3)."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import body_object, query_boolean, query_datetime, reject_unknown_keys
from pools.api.schema import (
    DRY_RUN,
    NULL,
    TEXT,
    QueryParameter,
    UtcText,
    describe_operation,
)
from pools.api.users import RoleAnswer, role_bodies
from pools.api.views import View
from pools.domain.errors import Conflict, Violation
from pools.models import AccessToken, User
from pools.services.access_tokens import create_token, delete_token, get_token, get_token_owner, list_tokens
from pools.services.dry_run import read_effect


class TokenAnswer(TypedDict):
    """An access token, without its secret."""

    user_name: str
    token_name: str
    expires_at: UtcText
    last_used_at: UtcText | None
    description: str | None
    roles: list[str]


class TokenRolesAnswer(TypedDict):
    """The roles of one token."""

    user_name: str
    token_name: str
    roles: list[RoleAnswer]


TOKEN_PARAMETERS = [
    QueryParameter(
        "expires_at",
        TEXT,
        "The day (UTC) on which the token expires, at most a year away; 31 days from now if not given.",
    ),
    QueryParameter("description", TEXT, "The purpose of the token."),
    QueryParameter("roles", TEXT, "Only these of the owner's roles; all if not given.", is_list=True),
    DRY_RUN,
]


class _Tokens(View):
    def _token_bodies(self, owner: str) -> list[TokenAnswer]:
        rows = list_tokens(actor=self.actor, owner=owner)
        held = User.objects.get(username=owner).as_actor().roles if rows else frozenset()
        return [token_body(row, owner, held) for row in rows]


class TokenList(_Tokens):
    """The access tokens of a user; never their secrets."""

    @describe_operation("List access tokens.", answer=list[TokenAnswer])
    def get(self, request: Request, user: str | None = None) -> Response:
        return Response(self._token_bodies(user or self.actor.username))


class TokenDetail(_Tokens):
    """One access token."""

    @describe_operation(
        "Create an access token. Only this answer contains its secret.", query_parameters=TOKEN_PARAMETERS, answer=TEXT
    )
    def post(self, request: Request, name: str, user: str | None = None) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        owner = user or self.actor.username
        expires_at, roles = query_datetime(request, "expires_at"), request.query_params.getlist("roles")

        def operation() -> str:
            return create_token(
                actor=self.actor,
                owner=owner,
                name=name,
                expires_at=expires_at,
                description=request.query_params.get("description", ""),
                roles=[role for role in roles if role] or None,
            )[1]

        def repeat_secret() -> Response:
            message = (
                f"The token {name} of {owner} was created by the first request with this Idempotency-Key. Its secret "
                "was in that answer only and is stored nowhere. If that answer was lost, delete the token and create "
                "another."
            )
            raise Conflict(message, [Violation("Idempotency-Key", "secret_shown_once", message)])

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: self._token_bodies(owner)))
        return self.run_once(
            lambda: Response(operation()),
            require=lambda: get_token_owner(self.actor, owner),
            repeat_secret=repeat_secret,
        )

    @describe_operation(
        "Delete an access token and the tokens made with it; their sessions end at once.",
        query_parameters=[DRY_RUN],
        answer=NULL,
    )
    def delete(self, request: Request, name: str, user: str | None = None) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        owner = user or self.actor.username

        def operation() -> None:
            delete_token(actor=self.actor, owner=owner, name=name)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: self._token_bodies(owner)))
        operation()
        return Response(None)


class TokenRoles(View):
    """The roles of one token."""

    @describe_operation(
        "Show the roles of a token.",
        answer=TokenRolesAnswer,
    )
    def get(self, request: Request, name: str, user: str | None = None) -> Response:
        owner = user or self.actor.username
        token = get_token(actor=self.actor, owner=owner, name=name)
        roles = [role for role in role_bodies(token.owner) if token.roles is None or role["role_name"] in token.roles]
        answer: TokenRolesAnswer = {"user_name": owner, "token_name": token.name, "roles": roles}
        return Response(answer)


def token_body(token: AccessToken, owner: str, owner_roles: frozenset[str]) -> TokenAnswer:
    """A token in a list, with the roles it has right now."""
    return {
        "user_name": owner,
        "token_name": token.name,
        "expires_at": utc_text(token.expires_at),
        "last_used_at": utc_text(token.last_used_at) if token.last_used_at else None,
        "description": token.description or None,
        "roles": sorted(owner_roles if token.roles is None else owner_roles & set(token.roles)),
    }
