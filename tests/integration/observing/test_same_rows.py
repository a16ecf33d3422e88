"""Forecasts, the record of use and notices read observed work as work of ours."""

from __future__ import annotations

import pytest

from pools.domain.people.notices import NoticeKind
from pools.models import AuditEntry, NoticeCondition
from scheduling.history.starts.background import forecast_starts
from scheduling.models import Group, Interruption, StartForecast, Workflow
from scheduling.services.notices import conditions
from scheduling.services.usage import note_wait_causes
from tests.integration.observing.test_seen_work import Lab
from tests.integration.workflows.test_usage import age_installation, move_back
from tests.support import world

KEPT = {"preemptibility": "non-preemptible"}


@pytest.fixture
def lab(db: None) -> Lab:
    """Eight GPUs in use, and a gang of two that waits."""
    found = Lab()
    world.make_user("root", "osmo-admin")
    world.make_pool("team", 8, on=found.backend)
    pods = found.firm.add_pod_group("full", namespace="science", queue="team", pods=8, **KEPT)
    for number, pod in enumerate(pods):
        found.firm.start(pod["metadata"]["name"], f"n{number % 2 + 1}", namespace="science")
    found.firm.add_pod_group("next", namespace="science", queue="team", pods=2)
    found.look()
    return found


def test_its_starts_are_forecast(lab: Lab) -> None:
    assert forecast_starts() == 1
    group = Group.objects.get(workflow__observed__name="next")
    forecast = StartForecast.objects.get(pk=group.pk)
    (entry,) = world.call_as("root")("GET", "/api/workflow/next-1").body["groups"]
    assert entry["waiting"]["start"] is not None
    assert forecast.backend_id == lab.backend.pk


def test_its_use_and_its_waits_are_on_record(lab: Lab) -> None:
    note_wait_causes()
    age_installation(10)
    for work in Workflow.objects.all():
        move_back(work, 5)
    query = {"by": "pool", "bucket": "hour"}
    totals = world.call_as("root")("GET", "/api/usage", query=query).body["totals"]
    assert totals["used_gpu_s"] == pytest.approx(5 * 3600 * 8, rel=0.01)
    assert totals["waiting_gpu_s"] == pytest.approx(5 * 3600 * 2, rel=0.01)


def test_its_conditions_and_its_preemptions_are_news(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quota of its pool is nearly used, and its scheduler preempts work that nobody here owns."""
    monkeypatch.setattr(conditions, "_chosen_kinds", lambda: {NoticeKind.QUOTA_NEARLY_USED})
    conditions.find_conditions()
    condition = NoticeCondition.objects.get(kind=NoticeKind.QUOTA_NEARLY_USED)
    assert condition.subject == "pool/team"
    assert "8 of 8" in condition.message
    lab.firm.preempt("full-0", namespace="science", message="for a better one")
    lab.look()
    assert Interruption.objects.get().workflow.name == "full-1"
    entry = AuditEntry.objects.get(action="workflow.preempted")
    assert (entry.object, entry.owner) == ("preemption/full-1", "observed:lab")
