"""Users and their roles (design, O3). `osmo-admin` may change them, `osmo-viewer` may read them, and all users
may read their own entry."""

from __future__ import annotations

from typing import Any, TypedDict

from django.contrib.auth.models import Group
from django.db.models import Prefetch
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change, effect_on
from pools.api.questions import parameters_of
from pools.api.rendering import utc_text, zoned_text
from pools.api.schema import NULL, UtcText, ZonedText, describe_operation
from pools.api.views import View
from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole, NamedUserChange, RevokeRole, UnlinkUser
from pools.domain.lists import UserQuery
from pools.domain.people.roles import Actor
from pools.filtersets.users import UserFilterSet
from pools.models import RoleAssignment, User
from pools.selectors.users import list_users, read_user
from pools.services.people.users import create_user, delete_user, grant_role, revoke_role
from pools.sign_on.accounts import unlink
from pools.sign_on.identities import IdentityRow, identity_rows


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


class ListedRoles(TypedDict, total=False):
    """The names of the roles of a user, where the request asks for details."""

    roles: list[str]


class ListedUserAnswer(UserAnswer, ListedRoles):
    """A user in a list."""


class UserListAnswer(TypedDict):
    """A page of users, by name."""

    total_results: int
    start_index: int
    items_per_page: int
    users: list[ListedUserAnswer]


class IdentityAnswer(TypedDict):
    """An account of a user at an identity provider."""

    provider: str
    username: str
    groups: list[str]
    sync: str | None
    signed_on_at: ZonedText
    confirmed_at: ZonedText
    is_valid: bool
    is_renewable: bool


class UserList(View):
    """All users who may sign in."""

    @describe_operation("List users by name.", query_parameters=parameters_of(UserQuery), answer=UserListAnswer)
    def get(self, request: Request) -> Response:
        active = list_users(self.actor).filter(is_active=True)
        filters = UserFilterSet(request.query_params, active, actor=self.actor)
        rows, count, start = filters.matching_rows(), filters.value("count"), filters.value("start_index")
        chosen = rows[start - 1 : start - 1 + count]
        if has_details := bool(filters.value("details")):
            chosen = chosen.prefetch_related(Prefetch("groups", Group.objects.order_by("name")))
        page = [_listed_body(row, has_details=has_details) for row in chosen]
        answer: UserListAnswer = {
            "total_results": rows.count(),
            "start_index": start,
            "items_per_page": len(page),
            "users": page,
        }
        return Response(answer)

    @describe_change(CreateUser, answer=UserAnswer, required=["id"])
    def post(self, request: Request) -> Response:
        return answer_change(self, CreateUser, create_user, _CREATION, {})


class UserDetail(View):
    """One user."""

    @describe_operation("Show a user with the roles.", answer=UserWithRolesAnswer)
    def get(self, request: Request, user: str) -> Response:
        return Response(_with_roles(read_user(self.actor, user, with_disabled=False)))

    @describe_change(DeleteUser, answer=NULL)
    def delete(self, request: Request, user: str) -> Response:
        return answer_change(self, DeleteUser, delete_user, _REMOVAL, {"username": user})


class UserRoles(View):
    """A user's roles."""

    @describe_change(GrantRole, answer=GrantedRoleAnswer, required=["role_name"])
    def post(self, request: Request, user: str) -> Response:
        return answer_change(self, GrantRole, grant_role, _GRANT, {"username": user})


class UserRole(View):
    """One role of a user."""

    @describe_change(RevokeRole, answer=NULL)
    def delete(self, request: Request, user: str, role: str) -> Response:
        return answer_change(self, RevokeRole, revoke_role, _REMOVAL, {"username": user, "role_name": role})


class UserIdentities(View):
    """A user's accounts at identity providers."""

    @describe_operation(
        "List the accounts of a user at identity providers, with their groups.", answer=list[IdentityAnswer]
    )
    def get(self, request: Request, user: str) -> Response:
        return Response([_identity_body(row) for row in identity_rows(read_user(self.actor, user))])


class UserIdentity(View):
    """One account of a user at an identity provider."""

    @describe_change(UnlinkUser, answer=NULL)
    def delete(self, request: Request, user: str, provider: str) -> Response:
        return answer_change(self, UnlinkUser, unlink, _REMOVAL, {"username": user, "provider": provider})


def _identity_body(row: IdentityRow) -> IdentityAnswer:
    return {
        "provider": row.provider,
        "username": row.username,
        "groups": list(row.groups),
        "sync": row.sync.value if row.sync else None,
        "signed_on_at": zoned_text(row.signed_on_at),
        "confirmed_at": zoned_text(row.checked_at),
        "is_valid": row.is_valid,
        "is_renewable": row.is_renewable,
    }


def user_body(user: User) -> UserAnswer:
    """A user in a list."""
    return {"id": user.username, "created_at": utc_text(user.date_joined), "created_by": user.created_by or None}


def _listed_body(user: User, *, has_details: bool) -> ListedUserAnswer:
    roles: ListedRoles = {"roles": [group.name for group in user.groups.all()]} if has_details else {}
    return {**user_body(user), **roles}


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


def _with_roles(user: User) -> UserWithRolesAnswer:
    return {**user_body(user), "roles": role_bodies(user)}


def _state(command: CreateUser | NamedUserChange, _: Actor) -> UserWithRolesAnswer | None:
    user = User.objects.filter(username=command.username, is_removed=False).first()
    return _with_roles(user) if user else None


def _grant_body(row: RoleAssignment) -> GrantedRoleAnswer:
    return {"user_id": row.user.username, **_role_body(row)}


_CREATION: ChangeAnswer[CreateUser, User] = ChangeAnswer(user_body, effect_on(_state))
_GRANT: ChangeAnswer[GrantRole, RoleAssignment] = ChangeAnswer(_grant_body, effect_on(_state))
_REMOVAL: ChangeAnswer[Any, None] = ChangeAnswer(answer_nothing, effect_on(_state))
