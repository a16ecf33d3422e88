"""Template tags of lists: headings that sort, the list as CSV.

    {% load lists %}
    {% number_cell columns.gpus row.gpus %}                    a number in its column; phones leave a 0 out
    {% time_cell columns.ended row.ended_at %}                 a time in its column; phones leave a missing one out
    {% saved_views %}                                          the person's views of this list; one query
    {% csv_link %}                                             the link to the CSV file
    <tr>{% list_heads columns %}</tr>                          all columns with a heading; the context may have `order`
    <tr>{% list_heads columns "name roles" actions=True %}</tr>     these two, and one for buttons
    <td {{ columns.roles|attributes }}>                        a cell: the heading for narrow windows, the alignment

Every address keeps the filters of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from pools.domain.columns import Column, pick
from pools.domain.people.saved_views import FilteredList, normalize_query
from pools.representations.csv_files import FORMAT_PARAMETER
from pools.representations.page_parameters import RememberingQuery
from pools.representations.saved_views import list_at, view_address
from pools.selectors.list_order import SORT_PARAMETER
from pools.selectors.saved_views import list_views
from pools.templatetags.osmo import ago, query, signed, with_meaning

register = template.Library()

_UNKNOWN = '<div class="oa-note oa-note--warn" role="status">{}</div>'
_ACTIONS = SafeString('<th scope="col"><span class="oa-hidden">Actions</span></th>')
_ARROWS = {"ascending": "↑", "descending": "↓"}


class _KnownParameters(template.Node):
    """Renders the page first, which asks for the parameters that it knows, and puts the note above it."""

    def __init__(self, nodelist: template.NodeList) -> None:
        self.nodelist = nodelist

    def render(self, context: Context) -> SafeString:
        page = self.nodelist.render(context)
        query = getattr(context.get("request"), "GET", None)
        fault = query.fault("This page") if isinstance(query, RememberingQuery) and "is_refusal" not in context else ""
        return format_html(_UNKNOWN, fault) + page if fault else page


@register.tag
def known_parameters(parser: Any, token: Any) -> _KnownParameters:
    """A note above the page for the parameters of its address that the page does not know."""
    nodelist = parser.parse(("end_known_parameters",))
    parser.delete_first_token()
    return _KnownParameters(nodelist)


@register.simple_tag(takes_context=True)
def list_heads(
    context: dict[str, Any], columns: Mapping[str, Column], keys: str = "", actions: object = False
) -> SafeString:
    """The headings of these columns, or of all that have one; `actions` adds one for buttons. Where the list can be
    sorted by a column, a first click sorts in ascending order, a second in descending. `order` is a `ListOrder`."""
    shown = pick(columns, keys) if keys else [column for column in columns.values() if column.heading]
    heads = format_html_join("", "{}", ([_head(context, column)] for column in shown))
    return heads + _ACTIONS if actions else heads


@register.filter
def attributes(column: Column, classes: str = "") -> SafeString:
    """The attributes of a cell of the column; narrow windows show the heading next to the cell."""
    classes = " ".join([classes, "oa-right"] if column.is_right else [classes]).strip()
    return format_html('data-label="{}"{}', column.heading, format_html(' class="{}"', classes) if classes else "")


@register.simple_tag
def number_cell(column: Column, number: int | str | None) -> SafeString:
    """A number as a cell of its column. A 0 is quiet, and phones leave it out of the rows of lists; so is what nobody
    knows, which is empty or None."""
    text = signed(number) if isinstance(number, int) else "–"
    quiet = "" if number else " oa-zero"
    return format_html('<td data-label="{}" class="oa-right{}">{}</td>', column.heading, quiet, text)


@register.simple_tag
def time_cell(column: Column, time: datetime | None) -> SafeString:
    """A time as a cell of its column. Phones put its heading before it, and leave it out of the rows of lists where
    there is none yet."""
    return format_html("<td {}>{}</td>", attributes(column, "oa-named" if time else "oa-zero"), ago(time))


def _head(context: dict[str, Any], column: Column) -> SafeString:
    name = with_meaning(column.heading, column.meaning)
    order: Any = context.get("order") if column.sort else None
    is_sorted = order is not None and order.key == column.sort
    direction = ("descending" if order.is_descending else "ascending") if is_sorted else "none"
    if order is not None:
        choice = f"-{column.sort}" if is_sorted and not order.is_descending else column.sort
        name = format_html(
            '<a class="oa-sort" href="{}">{}<span aria-hidden="true">{}</span></a>',
            query(context, **{SORT_PARAMETER: choice, "page": None}),
            name,
            f" {_ARROWS[direction]}" if is_sorted else "",
        )
    return format_html(
        '<th scope="col"{}{}{}>{}</th>',
        SafeString(" data-extra") if column.is_extra else "",
        SafeString(' class="oa-right"') if column.is_right else "",
        format_html(' aria-sort="{}"', direction) if is_sorted else "",
        name,
    )


@register.simple_tag(takes_context=True)
def csv_link(context: dict[str, Any]) -> SafeString:
    """The link to the list of this page as CSV: all rows that match the filters, in the same order."""
    address = query(context, **{FORMAT_PARAMETER: "csv", "page": None, "select": None})
    return format_html('<a class="oa-button oa-button--small" href="{}" download>CSV</a>', address)


@register.simple_tag(takes_context=True)
def removing(context: dict[str, Any], name: str) -> str:
    """The address of the list without one filter, from its first page on."""
    return query(context, **{name: None, "page": None})


_LINKED = {
    FilteredList.NODES: {"backend", "colour"},
    FilteredList.QUOTA_TREE: {"resource"},
    FilteredList.SCHEDULER_EVENTS: {"range"},
    FilteredList.USAGE: {"period"},
}
"""Filters that a link of the page chooses, by list."""


@register.inclusion_tag("osmo/parts/saved_views.html", takes_context=True)
def saved_views(context: dict[str, Any]) -> dict[str, Any]:
    """The person's views of this list, and a link that saves its filters while no view has them and no link of the
    page chooses them. Nothing on pages whose filters cannot be saved."""
    request = context["request"]
    page = list_at(request.resolver_match.view_name)
    if page is None:
        return {}
    shown = normalize_query(request.GET.urlencode())
    views = [
        {"name": view.name, "address": view_address(view), "is_shown": view.query == shown}
        for view in list_views(context["actor"], page)
    ]
    chosen = dict(parse_qsl(shown)).keys()
    is_built_in = chosen <= _LINKED.get(page, set()) or (
        SORT_PARAMETER not in chosen and any(_is_shown(view) for view in context.get("views", ()))
    )
    is_known = is_built_in or any(view["is_shown"] for view in views)
    save_address = reverse("admin:pools_savedview_save", args=[page])
    return {"views": views, "save_address": "" if is_known else f"{save_address}?{shown}"}


def _is_shown(view: Any) -> bool:
    return bool(view["is_shown"] if isinstance(view, Mapping) else view.is_shown)
