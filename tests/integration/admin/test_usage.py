"""The page of the record of use, and its part on the page of a pool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from django.db import connection
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from pools.models import User
from tests.integration.admin.conftest import run_cycles, submit_workflow

PAGE = "/scheduling/usageprogress/"
SignedIn = Callable[[str], Client]


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def test_the_page_shows_charts_and_the_table_of_what_the_reader_may_see(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    submit_workflow("other--x", gpus=4, username="stranger")
    run_cycles()
    page = text(as_person("root"), f"{PAGE}?by=subpool&period=7d")
    assert "team--a" in page and "other--x" in page
    assert page.count('class="oa-plot"') == 2
    found = re.search(r'<script id="use-states" type="application/json">(.*?)</script>', page)
    assert found is not None
    assert [each["tone"] for each in json.loads(found[1])["series"]] == [
        "guaranteed", "low", "over", "idle", "unallocated", "offline",
    ]  # fmt: skip
    mine = text(as_person("worker"), f"{PAGE}?by=subpool&period=7d")
    assert "team--a" in mine and "other--x" not in mine
    assert "Nothing on record" in text(as_person("nobody"), PAGE)
    assert text(as_person("root"), f"{PAGE}?by=moon&period=1000y&pool=team&user=worker").count("<table") >= 2


def test_the_number_of_queries_does_not_depend_on_the_work(as_person: SignedIn) -> None:
    reader = as_person("root")
    text(reader, PAGE)
    with CaptureQueriesContext(connection) as before:
        text(reader, PAGE)
    for number in range(5):
        submit_workflow("team--a", gpus=1, name=f"job-{number}")
    run_cycles()
    with CaptureQueriesContext(connection) as after:
        text(reader, PAGE)
    assert len(after) == len(before)


def test_the_part_of_a_pool(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    run_cycles()
    request = RequestFactory().get("/?usage=90d")
    request.user = User.objects.get(username="worker")
    template = Template('{% load usage %}{% pool_usage "team" %}')
    page = template.render(Context({"request": request}))
    assert 'id="pool-states"' in page and 'id="pool-waiting"' in page
    assert '<a class="oa-button oa-button--small" href="?usage=90d#usage" aria-current="true">90 days</a>' in page
    assert "Work that started waited" in page
