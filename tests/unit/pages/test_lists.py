"""Headings that sort, the number of rows, and lists as CSV."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from pools.representations.csv_files import csv_response, is_csv_request
from pools.selectors.list_order import read_list_order

COLUMNS = {"name": "name", "submitted": "submit_time"}


def render(address: str, text: str, **context: object) -> str:
    request = RequestFactory().get(address)
    order = read_list_order(request.GET, COLUMNS, default="-submitted")
    return Template("{% load lists %}" + text).render(Context({"request": request, "order": order, **context}))


@pytest.mark.parametrize(
    ("address", "key", "is_descending"),
    [
        ("/", "submitted", True),
        ("/?sort=name", "name", False),
        ("/?sort=-name", "name", True),
        ("/?sort=password", "submitted", True),
        ("/?sort=--name", "submitted", True),
    ],
)
def test_the_order_of_an_address(address: str, key: str, is_descending: bool) -> None:
    parameters = RequestFactory().get(address).GET
    order = read_list_order(parameters, COLUMNS, default="-submitted")
    assert (order.key, order.is_descending) == (key, is_descending)
    assert order.expressions[1] == ("-pk" if is_descending else "pk")


def test_a_heading_keeps_the_filters_and_returns_to_the_first_page() -> None:
    text = render("/?pool=a&page=3", '{% sort_header "Name" "name" %}')
    assert text.startswith('<th scope="col"><a class="oa-sort" href="?pool=a&amp;sort=name">Name<')


def test_the_sorted_heading_says_so_and_turns_the_order() -> None:
    text = render("/?sort=name", '{% sort_header "Name" "name" right=True %}')
    assert 'class="oa-right" aria-sort="ascending"' in text
    assert 'href="?sort=-name"' in text
    assert 'aria-sort="descending"' in render("/", '{% sort_header "Submitted" "submitted" %}')


def test_the_number_of_rows_and_the_file() -> None:
    text = render("/?pool=a&page=3", '{% list_tools 1 "entry" "entries" %}')
    assert "<span>1 entry</span>" in text
    assert 'href="?pool=a&amp;format=csv"' in text
    assert "12\N{NARROW NO-BREAK SPACE}000 entries" in render("/", '{% list_tools 12000 "entry" "entries" %}')


def test_a_csv_file() -> None:
    assert is_csv_request(RequestFactory().get("/?format=csv"))
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    response = csv_response("workflows", ["name", "time", "gpus"], [['a,"b"', time, -3], ["=1+1", None, 2]])
    assert response.content.decode() == ('name,time,gpus\r\n"a,""b""",2026-01-02T02:04:05Z,-3\r\n\'=1+1,,2\r\n')
    assert response.headers["Content-Disposition"] == 'attachment; filename="workflows.csv"'
