"""The filters of the list of users."""

from __future__ import annotations

from django.db.models import QuerySet

from pools.domain.lists import UserQuery
from pools.filtersets.base import QueryFilter, QueryFilterSet
from pools.models import RoleAssignment, User


class UserFilterSet(QueryFilterSet):
    """The filters of users."""

    query = UserQuery

    id_prefix = QueryFilter("username", "startswith")
    roles = QueryFilter(method="with_any_role")

    def with_any_role(self, rows: QuerySet[User], name: str, roles: list[str]) -> QuerySet[User]:
        """Users who hold one of the roles."""
        return rows.filter(pk__in=RoleAssignment.objects.filter(group__name__in=roles).values("user"))
