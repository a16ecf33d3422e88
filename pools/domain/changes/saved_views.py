"""Changes of a person's saved views (design, A9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pools.domain.changes.command import ChangeCommand
from pools.domain.people.saved_views import MAX_NAME_LENGTH, FilteredList
from pools.domain.structured_input.declared_values import NAME, choice, in_address, value


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange(ChangeCommand):
    """A change of one of the actor's own views."""

    permission: ClassVar = None
    needs_version: ClassVar = False

    page: FilteredList = in_address("LIST", "List", "The list that is filtered.", kind=choice(list(FilteredList)))
    name: str = in_address("NAME", "Name", f"At most {MAX_NAME_LENGTH} characters, such as: my pending work.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveView(ViewChange):
    """Save filters of a list under a name; a view of this name is replaced."""

    service: ClassVar = "save_view"
    audit: ClassVar = ()

    query: str = value(
        NAME, "Filters", "The query of the list's address, such as pool=team.", missing="must be a text."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteView(ViewChange):
    """Delete a saved view."""

    service: ClassVar = "delete_view"
    audit: ClassVar = ()
