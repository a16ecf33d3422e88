"""Users and their roles (contract, section 3). House-wide: `osmo-admin` writes, `osmo-viewer` may read, and everybody
may read the own entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import MOST_ROWS, all_at_once, body_object, boolean, only, whole
from pools.api.rendering import naive
from pools.api.schema import DRY_RUN, NULL, TEXT, TIME, WHOLE, Query, array, documented, fields, nullable
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation
from pools.domain.roles import Action
from pools.models import RoleAssignment, User
from pools.permissions import require_house
from pools.services.dry_run import effect_of
from pools.services.members import create_user, delete_user, grant_role, revoke_role

USER = fields({"id": TEXT, "created_at": TIME, "created_by": nullable(TEXT)})
ROLE_GIVEN = fields({"role_name": TEXT, "assigned_by": nullable(TEXT), "assigned_at": TIME})
USER_WITH_ROLES = fields({**USER["properties"], "roles": array(ROLE_GIVEN)})
SEARCH = [
    Query("count", {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}, "How many at most; 100 if not given."),
    Query("start_index", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, "From this one on; the first is 1."),
    Query("id_prefix", TEXT, "Only names that begin with this."),
    Query("roles", TEXT, "Only who has one of these roles.", many=True),
]


class UserList(View):
    """Everybody who may sign in."""

    @documented(
        "List users by name.",
        query=SEARCH,
        answer=fields({"total_results": WHOLE, "start_index": WHOLE, "items_per_page": WHOLE, "users": array(USER)}),
    )
    def get(self, request: Request) -> Response:
        require_house(self.actor, Action.HOUSE_READ)
        count, start = all_at_once(
            lambda: whole(request, "count", 100, least=1, most=MOST_ROWS),
            lambda: whole(request, "start_index", 1, least=1),
        )
        rows = User.objects.filter(is_active=True).order_by("username")
        if prefix := request.query_params.get("id_prefix"):
            rows = rows.filter(username__startswith=prefix)
        if roles := [role for role in request.query_params.getlist("roles") if role]:
            rows = rows.filter(pk__in=RoleAssignment.objects.filter(group__name__in=roles).values("user"))
        page = [user_body(row) for row in rows[start - 1 : start - 1 + count]]
        answer = {"total_results": rows.count(), "start_index": start, "items_per_page": len(page), "users": page}
        return Response(answer)

    @documented(
        "Make a user, or bring a removed one back.",
        query=[DRY_RUN],
        body=fields({"id": TEXT, "roles": array(TEXT)}, required=["id"]),
        answer=USER,
    )
    def post(self, request: Request) -> Response:
        body = body_object(request)
        name, roles, description, _ = all_at_once(
            lambda: _text(body, "id"),
            lambda: _roles(body),
            lambda: _description(body),
            lambda: only(body, "id", "roles", "description", "tags"),
        )

        def deed() -> User:
            return create_user(actor=self.actor, username=name, roles=roles, description=description)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: _found(name)))
        return self.once(lambda: Response(user_body(deed())))


class UserDetail(View):
    """One user."""

    @documented("Show a user and the roles.", answer=USER_WITH_ROLES)
    def get(self, request: Request, user: str) -> Response:
        if user != self.actor.username:
            require_house(self.actor, Action.HOUSE_READ)
        found = _found(user)
        if found is None:
            raise NotFound(f"User {user} does not exist.")
        return Response(found)

    @documented("Remove a user with the roles and tokens; the work stays.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, user: str) -> Response:
        body = body_object(request)
        only(body, "description", "tags")
        return _done(
            request, user, lambda: delete_user(actor=self.actor, username=user, description=_description(body))
        )


class UserRoles(View):
    """A user's roles."""

    @documented(
        "Give a role to a user; again is no error.",
        query=[DRY_RUN],
        body=fields({"role_name": TEXT}),
        answer=fields({"user_id": TEXT, **ROLE_GIVEN["properties"]}),
    )
    def post(self, request: Request, user: str) -> Response:
        body = body_object(request)
        role, description, _ = all_at_once(
            lambda: _text(body, "role_name"),
            lambda: _description(body),
            lambda: only(body, "role_name", "description", "tags"),
        )

        def deed() -> RoleAssignment:
            return grant_role(actor=self.actor, username=user, role=role, description=description)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: _found(user)))
        return self.once(lambda: Response({"user_id": user, **_given(deed())}))


class UserRole(View):
    """One role of a user."""

    @documented("Take a role from a user, and from every token made with it.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, user: str, role: str) -> Response:
        body = body_object(request)
        only(body, "description", "tags")
        return _done(
            request,
            user,
            lambda: revoke_role(actor=self.actor, username=user, role=role, description=_description(body)),
        )


def user_body(user: User) -> dict[str, Any]:
    """A user in a list."""
    return {"id": user.username, "created_at": naive(user.date_joined), "created_by": user.created_by or None}


def roles_given(user: User) -> list[dict[str, Any]]:
    """A user's roles by name: who gave each, and when."""
    rows = RoleAssignment.objects.filter(user=user).select_related("group").order_by("group__name")
    return [_given(row) for row in rows]


def _given(row: RoleAssignment) -> dict[str, Any]:
    return {
        "role_name": row.group.name,
        "assigned_by": row.assigned_by or None,
        "assigned_at": naive(row.assigned_at),
    }


def _found(username: str) -> dict[str, Any] | None:
    user = User.objects.filter(username=username, is_active=True).first()
    return {**user_body(user), "roles": roles_given(user)} if user else None


def _done(request: Request, username: str, deed: Callable[[], object]) -> Response:
    """Do it and say nothing, or with `dry_run` say what it would do."""
    if boolean(request, "dry_run"):
        return Response(effect_of(deed, read=lambda: _found(username)))
    deed()
    return Response(None)


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise BadInput.of([Violation(key, "missing" if value is None else "bad_value", f"{key} must be a text.")])
    return value


def _roles(body: dict[str, Any]) -> list[str]:
    roles = body.get("roles") or []
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise BadInput.of([Violation("roles", "bad_value", "roles is a list of role names.")])
    return roles


def _description(body: dict[str, Any]) -> str:
    value = body.get("description") or ""
    if not isinstance(value, str):
        raise BadInput.of([Violation("description", "bad_value", "description must be a text.")])
    return value
