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
    def test_everybody_signed_in_may_read(self, caller: Callers, anonymous: ApiClient) -> None:
        answer = caller("bob")("GET", ADDRESS)
        assert (answer.status, answer.body) == (200, {FIELD: 15, RETRIES: 0, "version": 1})
        assert answer.headers["ETag"] == '"1"'
        assert anonymous("GET", ADDRESS).status == 401

    @pytest.mark.parametrize("method", ["PATCH", "PUT"])
    def test_an_osmo_admin_may_write_and_nobody_else(self, caller: Callers, admin: ApiClient, method: str) -> None:
        for other in (caller("bob"), caller("vera", "osmo-viewer")):
            assert other(method, ADDRESS, {FIELD: 5}).status == 403
        answer = admin(method, ADDRESS, {FIELD: 5, "description": "nightly drill"})
        assert (answer.status, answer.body) == (200, {FIELD: 5, RETRIES: 0, "version": 2})
        assert admin("GET", ADDRESS).body[FIELD] == 5

    @pytest.mark.parametrize(
        "body", [{"configs": {FIELD: 7}}, {"configs_dict": {FIELD: 7}, "description": "d", "tags": ["t"]}]
    )
    def test_wrapped_as_osmo_wraps_it(self, admin: ApiClient, body: object) -> None:
        assert admin("PATCH", ADDRESS, body).body[FIELD] == 7

    def test_what_get_adds_put_ignores_and_patch_does_not_know(self, admin: ApiClient) -> None:
        assert admin("PUT", ADDRESS, {FIELD: 6, "version": 1}).status == 200
        assert admin("PATCH", ADDRESS, {FIELD: 6, "version": 1}).body["details"][0]["path"] == "version"

    @pytest.mark.parametrize("method", ["PATCH", "PUT"])
    def test_every_fault_at_once(self, admin: ApiClient, method: str) -> None:
        answer = admin(method, ADDRESS, {"interval": 5, FIELD: 0, RETRIES: "two"})
        assert answer.status == 400
        found = {(detail["path"], detail["code"]) for detail in answer.body["details"]}
        assert found == {("interval", "unknown_key"), (FIELD, "bad_value"), (RETRIES, "bad_value")}
        answer = admin(method, ADDRESS, {"interval": 5})
        found = {(detail["path"], detail["code"]) for detail in answer.body["details"]}
        assert found == {("interval", "unknown_key"), (FIELD, "missing")}

    @pytest.mark.parametrize("minutes", [1, 10_080])
    def test_the_ends_of_the_range(self, admin: ApiClient, minutes: int) -> None:
        assert admin("PATCH", ADDRESS, {FIELD: minutes}).status == 200
        assert _interval() == timedelta(minutes=minutes)

    @pytest.mark.parametrize("minutes", [0, -1, 10_081, 1.5, "15", True, None, [], 10**30])
    def test_what_is_no_interval(self, admin: ApiClient, minutes: object) -> None:
        answer = admin("PATCH", ADDRESS, {FIELD: minutes})
        assert answer.status == 400
        assert answer.body["details"][0]["path"] == FIELD
        assert _interval() == timedelta(minutes=15)

    def test_nothing_to_change(self, admin: ApiClient) -> None:
        assert admin("PATCH", ADDRESS, {}).status == 400
        assert admin("PATCH", ADDRESS, {"other": 1}).body["details"][0]["code"] == "unknown_key"

    @pytest.mark.parametrize("times", [-1, 101, 1.5, "3", True, []])
    def test_what_is_no_number_of_retries(self, admin: ApiClient, times: object) -> None:
        answer = admin("PATCH", ADDRESS, {RETRIES: times})
        assert (answer.status, answer.body["details"][0]["path"]) == (400, RETRIES)

    def test_retries_are_changed_alone_or_with_the_interval(self, admin: ApiClient) -> None:
        assert admin("PATCH", ADDRESS, {RETRIES: 3}).body == {FIELD: 15, RETRIES: 3, "version": 2}
        (entry,) = admin("GET", "/api/audit?object=config/workflow&limit=1").body["entries"]
        assert entry["sentence"] == "root set the retries of a task from 0 to 3"
        assert admin("PATCH", ADDRESS, {RETRIES: 100, FIELD: 7}).body == {FIELD: 7, RETRIES: 100, "version": 3}
        both = admin("PATCH", ADDRESS, {RETRIES: -1, FIELD: 0})
        assert [fault["path"] for fault in both.body["details"]] == [FIELD, RETRIES]

    def test_if_match(self, admin: ApiClient) -> None:
        assert admin("PATCH", ADDRESS, {FIELD: 5}, if_match='"1"').status == 200
        stale = admin("PATCH", ADDRESS, {FIELD: 6}, if_match='"1"')
        assert stale.status == 412
        (detail,) = stale.body["details"]
        assert (detail["path"], detail["code"]) == ("If-Match", "stale")
        assert (detail["requested"], detail["version"]) == (1, 2)
        assert admin("PATCH", ADDRESS, {FIELD: 6}, if_match="*").status == 200

    def test_the_same_value_is_no_change(self, admin: ApiClient) -> None:
        assert admin("PATCH", ADDRESS, {FIELD: 15}).body["version"] == 1

    def test_dry_run(self, admin: ApiClient) -> None:
        answer = admin("PATCH", f"{ADDRESS}?dry_run=True", {FIELD: 5}).body
        assert (answer["before"][FIELD], answer["after"][FIELD]) == (15, 5)
        assert admin("GET", ADDRESS).body[FIELD] == 15
        assert _interval() == timedelta(minutes=15)

    def test_it_is_audited(self, admin: ApiClient) -> None:
        admin("PATCH", ADDRESS, {FIELD: 5, "description": "nightly drill"})
        (entry,) = admin("GET", "/api/audit?object=config/workflow&limit=1").body["entries"]
        assert entry["sentence"] == ("root set the time between checks of drains from 15 to 5 minutes: nightly drill")
        assert AuditEntry.objects.get(pk=entry["id"]).actor == "root"


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

    @pytest.mark.parametrize("seconds", [0.1, 0.75, 1.0, 5.0, 90.0, 120.0])
    def test_any_reconcile_interval(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        periodic_tasks._ensure_periodic_task(
            periodic_tasks.RECONCILE, "scheduling.settle_all", timedelta(seconds=seconds)
        )
        assert _interval(periodic_tasks.RECONCILE) == timedelta(seconds=seconds)

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
