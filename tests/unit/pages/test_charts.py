"""Charts: the data of the picture, its table, and its text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template

from pools.representations.charts import MAX_TABLE_ROWS, Chart, ChartSeries, number_text

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def make_chart(count: int) -> Chart:
    return Chart(
        key="use",
        title="GPUs <in use>",
        unit="GPUs",
        summary="At most 8.",
        times=[START + number * HOUR for number in range(count)],
        end=START + count * HOUR,
        series=[
            ChartSeries("guaranteed", "guaranteed", [float(number) for number in range(count)]),
            ChartSeries("quota", "quota", [None] * count, is_line=True),
        ],
        axis=(START, START + 24 * HOUR),
        now=START + count * HOUR,
    )


def render(drawn: Chart) -> str:
    return Template("{% load charts %}{% chart drawn %}{% chart_files %}").render(Context({"drawn": drawn}))


def test_the_numbers_are_in_the_page_for_the_script_and_for_the_reader() -> None:
    page = render(make_chart(3))
    found = re.search(r'<script id="use" type="application/json">(.*?)</script>', page)
    assert found is not None
    data = json.loads(found[1])
    assert data["times"] == [(START + number * HOUR).timestamp() for number in range(4)]
    assert data["series"][0]["values"] == [0, 1, 2, 2]
    assert data["series"][1]["line"] is True
    assert data["axis"] == [START.timestamp(), (START + 24 * HOUR).timestamp()]
    assert data["now"] == data["times"][-1]
    assert "GPUs &lt;in use&gt;" in page and "<in use>" not in page
    rows = re.findall(r'<tr><th scope="row"[^>]*>([^<]*)</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td></tr>', page)
    assert rows == [("2026-11-22 12:00", "2", "–"), ("2026-11-22 11:00", "1", "–"), ("2026-11-22 10:00", "0", "–")]


def test_a_chart_without_use_is_a_sentence() -> None:
    empty = replace(make_chart(1), nothing="No GPU was in use.")
    page = render(empty)
    assert "No GPU was in use." in page and "<script" not in page.partition("</figure>")[0]
    for drawn in (replace(make_chart(2), nothing="No GPU was in use."), make_chart(1)):
        assert "No GPU was in use." not in render(drawn) and 'data-plot="use"' in render(drawn)


@pytest.mark.parametrize(
    ("value", "text"), [(23.22, "23.2"), (23.0, "23"), (0.04, "0"), (-2.5, "-2.5"), (2920.0, "2\u202f920")]
)
def test_a_number_has_one_decimal_at_most(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_long_table_has_the_newest_rows_and_says_so() -> None:
    page = render(make_chart(MAX_TABLE_ROWS + 5))
    assert page.count('<tr><th scope="row"') == MAX_TABLE_ROWS
    assert "5 earlier rows are not shown here" in page


def test_the_script_and_the_library_are_our_own_files() -> None:
    addresses = re.findall(r'(?:src|href)="([^"]*)"', render(make_chart(1)))
    assert len(addresses) == 4
    assert all(address.startswith("/static/osmo/") for address in addresses)
