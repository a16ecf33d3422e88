"""The caller's saved views: names for the filters of lists."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, body_object, query_boolean, reject_unknown_keys
from pools.api.schema import DRY_RUN, NULL, TEXT, QueryParameter, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation
from pools.domain.saved_views import FilteredList
from pools.models import SavedView
from pools.representations.saved_views import view_address
from pools.selectors.saved_views import list_views
from pools.services.dry_run import read_effect
from pools.services.saved_views import delete_view, save_view

_LIST = {"type": "string", "enum": list(FilteredList)}


class SavedViewAnswer(TypedDict):
    """A view; `page` is its address."""

    list: Annotated[str, FilteredList]
    name: str
    query: str
    page: str


class SavedViewListAnswer(TypedDict):
    """The views of the caller."""

    views: list[SavedViewAnswer]


class SavedViews(View):
    """The views of the caller."""

    @describe_operation(
        "List the caller's saved views: named filters of the lists of the web pages, in `page` the address.",
        query_parameters=[QueryParameter("list", _LIST, "Only views of this list.")],
        answer=SavedViewListAnswer,
    )
    def get(self, request: Request) -> Response:
        text = request.query_params.get("list", "")
        if text and text not in set(FilteredList):
            message = f"list: give one of {', '.join(FilteredList)}."
            raise BadInput.of([Violation("list", "bad_query", message)])
        views = _bodies(list_views(self.actor, FilteredList(text) if text else None))
        return Response(SavedViewListAnswer(views=views))


class SavedViewDetail(View):
    """One view of the caller."""

    @describe_operation(
        "Save filters of a list under a name; a view of this name is replaced.",
        query_parameters=[DRY_RUN],
        body=object_with({"query": TEXT}),
        answer=SavedViewAnswer,
    )
    def put(self, request: Request, page: str, name: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("query",))
        query = reader.required_text("query")
        reader.raise_faults()
        chosen = _list_named(page)

        def operation() -> SavedView:
            return save_view(actor=self.actor, page=chosen, name=name, query=query)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: _bodies(list_views(self.actor, chosen))))
        return Response(_body(operation()))

    @describe_operation("Delete a saved view.", query_parameters=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, page: str, name: str) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        chosen = _list_named(page)

        def operation() -> None:
            delete_view(actor=self.actor, page=chosen, name=name)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: _bodies(list_views(self.actor, chosen))))
        operation()
        return Response(None)


def _list_named(page: str) -> FilteredList:
    if page not in set(FilteredList):
        raise NotFound(f"{page[:60]} is no list with filters. The lists are {', '.join(FilteredList)}.")
    return FilteredList(page)


def _bodies(views: list[SavedView]) -> list[SavedViewAnswer]:
    return [_body(view) for view in views]


def _body(view: SavedView) -> SavedViewAnswer:
    return {"list": view.page, "name": view.name, "query": view.query, "page": view_address(view)}
