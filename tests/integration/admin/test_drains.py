"""What is known of a drain: on the page of the pool, at `/api/drains`, and in the warnings of the home page."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.changes.subpools import DeleteSubpool
from pools.models import AuditEntry
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.models import Workflow
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import apply_change, reconcile

PAGE = "/pools/team"


def drains(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/api/drains{query}")
    assert answer.status_code == 200, answer.content.decode()
    found: list[dict[str, Any]] = answer.json()["drains"]
    return found


def limit(name: str, hours: float | None) -> datetime | None:
    """Give a running workflow a time limit that ends in this number of hours."""
    work = Workflow.objects.get(name=name)
    assert work.start_time is not None
    end = None if hours is None else timezone.now().replace(microsecond=0) + timedelta(hours=hours)
    Workflow.objects.filter(pk=work.pk).update(exec_timeout=None if end is None else end - work.start_time)
    return end


def text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S")


def test_half_of_the_gpus_and_the_end_follow_from_time_limits(
    as_person: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, gpus in (("long", 4), ("short", 4), ("middle", 8)):
        submit_workflow("team--a", gpus=gpus, name=name)
    reconcile()
    limit("short-1", 1)
    middle, end = limit("middle-1", 2), limit("long-1", 5)
    assert middle is not None and end is not None
    assert drains(as_person("worker")) == []
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    (drain,) = drains(as_person("worker"))
    deleted = AuditEntry.objects.filter(object="pool/team--a").latest("pk").time
    assert drain.pop("since")[:17] == text(deleted)[:17]
    assert drain.pop("half_free_by").startswith(text(middle))
    assert drain.pop("limits_end_at").startswith(text(end)) and drain.pop("ends_by").startswith(text(end))
    assert drain == {
        "subpool": "team--a", "long": False, "drain_by": None, "overdue": False,
        "live_workflows": 3, "waiting_workflows": 0, "unlimited_workflows": 0,
        "gpus": 16,
    }  # fmt: skip
    page = as_person("worker").get(PAGE).content.decode()
    assert "<dt>Draining</dt>" in page and 'data-age="length">' in page
    assert "at the latest, when the last time limit ends" in page
    assert "older than a day" not in page
    monkeypatch.setattr("scheduling.selectors.work.drains.LONG_DRAIN", timedelta(0))
    assert drains(as_person("worker"))[0]["long"] is True
    assert "This drain is older than a day" in as_person("worker").get(PAGE).content.decode()


def test_work_without_a_limit_and_waiting_work_have_no_known_end(as_person: SignedIn) -> None:
    for number in range(4):
        submit_workflow("team--a", gpus=8, name=f"work{number}")
    reconcile()
    assert Workflow.objects.filter(status="PENDING").count() == 1
    first, second, third = Workflow.objects.filter(status="RUNNING").order_by("name")
    limit(first.name, 1)
    end = limit(second.name, 3)
    limit(third.name, None)
    assert end is not None
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    (drain,) = drains(as_person("chief"), "?pool=team")
    assert (drain["live_workflows"], drain["waiting_workflows"], drain["unlimited_workflows"]) == (4, 1, 1)
    assert drain["ends_by"] is None
    assert drain["half_free_by"].startswith(text(end)) and drain["limits_end_at"].startswith(text(end))
    page = as_person("chief").get(PAGE).content.decode()
    assert "1 workflow runs without a time limit, and 1 waits to start" in " ".join(page.split())
    for work in (first, second):
        apply_change(CancelWorkflow(name=work.name))
    (drain,) = drains(as_person("chief"))
    assert drain["half_free_by"] is None and drain["limits_end_at"] is None
    assert "not known: the work that holds them has no time limit" in as_person("chief").get(PAGE).content.decode()


def test_drains_are_shown_to_those_who_see_the_pool(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    submit_workflow("other--x", gpus=8, username="stranger")
    reconcile()
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    apply_change(DeleteSubpool(parent="other", subpool_name="x"))
    seen = {name: [each["subpool"] for each in drains(as_person(name))] for name in ("root", "worker", "nobody")}
    assert seen == {"root": ["team--a", "other--x"], "worker": ["team--a"], "nobody": []}
    assert [each["subpool"] for each in drains(as_person("root"), "?pool=other--x")] == ["other--x"]
    assert drains(as_person("worker"), "?pool=other") == []
    assert as_person("root").get("/api/drains?limit=1").json()["more_entries"] is True
