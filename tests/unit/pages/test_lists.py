"""Headings that sort, the number of rows, and lists as CSV."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from pools.domain.columns import Column, list_columns
from pools.representations.csv_files import is_csv_request, list_csv
from pools.selectors.list_order import read_list_order

COLUMNS: dict[str, Column] = list_columns(
    Column("name", "Name", lambda row: row[0], "name", "name", is_right=True),
    Column("time", "Submitted", lambda row: row[1], "submit_time", "submitted", "The first time.", is_extra=True),
    Column("gpus", "", lambda row: row[2]),
    Column("bar", "Use"),
)


def render(address: str, text: str, **context: object) -> str:
    request = RequestFactory().get(address)
    order = read_list_order(request.GET, COLUMNS, default="-submitted")
    return Template("{% load lists %}" + text).render(
        Context({"request": request, "order": order, "columns": COLUMNS, **context})
    )


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
    text = render("/?pool=a&page=3", "{% list_heads columns %}")
    assert text.startswith('<th scope="col" class="oa-right"><a class="oa-sort" href="?pool=a&amp;sort=name">Name<')
    assert text.endswith('<th scope="col">Use</th>')
    assert text.count("<th") == 3


def test_the_sorted_heading_says_so_and_turns_the_order() -> None:
    text = render("/?sort=name", "{% list_heads columns %}")
    assert 'class="oa-right" aria-sort="ascending"' in text
    assert 'href="?sort=-name"' in text
    text = render("/", "{% list_heads columns %}")
    assert '<th scope="col" data-extra aria-sort="descending"><a class="oa-sort" href="?sort=submitted">' in text
    assert '<abbr title="The first time.">Submitted</abbr><span aria-hidden="true"> ↓</span>' in text


def test_headings_that_are_picked_and_the_attributes_of_a_cell() -> None:
    text = render("/", '{% list_heads columns "bar name" actions=True %}')
    assert text.startswith('<th scope="col">Use</th><th scope="col" class="oa-right">')
    assert text.endswith('<th scope="col"><span class="oa-hidden">Actions</span></th>')
    assert render("/", "{{ columns.bar|attributes }}") == 'data-label="Use"'
    assert render("/", '{{ columns.name|attributes:"oa-mono" }}') == 'data-label="Name" class="oa-mono oa-right"'


def test_a_column_without_a_label_has_its_key_as_words() -> None:
    assert [each.heading for each in list_columns("last_used", Column("id", "")).values()] == ["Last used", ""]


def test_the_link_to_the_file() -> None:
    assert 'href="?pool=a&amp;format=csv"' in render("/?pool=a&page=3", "{% csv_link %}")


def test_a_csv_file() -> None:
    assert is_csv_request(RequestFactory().get("/?format=csv"))
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    response = list_csv("workflows", COLUMNS, [['a,"b"', time, -3], ["=1+1", None, 2]])
    assert response.content.decode() == ('name,time,gpus\r\n"a,""b""",2026-01-02T02:04:05Z,-3\r\n\'=1+1,,2\r\n')
    assert response.headers["Content-Disposition"] == 'attachment; filename="workflows.csv"'
