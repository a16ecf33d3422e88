"""The first and the last times of the calendar, from which no span can be taken off or added, are no server fault: at
each address that takes a time."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.support.addresses import create_example_installation, readable_addresses
from tests.support.product_source import described_addresses
from tests.support.world import sign_in

pytestmark = pytest.mark.django_db

TIMES = ("0001-01-01", "0001-01-01T00:00%2B23:00", "9999-12-31T23:59", "9999-12-31T23:59-23:00")
NAME = re.compile(r"since|until|_(before|after|at|timestamp)$")
PAGES = ("/activity", "/usage", "/activity/audit", "/workflows", "/outcomes", "/replay")


def _time_parameters() -> dict[str, list[str]]:
    """The names of times that a GET takes, by its path."""
    found = {}
    for path, methods in described_addresses().items():
        names = [each["name"] for each in methods.get("get", {}).get("parameters", ()) if each["in"] == "query"]
        if times := [name for name in names if NAME.search(name)]:
            found[path] = times
    return found


def test_each_address_that_takes_a_time_answers() -> None:
    create_example_installation()
    browser, names_of, wrong = sign_in("root"), _time_parameters(), []
    assert {"/api/usage", "/api/usage/trace", "/api/audit", "/api/scheduler_events"} <= names_of.keys()
    queries = {
        page: [f"{name}={time}" for name, time in product(("since", "until"), TIMES)]
        + [f"since={TIMES[0]}&until={TIMES[2]}"]
        + [f"part_since={TIMES[1]}&part_until={TIMES[2]}&since={TIMES[0]}"]
        for page in PAGES
    }
    for address in readable_addresses():
        path = address.partition("?")[0]
        route = next((route for route in names_of if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path)), None)
        if route:
            queries[path] = [f"{name}={time}" for name, time in product(names_of[route], TIMES)]
    assert len(queries) >= len(PAGES) + 5
    for path, texts in queries.items():
        for text in texts:
            answer = browser.get(f"{path}?{text}")
            if answer.status_code >= 500:
                wrong.append((path, text, answer.status_code))
    assert not wrong, "\n".join(map(str, wrong))
