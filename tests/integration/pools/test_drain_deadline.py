"""The deadline of a drain: set with the deletion or during the drain, and no more than a time that people see."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.changes.subpools import DeleteSubpool, SetDrainDeadline
from pools.domain.errors import BadInput, Conflict, Forbidden, NotFound, Stale
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import AuditEntry, Pool
from pools.services.configuration.subpools import archive_drained, delete_subpool, set_drain_deadline
from scheduling.domain.changes.workflows import CancelWorkflow
from tests.support import world
from tests.support.world import ModuleData, apply_change, make_subpool, sign_in

pytestmark = pytest.mark.django_db
ONE = "/api/configs/pool/team/subpool/a"


@pytest.fixture(scope="module")
def bob(module_data: ModuleData) -> Actor:
    with module_data():
        world.make_pool("team", 100, a=30, b=20)
        return world.make_user("bob", "osmo-team-user")


@pytest.fixture
def work(bob: Actor, db: None) -> str:
    """Live work of subpool a."""
    return world.submit_workflow(bob, "team--a", 4, name="long").name


def friday() -> datetime:
    return timezone.now().replace(microsecond=0) + timedelta(days=3)


def row() -> Pool:
    return Pool.objects.get(name="team--a")


def delete(**options: Any) -> Any:
    note = {name: options.pop(name) for name in ("actor", "description", "expected_version") if name in options}
    return delete_subpool(DeleteSubpool(parent="team", subpool_name="a", **options), **{"actor": SYSTEM, **note})


def set_deadline(drain_by: datetime | None, *, actor: Actor = SYSTEM, name: str = "a", **options: Any) -> Any:
    command = SetDrainDeadline(parent="team", subpool_name=name, drain_by=drain_by)
    return set_drain_deadline(command, actor=actor, **options)


def test_it_is_set_with_the_deletion_and_ends_with_the_drain(work: str) -> None:
    end = friday()
    assert delete(drain_by=end).row.drain_by == end
    assert AuditEntry.objects.filter(object="pool/team--a").latest("id").action == "subpool.deleting"
    apply_change(CancelWorkflow(name=work))
    assert (row().subpool_state, row().drain_by) == ("ARCHIVED", None)
    make_subpool("team", "a", 10)
    assert row().drain_by is None


def test_a_passed_deadline_stops_no_work_and_the_background_job_archives(work: str) -> None:
    delete(drain_by=friday())
    Pool.objects.filter(name="team--a").update(drain_by=timezone.now() - timedelta(days=1))
    assert archive_drained() == 0
    assert (row().subpool_state, row().usage.live_workflows) == ("DELETING", 1)


def test_it_changes_during_the_drain_and_leaves_the_time_of_the_deletion(work: str) -> None:
    delete()
    before = row()
    end = friday()
    set_deadline(end, description="agreed with bob", expected_version=before.version)
    after = row()
    assert (after.drain_by, after.updated_at, after.version) == (end, before.updated_at, before.version + 1)
    assert (after.last_quota, after.subpool_state) == (before.last_quota, before.subpool_state)
    entry = AuditEntry.objects.filter(object="pool/team--a").latest("id")
    assert (entry.action, entry.description) == ("subpool.updated", "agreed with bob")
    set_deadline(None)
    assert row().drain_by is None


def test_a_deletion_without_live_work_has_no_deadline(bob: Actor) -> None:
    result = delete(drain_by=friday())
    assert (result.row.subpool_state, result.row.drain_by) == ("ARCHIVED", None)
    assert result.warnings == ("team--a has no active work, so it needs no deadline.",)


@pytest.mark.parametrize("away", [timedelta(0), timedelta(days=-1), timedelta(days=367)])
def test_a_time_that_is_past_or_far_ahead_is_refused(work: str, away: timedelta) -> None:
    with pytest.raises(BadInput, match="The deadline of a drain is after 20[0-9: -]+ UTC, at most 366 days later"):
        delete(drain_by=timezone.now() + away)
    delete()
    with pytest.raises(BadInput) as refused:
        set_deadline(timezone.now() + away)
    assert [each.path for each in refused.value.details] == ["drain_by"]


def test_other_subpools_and_other_people_are_refused(work: str, bob: Actor) -> None:
    with pytest.raises(Conflict, match="team--a is ACTIVE, so it has no drain"):
        set_deadline(friday())
    delete()
    with pytest.raises(NotFound, match="no subpool z"):
        set_deadline(friday(), name="z")
    with pytest.raises(Forbidden):
        set_deadline(friday(), actor=bob)
    with pytest.raises(Stale, match="changed"):
        set_deadline(friday(), expected_version=1)
    assert row().drain_by is None


def test_the_api_sets_shows_and_lists_it(work: str) -> None:
    world.make_user("chief", "osmo-team-admin")
    client = sign_in("chief")
    end = friday()
    text = end.strftime("%Y-%m-%dT%H:%M:%S")
    json = {"content_type": "application/json"}
    effect = client.delete(f"{ONE}?dry_run=true", {"drain_by": text}, **json).json()
    assert effect["after"]["subpools"][0]["drain_by"][:19] == text
    assert row().drain_by is None
    assert client.delete(ONE, {"drain_by": text}, **json).json()["drain_by"][:19] == text
    (drain,) = client.get("/api/drains").json()["drains"]
    assert (drain["drain_by"][:19], drain["overdue"]) == (text, False)
    assert client.patch(ONE, {"drain_by": None}, **json).json()["drain_by"] is None
    for body, path in (({"drain_by": "soon"}, "drain_by"), ({"drain_by": text, "quota": 4}, "quota")):
        refused = client.patch(ONE, body, **json)
        assert refused.status_code == 400
        assert [each["path"] for each in refused.json()["details"]] == [path]
    Pool.objects.filter(name="team--a").update(drain_by=timezone.now() - timedelta(days=1))
    assert client.get("/api/drains").json()["drains"][0]["overdue"] is True
