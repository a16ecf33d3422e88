"""The page of the record of use, and its part on the page of a pool."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.models import User
from scheduling.selectors.usage.periods import chosen_window, offered_months
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import reconcile

PAGE = "/usage"


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def test_the_page_shows_charts_and_the_table_of_what_the_reader_may_see(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    submit_workflow("other--x", gpus=4, username="stranger")
    reconcile()
    with CaptureQueriesContext(connection) as queries:
        page = text(as_person("root"), f"{PAGE}?by=subpool&period=7d")
    assert sum("leaf_piece AS (" in query["sql"] for query in queries) == 1, "the open hour is computed once"
    assert "team--a" in page and "other--x" in page
    assert page.count('class="oa-plot"') == 2
    found = re.search(r'<script id="use-states" type="application/json">(.*?)</script>', page)
    assert found is not None
    assert [each["tone"] for each in json.loads(found[1])["series"]] == [
        "guaranteed", "low", "over", "quota", "capacity",
    ]  # fmt: skip
    mine = text(as_person("worker"), f"{PAGE}?by=subpool&period=7d")
    assert "team--a" in mine and "other--x" not in mine
    assert "Nothing on record" in text(as_person("nobody"), PAGE)
    of_worker = text(as_person("root"), f"{PAGE}?by=moon&period=1000y&pool=team&user=worker")
    assert "<table" in of_worker and "work was waiting in this time." in of_worker
    assert "Signed in as </span>root</span>" in text(as_person("root"), f"{PAGE}?user=worker")


def test_the_part_of_a_pool(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    reconcile()
    request = RequestFactory().get("/?usage=90d")
    request.user = User.objects.get(username="worker")
    template = Template('{% load usage %}{% pool_usage "team" %}')
    page = template.render(Context({"request": request}))
    assert 'id="pool-states"' in page and 'id="pool-waiting"' in page
    assert '<a href="?usage=90d#usage" aria-current="true">90 days</a>' in page
    assert "Nine of ten starts did not wait." in page


def test_the_page_lists_workflows_with_the_numbers_of_the_api(
    as_person: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_workflow("team--a", gpus=8, name="mine")
    submit_workflow("other--x", gpus=4, name="hidden", username="stranger")
    reconcile()
    page = as_person("root").get(f"{PAGE}?by=workflow&period=7d")
    assert {row.key for row in page.context["rows"]} == {"mine-1", "hidden-1"}
    answer = as_person("root").get("/api/usage?by=workflow&bucket=month").json()
    assert {row["workflow"] for row in answer["rows"]} == {"mine-1", "hidden-1"}
    assert '<a href="/workflows/mine-1">mine-1</a>' in page.content.decode()
    assert {row.key for row in as_person("worker").get(f"{PAGE}?by=workflow&period=7d").context["rows"]} == {"mine-1"}
    longer = as_person("root").get(f"{PAGE}?by=workflow&period=90d")
    assert (longer.context["window"].name, "at most 31 days" in longer.content.decode()) == ("30d", True)
    assert "at most 31 days" not in text(as_person("root"), f"{PAGE}?by=workflow&period=30d")
    monkeypatch.setattr("scheduling.admin.reports.usage.MAX_ROWS_SHOWN", 1)
    page = as_person("root").get(f"{PAGE}?by=workflow&period=7d")
    assert len(page.context["rows"]) == 1
    assert "1 of 2" in page.content.decode() and "The CSV file has all of them" in page.content.decode()


def test_the_filter_suggests_a_bounded_number_of_pools(as_person: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert '<option value="team--a"></option>' in text(as_person("root"), PAGE)
    monkeypatch.setattr("scheduling.admin.reports.usage.MAX_POOLS_SUGGESTED", 2)
    page = text(as_person("root"), PAGE)
    assert re.findall(r'<option value="([^"]*)"></option>', page) == ["other", "team"]


def _rows_of(page: Any) -> list[list[str]]:
    """The cells of the table of a page, as its file has them."""
    shown = re.findall(r"<tr>\s*<th scope=\"row\">(.*?)</th>\s*(.*?)\s*</tr>", page.content.decode(), re.DOTALL)
    table = [[name, *re.findall(r">([^<]*)</td>", cells)] for name, cells in shown if "data-label" in cells]
    return [[cell.replace("\u202f", "").replace("–", "") for cell in row] for row in table]


def test_the_file_is_the_table(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    submit_workflow("other--x", gpus=4, username="stranger")
    reconcile()
    month = f"{timezone.now():%Y-%m}"
    address = f"{PAGE}?by=subpool&pool=team&period={month}"
    root = as_person("root")
    page, again = root.get(address), None
    while _rows_of(page) != again:  # the hours grow, so the file is read between two pages that say the same
        again = _rows_of(page)
        answer, page = root.get(f"{address}&format=csv"), root.get(address)
    assert answer["Content-Disposition"] == f'attachment; filename="usage-team-{month}.csv"'
    head, *lines = csv.reader(answer.content.decode().splitlines())
    assert head[:4] == ["Subpool", "Quota (GPU-hours)", "Used (GPU-hours)", "Guaranteed (GPU-hours)"]
    assert _rows_of(page) == lines
    lost = root.get(f"{PAGE}?pool=team&period={month}&format=csv&table=losses")
    assert lost["Content-Disposition"] == f'attachment; filename="losses-team-{month}.csv"'
    assert lost.content.decode().splitlines()[0] == "Pool,Rule,Taken by,Attempts,Lost [GPU-hours]"
    mine = as_person("worker").get(f"{PAGE}?by=subpool&period=7d&format=csv")
    assert "other--x" not in mine.content.decode()
    assert f"usage-7d-until-{timezone.now():%Y-%m-%d}.csv" in mine["Content-Disposition"]


NOW = datetime(2026, 11, 27, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "name", "since", "until", "end"),
    [
        ({"period": "2026-10"}, "2026-10", "2026-10-01 00:00", "2026-11-01 00:00", "2026-11-01 00:00"),
        ({"period": "2026-11"}, "2026-11", "2026-11-01 00:00", "2026-11-27 15:30", "2026-12-01 00:00"),
        ({"period": "7d"}, "7d", "2026-11-20 15:00", "2026-11-27 15:30", "2026-11-27 15:30"),
        (
            {"period": "7d", "since": "2026-10-05", "until": "2026-10-06"},
            "2026-10-05-to-2026-10-06", "2026-10-05 00:00", "2026-10-07 00:00", "2026-10-07 00:00",
        ),
        (
            {"since": "26 Nov 2026"},
            "2026-11-26-to-2026-11-27", "2026-11-26 00:00", "2026-11-27 15:30", "2026-11-28 00:00",
        ),
    ],
)  # fmt: skip
def test_periods_months_and_own_days(query: dict[str, str], name: str, since: str, until: str, end: str) -> None:
    window, fault = chosen_window(query, NOW)
    assert (window.name, fault) == (name, "")
    assert [f"{at:%Y-%m-%d %H:%M}" for at in (window.since, window.until, window.end)] == [since, until, end]


WRONG_DAYS = (
    ("soon", ""), ("2026-11-05", "2026-11-01"), ("2999-12-24", ""), ("1990-01-01", "2026-01-01"), ("", "0001-01-01"),
)  # fmt: skip


def test_wrong_days_are_said(as_person: SignedIn) -> None:
    root = as_person("root")
    for since, until in WRONG_DAYS:
        window, fault = chosen_window({"since": since, "until": until, "period": "7d"}, NOW)
        assert (window.name, "The period is shown instead." in fault) == ("7d", True), (since, until)
        assert fault.split(".")[0] in text(root, f"{PAGE}?since={since}&until={until}&period=7d")
    both = f"{PAGE}?period=30d&since={timezone.now():%Y-%m-%d}&by=pool"
    assert "does not know the filter" not in text(root, both)
    assert root.get(f"{both}&format=csv").status_code == 200


def test_unknown_choices_are_said(as_person: SignedIn) -> None:
    window, fault = chosen_window({"period": "2027-01"}, NOW)
    assert (window.name, window.since.isoformat()[:16], fault.split(":")[0]) == (
        "30d", "2026-10-28T00:00", "The period is not known",
    )  # fmt: skip
    page = text(as_person("root"), f"{PAGE}?period=2026-13&by=team")
    assert "The period is not known" in page
    assert "The filter was not applied: by: this is not a known value. Known are: pool, " in page


def test_months_are_offered_from_this_one_on() -> None:
    assert offered_months(NOW)[:2] == [("2026-11", "November 2026"), ("2026-10", "October 2026")]
    assert offered_months(NOW)[-1] == ("2025-11", "November 2025")


def test_the_page_of_a_cluster_has_its_last_24_hours(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    reconcile()
    page = text(as_person("root"), "/clusters/sim")
    found = re.search(r'<script id="cluster-states" type="application/json">(.*?)</script>', page)
    assert found is not None
    drawn = json.loads(found[1])
    assert [each["label"] for each in drawn["series"] if each["line"]] == ["Quota", "Capacity"]
    assert max(drawn["series"][-1]["values"]) > 0
    assert drawn["axis"][1] - drawn["axis"][0] >= 24 * 3600
