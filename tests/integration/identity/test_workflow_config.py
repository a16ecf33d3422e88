"""How often the drain monitor looks: read by everybody, changed by an osmo-admin, followed by the beat at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from osmo_admin.celery import app
from pools.models import AuditEntry
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.services import periodic_tasks
from tests.support.api_client import ApiClient, Callers
from tests.support.world import apply_change

ADDRESS = "/api/configs/workflow"
FIELD, RETRIES = "subpool_drain_interval_minutes", "max_retry_per_task"


def _interval(name: str = periodic_tasks.DRAIN_MONITOR) -> timedelta:
    row = PeriodicTask.objects.select_related("interval").get(name=name)
    return timedelta(**{row.interval.period: row.interval.every})


class TestOverHttp:
    """Who writes, dry runs and versions: tests/integration/identity/test_authorisation.py."""

    def test_everybody_signed_in_may_read_what_an_admin_writes(
        self, caller: Callers, admin: ApiClient, anonymous: ApiClient
    ) -> None:
        bob = caller("bob")
        answer = bob("GET", ADDRESS)
        assert (answer.status, answer.body) == (200, {FIELD: 15, RETRIES: 0, "version": 1})
        assert answer.headers["ETag"] == '"1"'
        assert anonymous("GET", ADDRESS).status == 401
        answer = admin("PUT", ADDRESS, {FIELD: 5, "description": "nightly drill"})
        assert (answer.status, answer.body) == (200, {FIELD: 5, RETRIES: 0, "version": 2})
        assert bob("GET", ADDRESS).body[FIELD] == 5
        (entry,) = admin("GET", "/api/audit?object=config/workflow&limit=1").body["entries"]
        assert entry["sentence"] == "root set the time between checks of drains from 15 to 5 minutes: nightly drill"
        assert AuditEntry.objects.get(pk=entry["id"]).actor == "root"
        assert admin("PATCH", ADDRESS, {FIELD: 5}).body["version"] == 2, "the same value is no change"
        assert admin("PATCH", ADDRESS, {RETRIES: 3}).body == {FIELD: 5, RETRIES: 3, "version": 3}
        (entry,) = admin("GET", "/api/audit?object=config/workflow&limit=1").body["entries"]
        assert entry["sentence"] == "root set the retries of a task from 0 to 3"

    def test_wrapped_as_osmo_wraps_it(self, admin: ApiClient) -> None:
        assert admin("PATCH", ADDRESS, {"configs": {FIELD: 7}}).body[FIELD] == 7
        body = {"configs_dict": {FIELD: 8}, "description": "d", "tags": ["t"]}
        assert admin("PATCH", ADDRESS, body).body[FIELD] == 8
        assert admin("PUT", ADDRESS, {FIELD: 6, "version": 1}).status == 200, "as GET answers it"

    def test_every_fault_at_once(self, admin: ApiClient) -> None:
        for method in ("PATCH", "PUT"):
            answer = admin(method, ADDRESS, {"interval": 5, FIELD: 0, RETRIES: "two"})
            assert answer.status == 400
            assert answer.codes == {("interval", "unknown_key"), (FIELD, "bad_value"), (RETRIES, "bad_value")}
            assert admin(method, ADDRESS, {"interval": 5}).codes == {("interval", "unknown_key"), (FIELD, "missing")}
        assert admin("PATCH", ADDRESS, {FIELD: 6, "version": 1}).codes == {("version", "unknown_key")}
        assert admin("PATCH", ADDRESS, {}).status == 400, "nothing to change"

    def test_the_ends_of_the_ranges(self, admin: ApiClient) -> None:
        for minutes in (0, -1, 10_081, 1.5, "15", True, None, [], 10**30):
            answer = admin("PATCH", ADDRESS, {FIELD: minutes})
            assert (answer.status, answer.body["details"][0]["path"]) == (400, FIELD), minutes
        for times in (-1, 101, 1.5, "3", True, []):
            answer = admin("PATCH", ADDRESS, {RETRIES: times})
            assert (answer.status, answer.body["details"][0]["path"]) == (400, RETRIES), times
        assert _interval() == timedelta(minutes=15)
        for minutes, times in ((1, 0), (10_080, 100)):
            assert admin("PATCH", ADDRESS, {FIELD: minutes, RETRIES: times}).status == 200
            assert _interval() == timedelta(minutes=minutes)

    def test_if_match(self, admin: ApiClient) -> None:
        assert admin("PATCH", ADDRESS, {FIELD: 5}, if_match='"1"').status == 200
        stale = admin("PATCH", ADDRESS, {FIELD: 6}, if_match='"1"')
        assert stale.status == 412
        (detail,) = stale.body["details"]
        assert (detail["path"], detail["code"]) == ("If-Match", "stale")
        assert (detail["requested"], detail["version"]) == (1, 2)
        assert admin("PATCH", ADDRESS, {FIELD: 6}, if_match="*").status == 200


@pytest.mark.django_db
class TestSchedule:
    def test_a_new_installation_has_its_rows(self, settings: Any) -> None:
        assert {row.task for row in PeriodicTask.objects.filter(enabled=True)} >= {
            "scheduling.settle_all",
            "scheduling.archive_drained",
            "scheduling.forget_idempotency_keys",
        }
        assert _interval() == timedelta(minutes=15)
        assert _interval(periodic_tasks.RECONCILE) == timedelta(seconds=settings.OSMO.reconcile_interval)
        assert _interval(periodic_tasks.FORGET_KEYS) == timedelta(hours=1)

    def test_every_row_names_a_task_that_exists(self) -> None:
        import scheduling.tasks  # noqa: F401  (registers them)

        assert {row.task for row in PeriodicTask.objects.all()} <= set(app.tasks)

    def test_any_reconcile_interval(self) -> None:
        for seconds in (0.1, 0.75, 1.0, 5.0, 90.0, 120.0):
            interval = timedelta(seconds=seconds)
            periodic_tasks._ensure_periodic_task(periodic_tasks.RECONCILE, "scheduling.settle_all", interval)
            assert _interval(periodic_tasks.RECONCILE) == interval

    def test_ensuring_twice_changes_nothing_and_wakes_nobody(self) -> None:
        periodic_tasks.ensure_periodic_tasks()
        rows, woken = PeriodicTask.objects.count(), PeriodicTasks.last_change()
        periodic_tasks.ensure_periodic_tasks()
        assert (PeriodicTask.objects.count(), PeriodicTasks.last_change()) == (rows, woken)

    def test_the_hours_of_use_are_closed_when_beat_starts_first(self) -> None:
        both = periodic_tasks.CLOSE_USAGE_HOURS, periodic_tasks.NOTE_WAIT_CAUSES
        PeriodicTask.objects.filter(name__in=both).delete()
        before = timezone.now()
        periodic_tasks.ensure_periodic_tasks()
        closing, noting = (PeriodicTask.objects.get(name=name).last_run_at for name in both)
        assert closing + timedelta(minutes=1) < timezone.now(), "a demo has a month of them"
        assert noting >= before, "its first run is an interval away"

    def test_a_row_that_was_bent_by_hand_is_put_right_and_stays_switched_off(self) -> None:
        row = PeriodicTask.objects.get(name=periodic_tasks.DRAIN_MONITOR)
        row.task, row.enabled = "something.else", False
        row.save()
        periodic_tasks.ensure_periodic_tasks()
        row.refresh_from_db()
        assert (row.task, row.enabled) == ("scheduling.archive_drained", False)

    def test_migrating_again_keeps_the_interval(self, admin: ApiClient) -> None:
        admin("PATCH", ADDRESS, {FIELD: 5})
        call_command("migrate", verbosity=0, interactive=False)
        assert _interval() == timedelta(minutes=5)


def _beat() -> Any:
    """A beat that does not save its last runs when the test process ends, long after the database."""
    from osmo_admin.processes.beat import Scheduler

    beat = Scheduler(app=app, lazy=True)
    beat._finalize.cancel()
    return beat


@pytest.mark.django_db(transaction=True)
class TestRunningBeat:
    def test_a_change_is_followed_without_a_restart(self, ledger: None) -> None:
        beat = _beat()
        beat.setup_schedule()
        assert beat.schedule[periodic_tasks.DRAIN_MONITOR].schedule.run_every == timedelta(minutes=15)
        apply_change(UpdateSettings(subpool_drain_interval_minutes=3))
        assert beat.schedule[periodic_tasks.DRAIN_MONITOR].schedule.run_every == timedelta(minutes=3)

    def test_its_first_tick_takes_the_intervals_of_its_environment(
        self, ledger: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dataclasses import replace

        from django.conf import settings

        monkeypatch.setattr(settings, "OSMO", replace(settings.OSMO, reconcile_interval=0.5))
        beat = _beat()
        monkeypatch.setattr(beat, "apply_entry", lambda *_, **__: None)
        beat.tick()
        assert _interval(periodic_tasks.RECONCILE) == timedelta(seconds=0.5)
