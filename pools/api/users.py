"""Users and their roles (contract, section 3). `osmo-admin` may change them, `osmo-viewer` may read them, and all users
may read their own entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change
from pools.api.questions import parameters_of
from pools.api.rendering import utc_text
from pools.api.request_parsing import (
    BodyReader,
    body_object,
    collect_faults,
)
from pools.api.schema import (
    NULL,
    TEXT,
    UtcText,
    array_of,
    describe_operation,
    object_with,
)
from pools.api.views import View
from pools.domain.changes.command import read_command
from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole, NamedUserChange, RevokeRole, UnlinkUser
from pools.domain.errors import NotFound
from pools.domain.lists import UserQuery
from pools.domain.roles import Actor, Permission
from pools.filtersets.users import UserFilterSet
from pools.models import RoleAssignment, User
from pools.permissions import require_platform
from pools.selectors.sign_on import IdentityRow, identity_rows
from pools.services.dry_run import EffectAnswer, read_effect
from pools.services.sign_on import unlink
from pools.services.users import create_user, delete_user, grant_role, revoke_role

AnyUserChange = TypeVar("AnyUserChange", bound=CreateUser | NamedUserChange)


class UserAnswer(TypedDict):
    """A user who may sign in."""

    id: str
    created_at: UtcText
    created_by: str | None


class RoleAnswer(TypedDict):
    """A role of a user, and who gave it."""

    role_name: str
    assigned_by: str | None
    assigned_at: UtcText


class GrantedRoleAnswer(RoleAnswer):
    """A role that a user has been given."""

    user_id: str


class UserWithRolesAnswer(UserAnswer):
    """A user with the roles."""

    roles: list[RoleAnswer]


class UserListAnswer(TypedDict):
    """A page of users, by name."""

    total_results: int
    start_index: int
    items_per_page: int
    users: list[UserAnswer]


class IdentityAnswer(TypedDict):
    """An account of a user at an identity provider."""

    provider: str
    username: str
    groups: list[str]
    sync: str | None
    signed_on_at: UtcText
    confirmed_at: UtcText
    is_valid: bool
    is_renewable: bool


class UserList(View):
    """All users who may sign in."""

    @describe_operation(
        "List users by name.",
        query_parameters=parameters_of(UserQuery),
        answer=UserListAnswer,
    )
    def get(self, request: Request) -> Response:
        require_platform(self.actor, Permission.PLATFORM_READ)
        filters = UserFilterSet(
            request.query_params, User.objects.filter(is_active=True).order_by("username"), actor=self.actor
        )
        rows, count, start = filters.matching_rows(), filters.value("count"), filters.value("start_index")
        page = [user_body(row) for row in rows[start - 1 : start - 1 + count]]
        answer: UserListAnswer = {
            "total_results": rows.count(),
            "start_index": start,
            "items_per_page": len(page),
            "users": page,
        }
        return Response(answer)

    @describe_change(
        CreateUser, answer=UserAnswer, body=object_with({"id": TEXT, "roles": array_of(TEXT)}, required=["id"])
    )
    def post(self, request: Request) -> Response:
        return _answer(self, CreateUser, create_user, user_body, {})


class UserDetail(View):
    """One user."""

    @describe_operation("Show a user with the roles.", answer=UserWithRolesAnswer)
    def get(self, request: Request, user: str) -> Response:
        if user != self.actor.username:
            require_platform(self.actor, Permission.PLATFORM_READ)
        found = _find_user_body(user)
        if found is None:
            raise NotFound(f"User {user} does not exist.")
        return Response(found)

    @describe_change(DeleteUser, answer=NULL)
    def delete(self, request: Request, user: str) -> Response:
        return _answer(self, DeleteUser, delete_user, _no_body, {"username": user})


class UserRoles(View):
    """A user's roles."""

    @describe_change(
        GrantRole,
        answer=GrantedRoleAnswer,
        body=object_with({"role_name": TEXT}),
    )
    def post(self, request: Request, user: str) -> Response:
        return _answer(
            self, GrantRole, grant_role, lambda row: {"user_id": user, **_role_body(row)}, {"username": user}
        )


class UserRole(View):
    """One role of a user."""

    @describe_change(RevokeRole, answer=NULL)
    def delete(self, request: Request, user: str, role: str) -> Response:
        return _answer(self, RevokeRole, revoke_role, _no_body, {"username": user, "role_name": role})


class UserIdentities(View):
    """A user's accounts at identity providers."""

    @describe_operation(
        "List the accounts of a user at identity providers, with their groups.", answer=list[IdentityAnswer]
    )
    def get(self, request: Request, user: str) -> Response:
        if user != self.actor.username:
            require_platform(self.actor, Permission.PLATFORM_READ)
        found = User.objects.filter(username=user).first()
        if found is None:
            raise NotFound(f"User {user} does not exist.")
        return Response([_identity_body(row) for row in identity_rows(found)])


class UserIdentity(View):
    """One account of a user at an identity provider."""

    @describe_change(UnlinkUser, answer=NULL)
    def delete(self, request: Request, user: str, provider: str) -> Response:
        return _answer(self, UnlinkUser, unlink, _no_body, {"username": user, "provider": provider})


def _identity_body(row: IdentityRow) -> IdentityAnswer:
    return {
        "provider": row.provider,
        "username": row.username,
        "groups": list(row.groups),
        "sync": row.sync.value if row.sync else None,
        "signed_on_at": utc_text(row.signed_on_at),
        "confirmed_at": utc_text(row.checked_at),
        "is_valid": row.is_valid,
        "is_renewable": row.is_renewable,
    }


def user_body(user: User) -> UserAnswer:
    """A user in a list."""
    return {"id": user.username, "created_at": utc_text(user.date_joined), "created_by": user.created_by or None}


def role_bodies(user: User) -> list[RoleAnswer]:
    """A user's roles by name, each with its giver and time."""
    rows = RoleAssignment.objects.filter(user=user).select_related("group").order_by("group__name")
    return [_role_body(row) for row in rows]


def _role_body(row: RoleAssignment) -> RoleAnswer:
    return {
        "role_name": row.group.name,
        "assigned_by": row.assigned_by or None,
        "assigned_at": utc_text(row.assigned_at),
    }


def _find_user_body(username: str) -> UserWithRolesAnswer | None:
    user = User.objects.filter(username=username, is_active=True).first()
    return {**user_body(user), "roles": role_bodies(user)} if user else None


def _no_body(_: object) -> None:
    return None


def _answer(
    view: View,
    kind: type[AnyUserChange],
    service: Callable[..., Any],
    body_of: Callable[[Any], Any],
    address: Mapping[str, str],
) -> Response:
    """The answer of a change of a user; a dry run shows the user with the roles."""

    def effect(command: AnyUserChange, run: Callable[[], object], _: Actor) -> EffectAnswer:
        return read_effect(run, read_state=lambda: _find_user_body(command.username))

    def unwrap(request: Request) -> tuple[dict[str, Any], str, None]:
        body = body_object(request)
        values = {key: given for key, given in body.items() if key not in {"description", "tags"}}
        notes = BodyReader(body)
        description = notes.description
        if notes.faults.violations:
            collect_faults(lambda: read_command(kind, values, address), notes.raise_faults)
        return values, description, None

    answer = ChangeAnswer(lambda result: Response(body_of(result)), effect)
    return answer_change(view, kind, service, answer, address, unwrap=unwrap)
