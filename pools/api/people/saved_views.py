"""The caller's saved views: names for the filters of lists."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, answer_nothing, describe_change, effect_on
from pools.api.questions import parameters_of, read_query
from pools.api.schema import NULL, describe_operation
from pools.api.views import View
from pools.domain.changes.saved_views import DeleteView, SaveView, ViewChange
from pools.domain.lists import SavedViewQuery
from pools.domain.people.roles import Actor
from pools.domain.people.saved_views import FilteredList, filtered_list
from pools.models import SavedView
from pools.representations.saved_views import view_address
from pools.selectors.saved_views import list_views
from pools.services.people.saved_views import delete_view, save_view


class SavedViewAnswer(TypedDict):
    """A view; `page` is its address."""

    list: Annotated[str, FilteredList]
    name: str
    query: str
    page: str


class SavedViewListAnswer(TypedDict):
    """The views of the caller."""

    views: list[SavedViewAnswer]


def _body(view: SavedView) -> SavedViewAnswer:
    return {"list": view.page, "name": view.name, "query": view.query, "page": view_address(view)}


def _bodies_of_list(command: ViewChange, actor: Actor) -> list[SavedViewAnswer]:
    return [_body(view) for view in list_views(actor, command.page)]


_SAVING: ChangeAnswer[SaveView, SavedView] = ChangeAnswer(_body, effect_on(_bodies_of_list))
_DELETION: ChangeAnswer[DeleteView, None] = ChangeAnswer(answer_nothing, effect_on(_bodies_of_list))


class SavedViews(View):
    """The views of the caller."""

    @describe_operation(
        "List the caller's saved views: named filters of the lists of the web pages, in `page` the address.",
        query_parameters=parameters_of(SavedViewQuery),
        answer=SavedViewListAnswer,
    )
    def get(self, request: Request) -> Response:
        rows = list_views(self.actor, read_query(SavedViewQuery, request).list)
        return Response(SavedViewListAnswer(views=[_body(view) for view in rows]))


class SavedViewDetail(View):
    """One view of the caller."""

    @describe_change(SaveView, required=["query"], answer=SavedViewAnswer)
    def put(self, request: Request, page: str, name: str) -> Response:
        address = {"page": filtered_list(page), "name": name}
        return answer_change(self, SaveView, save_view, _SAVING, address)

    @describe_change(DeleteView, answer=NULL)
    def delete(self, request: Request, page: str, name: str) -> Response:
        address = {"page": filtered_list(page), "name": name}
        return answer_change(self, DeleteView, delete_view, _DELETION, address)
