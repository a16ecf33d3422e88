"""Access tokens of the caller and of other users (design, O3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change, effect_on
from pools.api.people.users import RoleAnswer, role_bodies
from pools.api.rendering import utc_text, zoned_text
from pools.api.schema import NULL, TEXT, UtcText, ZonedText, describe_operation
from pools.api.views import View
from pools.domain.changes.tokens import CreateToken, DeleteToken, TokenChange
from pools.domain.errors import Conflict, Fault, Violation
from pools.domain.people.roles import Actor, Permission
from pools.models import AccessToken
from pools.services.people.access_tokens import create_token, delete_token, get_token, get_token_owner, list_tokens


class TokenAnswer(TypedDict):
    """An access token, without its secret."""

    user_name: str
    token_name: str
    expires_at: UtcText
    last_used_at: ZonedText | None
    description: str | None
    roles: list[str]


class TokenRolesAnswer(TypedDict):
    """The roles of one token."""

    user_name: str
    token_name: str
    roles: list[RoleAnswer]


def _require_owner(actor: Actor, address: Mapping[str, Any]) -> None:
    get_token_owner(actor, address["owner"])


def _require_former_owner(actor: Actor, address: Mapping[str, Any]) -> None:
    """A token of a disabled account is deleted before the account is enabled again."""
    get_token_owner(actor, address["owner"], with_disabled=True)


def _token_bodies(command: TokenChange, actor: Actor) -> list[TokenAnswer]:
    return token_bodies(actor, command.owner)


def _render_secret(made: tuple[AccessToken, str]) -> Response:
    return Response(made[1])


def _repeat_secret(command: CreateToken) -> Response:
    message = (
        f"The token {command.name} of {command.owner} was created by the first request with this Idempotency-Key. Its "
        "secret was in that answer only and is stored nowhere. If that answer was lost, delete the token and create "
        "another."
    )
    raise Conflict(message, [Violation("Idempotency-Key", Fault.SECRET_SHOWN_ONCE, message)])


TOKEN_CREATION: ChangeAnswer[CreateToken, tuple[AccessToken, str]] = ChangeAnswer(
    _render_secret, effect_on(_token_bodies), guard=_require_owner, repeat_secret=_repeat_secret
)
TOKEN_DELETION: ChangeAnswer[DeleteToken, None] = ChangeAnswer(
    answer_nothing, effect_on(_token_bodies), guard=_require_former_owner
)


class TokenList(View):
    """The access tokens of a user; never their secrets."""

    @describe_operation("List access tokens.", answer=list[TokenAnswer])
    def get(self, request: Request, user: str | None = None) -> Response:
        return Response(token_bodies(self.actor, user or self.actor.username))


class TokenDetail(View):
    """One access token."""

    @describe_change(CreateToken, answer=TEXT)
    def post(self, request: Request, name: str, user: str | None = None) -> Response:
        address = {"owner": user or self.actor.username, "name": name}
        return answer_change(self, CreateToken, create_token, TOKEN_CREATION, address)

    @describe_change(DeleteToken, answer=NULL)
    def delete(self, request: Request, name: str, user: str | None = None) -> Response:
        address = {"owner": user or self.actor.username, "name": name}
        return answer_change(self, DeleteToken, delete_token, TOKEN_DELETION, address)


class TokenRoles(View):
    """The roles of one token."""

    @describe_operation("Show the roles of a token.", answer=TokenRolesAnswer)
    def get(self, request: Request, name: str, user: str | None = None) -> Response:
        owner = user or self.actor.username
        token = get_token(actor=self.actor, owner=owner, name=name)
        roles = [role for role in role_bodies(token.owner) if token.roles is None or role["role_name"] in token.roles]
        answer: TokenRolesAnswer = {"user_name": owner, "token_name": token.name, "roles": roles}
        return Response(answer)


def token_bodies(actor: Actor, owner: str) -> list[TokenAnswer]:
    """The tokens of a user, by name."""
    user = get_token_owner(actor, owner, Permission.PLATFORM_READ, with_disabled=True)
    rows = list_tokens(actor=actor, owner=user)
    held = user.as_actor().roles if rows else frozenset()
    return [token_body(row, owner, held) for row in rows]


def token_body(token: AccessToken, owner: str, owner_roles: frozenset[str]) -> TokenAnswer:
    """A token in a list, with the roles it has right now."""
    return {
        "user_name": owner,
        "token_name": token.name,
        "expires_at": utc_text(token.expires_at),
        "last_used_at": zoned_text(token.last_used_at) if token.last_used_at else None,
        "description": token.description or None,
        "roles": sorted(owner_roles if token.roles is None else owner_roles & set(token.roles)),
    }
