"""Why work that has started waited as long as it did: on its page, in the API."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from pools.database.transactions import database_time
from scheduling.domain.reason_codes import WaitCause
from scheduling.models import Group, WaitCauseChange
from scheduling.selectors.reports.past_waits import GangWait, PastWaits, WaitPart
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import reconcile


@pytest.fixture
def since(pools_and_users: None) -> datetime:
    """`work-1` waited for three hours: 30 min for its turn, an hour for its quota, the rest for room. Then it
    started."""
    submit_workflow("team--a", gpus=8)
    since = database_time() - timedelta(hours=3)
    Group.objects.update(ready_at=since)
    gang = Group.objects.get()
    for minutes, cause in ((30, "own_quota"), (90, "room")):
        WaitCauseChange.objects.create(group_id=gang.pk, since=since + timedelta(minutes=minutes), cause=cause)
    reconcile()
    return since


def _parts(client: Client) -> Any:
    (group,) = client.get("/api/workflow/work-1").json()["groups"]
    return group["waits"]


def test_the_parts_follow_one_another_and_fill_the_wait(as_person: SignedIn, since: datetime) -> None:
    waits = _parts(as_person("worker"))  # the change of the time above ended one of no length
    wait = max(waits, key=lambda each: float(each["seconds"]))
    assert wait["started"] is True
    assert [part["cause"] for part in wait["parts"]] == ["order", "own_quota", "room"]
    assert [round(part["seconds"] / 60) for part in wait["parts"]] == [30, 60, 90]
    assert sum(part["seconds"] for part in wait["parts"]) == pytest.approx(wait["seconds"])
    edges = [part[side] for part in wait["parts"] for side in ("since", "until")]
    assert edges[1:-1:2] == edges[2::2]
    assert (edges[0], edges[-1]) == (wait["since"], wait["until"])
    text = " ".join(strip_tags(as_person("worker").get("/workflows/work-1").content.decode()).split())
    assert "Waited 3 h" in text
    assert "room on nodes (1 h 30 min), own quota (1 h), work before it (30 min)" in text
    assert "until it started" in text


def test_a_wait_that_was_never_judged_names_no_cause(as_person: SignedIn, since: datetime) -> None:
    """The causes of waiting are judged once a minute: until then nobody knows that it was the turn of other work."""
    WaitCauseChange.objects.filter(cause="own_quota").update(since=since + timedelta(seconds=52))
    client = as_person("worker")
    wait = max(_parts(client), key=lambda each: float(each["seconds"]))
    assert [part["cause"] for part in wait["parts"]] == ["order", "own_quota", "room"]
    assert [part["title"] for part in wait["parts"]] == ["cause not recorded", "own quota", "room on nodes"]
    text = " ".join(strip_tags(client.get("/workflows/work-1").content.decode()).split())
    assert "room on nodes (1 h 30 min), own quota (1 h 29 min), cause not recorded (52 s)" in text


def test_a_wait_that_was_over_before_anybody_asked_why_names_no_cause(
    as_person: SignedIn, pools_and_users: None
) -> None:
    submit_workflow("team--a", gpus=8)
    Group.objects.update(ready_at=database_time() - timedelta(seconds=8))
    reconcile()
    text = " ".join(strip_tags(as_person("worker").get("/workflows/work-1").content.decode()).split())
    assert re.search(r"Waited \d+ s\. ", text)
    assert "cause not recorded" not in text
    assert "By time" not in text


def test_a_wait_of_less_than_a_second_is_not_told() -> None:
    since = timezone.now()
    lengths = [timedelta(seconds=seconds) for seconds in (0.9, 1.2)]
    waits = [
        GangWait(since, since + each, True, True, (WaitPart(WaitCause.ROOM, since, since + each),)) for each in lengths
    ]
    assert PastWaits(waits).waits == waits[1:]


def test_a_wait_that_goes_on_has_no_end(as_person: SignedIn, pools_and_users: None) -> None:
    for _ in range(2):
        submit_workflow("team--a", gpus=20)
    reconcile()
    client = as_person("worker")
    (group,) = client.get("/api/workflow/work-2").json()["groups"]
    (wait,) = group["waits"]
    assert (wait["until"], wait["started"]) == (None, False)
    assert "By time" not in client.get("/workflows/work-2").content.decode()
