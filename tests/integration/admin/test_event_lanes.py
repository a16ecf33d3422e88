"""The page of scheduler events: lanes over time next to the list, and its filters."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import Decision
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import ModuleData, reconcile


@pytest.fixture(scope="module", autouse=True)
def two_starts(pools_and_users_once: None, module_data: ModuleData) -> None:
    """`mine-1` of team--a and `hidden-1` of other--x have started."""
    with module_data():
        submit_workflow("team--a", gpus=8, name="mine")
        submit_workflow("other--x", gpus=8, username="stranger", name="hidden")
        reconcile()


def test_the_lanes_count_what_the_reader_may_see(as_person: SignedIn) -> None:
    answer = as_person("root").get("/activity")
    assert [lane.pool for lane in answer.context["chart"].lanes] == ["other--x", "team--a"]
    page = answer.content.decode()
    for event in Decision.objects.all():
        assert f'id="event-{event.pk}"' in page
    assert "2 events" in page
    assert "other--x: 1 started" in page
    worker = as_person("worker").get("/activity")
    assert [lane.pool for lane in worker.context["chart"].lanes] == ["team--a"]
    assert worker.context["total"] == 1
    for hidden in ("hidden-1", "other--x"):
        assert hidden not in worker.content.decode()


def test_a_range_and_a_part_of_it(as_person: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    at = Decision.objects.earliest("time").time
    root = as_person("root")

    def shown(query: str) -> tuple[int, int]:
        context = root.get(f"/activity?{query}").context
        return context["total"], len(context["window"].rows)

    def text(hours: float) -> str:
        return (at + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")

    later = at + timedelta(hours=30)
    monkeypatch.setattr("scheduling.admin.decisions.timezone.now", lambda: later)
    assert shown("") == shown("range=6h") == shown("range=nothing") == (0, 0)
    assert shown("range=7d") == (2, 2)
    assert shown("workflow=mine-1") == (1, 1)  # from its first event on
    assert shown(f"range=7d&part_since={text(-1)}&part_until={text(1)}") == (2, 2)
    assert shown(f"range=7d&part_since={text(1)}&part_until={text(2)}") == (2, 0)
    assert shown("range=7d&part_since=x&part_until=2026-99-99T00:00:00Z") == (2, 2)
    assert shown(f"range=1h&since={(at - timedelta(hours=1)).strftime('%Y-%m-%dT%H:%M')}") == (2, 2)
    page = root.get("/activity?range=7d")
    chart = page.context["chart"]
    assert (chart.start, chart.end) == (at, later), "the lanes begin with the first event, as the page says"
    assert "the first one at" in page.content.decode()
    monkeypatch.setattr("scheduling.admin.decisions.timezone.now", lambda: at + timedelta(days=6))
    page = root.get("/activity?range=7d")
    chart = page.context["chart"]
    assert chart.end - chart.start == timedelta(days=7), "a day without events is not left out"
    assert "the first one at" not in page.content.decode()


def test_the_filters_and_the_same_events_in_the_api(as_person: SignedIn) -> None:

    def events(person: str, query: str = "") -> list[tuple[str, ...]]:
        page = as_person(person).get(f"/activity?{query}").context["window"].rows
        answer = as_person(person).get(f"/api/scheduler_events?{query}").json()
        assert not answer["more_entries"]
        assert [(row["id"], row["message"], tuple(row["nodes"]), row["gpus"]) for row in answer["events"]] == [
            (row.id, row.message, row.nodes, row.gpus) for row in page
        ]
        return [(row["action"], row["pool"], row["workflow"]) for row in answer["events"]]

    assert set(events("root")) == {("start", "team--a", "mine-1"), ("start", "other--x", "hidden-1")}
    assert events("worker") == [("start", "team--a", "mine-1")]
    assert events("root", "pool=other") == events("root", "user=stranger") == [("start", "other--x", "hidden-1")]
    assert events("root", "workflow=mine-1") == [("start", "team--a", "mine-1")]
    assert events("root", "action=move") == []
    first = as_person("root").get("/api/scheduler_events?limit=1").json()
    assert (len(first["events"]), first["more_entries"]) == (1, True)
    later = (timezone.now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    root = as_person("root")
    shown = {query: root.get(f"/activity?{query}") for query in ("user=stranger", f"until={later}", f"since={later}")}
    assert [{row.workflow for row in page.context["window"].rows} for page in shown.values()] == [
        {"hidden-1"}, {"mine-1", "hidden-1"}, set(),
    ]  # fmt: skip
    assert "No event matches" in shown[f"since={later}"].content.decode()
