"""GET /api/usage: work that runs and waits here appears in the record, for everybody who may see it."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pgtrigger
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Pool, User
from scheduling.models import Group, LeafUsageDay, Task, WaitSpan, Workflow, WorkUsageDay
from scheduling.selectors.usage.answers import start_of_hour
from scheduling.services import usage as usage_service
from scheduling.services.usage import close_hours, compute_hours, note_wait_causes, rebuild
from scheduling.services.verify import verify
from tests.support.api_client import ApiClient, Callers
from tests.support.kube_server import wait_for
from tests.support.world import (
    ModuleData,
    apply_change,
    call_as,
    make_backend,
    make_pool,
    make_user,
    reconcile,
    submit_workflow,
)

pytestmark = pytest.mark.django_db
STATES = [
    f"{state}_gpu_s" for state in ("guaranteed", "low_inside", "over_quota", "idle_quota", "unallocated", "offline")
]


@pytest.fixture
def root(caller: Callers) -> ApiClient:
    return caller("root", "osmo-admin")


@pytest.fixture(scope="module")
def worker_once(module_data: ModuleData) -> ApiClient:
    with module_data():
        make_pool("team", 16, on=make_backend(nodes=2, gpus=16), a=8)
        make_user("worker", "osmo-team-user")
        return call_as("worker")


@pytest.fixture
def worker(worker_once: ApiClient, db: None) -> ApiClient:
    return ApiClient(worker_once.token)


def move_back(workflow: Workflow, hours: float) -> None:
    """Let an attempt and its wait have been that long ago, as if the clock had been."""
    back = timedelta(hours=hours)
    with pgtrigger.ignore("scheduling.WaitSpan:append_only"):
        for row in WaitSpan.objects.filter(workflow_id=workflow.pk):
            WaitSpan.objects.filter(pk=row.pk).update(since=row.since - back, until=row.until - back)
    for task in Task.objects.filter(group__workflow=workflow, start_time__isnull=False):
        Task.objects.filter(pk=task.pk).update(start_time=task.start_time - back)
    for group in Group.objects.filter(workflow=workflow):
        moved = {key: getattr(group, key) - back for key in ("ready_at", "start_time") if getattr(group, key)}
        Group.objects.filter(pk=group.pk).update(**moved)
    workflow.refresh_from_db()
    started = workflow.start_time - back if workflow.start_time else None
    Workflow.objects.filter(pk=workflow.pk).update(start_time=started, submit_time=workflow.submit_time - back)


def age_installation(hours: float) -> None:
    """Let the pools and nodes be older."""
    with connection.cursor() as cursor:
        for table in ("scheduling_quotaspan", "scheduling_nodespan"):
            cursor.execute(f"UPDATE {table} SET since = since - make_interval(hours => %s)", [hours])


def test_work_and_waiting_are_on_record(root: ApiClient, worker: ApiClient) -> None:
    first = submit_workflow(worker.actor, "team--a", 8)
    second = submit_workflow(worker.actor, "team--a", 6)
    reconcile()
    note_wait_causes()
    age_installation(10)
    for work in (first, second):
        move_back(work, 5)
    answer = root.get("/api/usage", by="backend", bucket="hour")
    totals = answer["totals"]
    assert sum(totals[state] for state in STATES) == pytest.approx(totals["capacity_gpu_s"], abs=1e-6)
    assert totals["used_gpu_s"] == pytest.approx(5 * 3600 * 8, rel=0.01)
    assert totals["waiting_gpu_s"] == pytest.approx(5 * 3600 * 6, rel=0.01)
    assert totals["lent_gpu_s"] == totals["borrowed_gpu_s"] == 0
    assert {row["backend"] for row in answer["rows"]} == {"sim"}
    causes = [totals[f"waiting_{cause}_gpu_s"] for cause in ("own_quota", "limit", "room", "offline", "order")]
    assert sum(causes) == pytest.approx(totals["waiting_gpu_s"])


def test_every_key_and_bucket_adds_up_to_the_same_use(root: ApiClient, worker: ApiClient) -> None:
    for leaf, gpus in (("team--a", 4), ("team", 3), ("team--a", 2)):
        submit_workflow(worker.actor, leaf, gpus)
    reconcile()
    age_installation(30)
    for row in Workflow.objects.all():
        move_back(row, 26)
    until = datetime.now(UTC).replace(tzinfo=None).isoformat()
    found = {
        key: root.get("/api/usage", by=key, bucket="hour", until=until)
        for key in ("pool", "subpool", "cohort", "user", "priority", "backend", "workflow")
    }
    assert {answer["totals"]["used_gpu_s"] for answer in found.values()} == {found["pool"]["totals"]["used_gpu_s"]}
    for key, answer in found.items():
        assert sum(row["used_gpu_s"] for row in answer["rows"]) == pytest.approx(answer["totals"]["used_gpu_s"])
        assert answer["totals"]["workflows"] == 3, key
    assert {row["subpool"] for row in found["subpool"]["rows"]} == {"team--a", "team--_shared"}
    assert {row["workflow"] for row in found["workflow"]["rows"]} == {"job-1", "job-2", "job-3"}
    for reader in (root, worker):
        buckets = [
            reader.get("/api/usage", by="subpool", bucket=bucket, until=until) for bucket in ("hour", "day", "month")
        ]
        assert [answer["totals"] for answer in buckets] == [buckets[0]["totals"]] * 3
        of_days: dict[tuple[str, str], float] = defaultdict(float)
        for row in buckets[0]["rows"]:
            of_days[row["start"][:10], row["subpool"]] += row["used_gpu_s"] + row["quota_gpu_s"]
        assert of_days == pytest.approx(
            {(row["start"][:10], row["subpool"]): row["used_gpu_s"] + row["quota_gpu_s"] for row in buckets[1]["rows"]}
        )


def close_ended_hours() -> int:
    """Close the hours, which waits for every transaction of the server: another test's transaction delays it."""
    return wait_for(close_hours, seconds=30, description="the hours are closed")


def test_stored_hours_equal_computed_hours_and_a_late_write_is_seen(root: ApiClient, worker: ApiClient) -> None:
    work = submit_workflow(worker.actor, "team--a", 8)
    reconcile()
    age_installation(30)
    move_back(work, 20)
    until = start_of_hour(datetime.now(UTC)).replace(tzinfo=None).isoformat()
    computed = root.get("/api/usage", by="subpool", bucket="hour", until=until)
    assert close_ended_hours() > 25
    with CaptureQueriesContext(connection) as queries:
        assert root.get("/api/usage", by="subpool", bucket="hour", until=until) == computed
    many = len(queries)
    with CaptureQueriesContext(connection) as queries:
        root.get("/api/usage", by="subpool", bucket="hour", since=(datetime.now(UTC) - timedelta(hours=3)).isoformat())
    assert len(queries) == many
    move_back(work, 2)  # writes into closed hours
    assert close_ended_hours() >= 21
    later = root.get("/api/usage", by="subpool", bucket="hour", until=until)
    assert later["totals"]["used_gpu_s"] - computed["totals"]["used_gpu_s"] == pytest.approx(2 * 3600 * 8)
    assert close_hours() == 0


def use_by_day(
    reader: ApiClient, **filters: str
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
    """Use and quota by day: from rows of hours, and from rows of days."""
    until = start_of_hour(datetime.now(UTC)).replace(tzinfo=None).isoformat()
    found: list[dict[str, tuple[float, float]]] = []
    for bucket in ("hour", "day"):
        sums: dict[str, tuple[float, float]] = {}
        for row in reader.get("/api/usage", by="pool", bucket=bucket, until=until, **filters)["rows"]:
            used, quota = sums.get(row["start"][:10], (0.0, 0.0))
            sums[row["start"][:10]] = round(used + row["used_gpu_s"], 3), round(quota + (row["quota_gpu_s"] or 0), 3)
        found.append(sums)
    return found[0], found[1]


def test_full_days_are_the_sums_of_their_hours(root: ApiClient, worker: ApiClient) -> None:
    works = [submit_workflow(worker.actor, leaf, gpus) for leaf, gpus in (("team--a", 4), ("team", 3))]
    reconcile()
    age_installation(24 * 5)
    for work in works:
        move_back(work, 24 * 4 - 5)
    until = start_of_hour(datetime.now(UTC)).replace(tzinfo=None).isoformat()
    questions = [
        {"by": by, "bucket": bucket} for by in ("backend", "pool", "subpool", "user") for bucket in ("day", "month")
    ]
    computed = [root.get("/api/usage", until=until, **question) for question in questions]
    close_ended_hours()
    assert LeafUsageDay.objects.count() >= 4 * 2 and WorkUsageDay.objects.count() >= 2 * 2
    with CaptureQueriesContext(connection) as queries:
        assert [root.get("/api/usage", until=until, **question) for question in questions] == computed
    assert sum("scheduling_workusageday" in query["sql"] for query in queries) == len(questions)
    assert sum("scheduling_leafusageday" in query["sql"] for query in queries) == 2, "leaves only by subpool"
    move_back(works[0], 12)  # writes into closed days
    close_ended_hours()
    for filters in ({}, {"pool": "team--a"}, {"user": "worker"}):
        of_hours, of_days = use_by_day(root, **filters)
        assert of_days == of_hours and len(of_days) >= 4


def test_own_work_of_the_day_of_joining_counts_by_hours(root: ApiClient, worker: ApiClient, caller: Callers) -> None:
    work = submit_workflow(worker.actor, "team--a", 4)
    reconcile()
    age_installation(24 * 5)
    move_back(work, 24 * 4)
    close_ended_hours()
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=2)
    User.objects.filter(pk=worker.user.pk).update(date_joined=noon)
    of_hours, of_days = use_by_day(worker)  # a reader of the pool sees all of them
    assert of_days == of_hours
    worker.user.groups.clear()
    of_hours, of_days = use_by_day(caller("worker"))
    assert of_days == of_hours
    assert of_days[f"{noon:%Y-%m-%d}"][0] == pytest.approx(12 * 3600 * 4)
    assert f"{noon - timedelta(days=1):%Y-%m-%d}" not in of_days


def test_verification_finds_wrong_sums(root: ApiClient, worker: ApiClient) -> None:
    work = submit_workflow(worker.actor, "team--a", 4)
    reconcile()
    age_installation(24 * 3)
    move_back(work, 24 * 2)
    close_ended_hours()
    full = start_of_hour(datetime.now(UTC))
    for table, column in (
        ("backendusageday", "capacity"),
        ("leafusageday", "idle"),
        ("poolusageday", "idle"),
        ("workusageday", "guaranteed"),
        ("poolusagehour", "quota"),
    ):
        kind = table[-9:]
        assert [each for each in verify() if kind in str(each)] == []
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE scheduling_{table} SET {column} = {column} + 1")
        (difference,) = [each for each in verify() if kind in str(each)]
        assert table in str(difference)
        compute_hours(full - timedelta(days=3), full)
        assert [each for each in verify() if kind in str(each)] == [], table


def test_the_hour_in_which_the_record_begins_is_not_computed_again(root: ApiClient, worker: ApiClient) -> None:
    work = submit_workflow(worker.actor, "team--a", 8)
    reconcile()
    age_installation(5)
    move_back(work, 4)
    until = start_of_hour(datetime.now(UTC)).replace(tzinfo=None).isoformat()
    computed = root.get("/api/usage", by="backend", bucket="day", until=until)
    close_ended_hours()
    with CaptureQueriesContext(connection) as queries:
        assert root.get("/api/usage", by="backend", bucket="day", until=until) == computed
    assert not any("leaf_piece" in query["sql"] for query in queries)


def test_a_crash_loses_nothing(root: ApiClient, worker: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    work = submit_workflow(worker.actor, "team--a", 8)
    reconcile()
    age_installation(30)
    move_back(work, 20)

    def die(begin: datetime, end: datetime) -> None:
        compute_hours(begin, end)
        raise KeyboardInterrupt

    until = start_of_hour(datetime.now(UTC)).replace(tzinfo=None).isoformat()
    before = root.get("/api/usage", by="user", until=until)
    monkeypatch.setattr(usage_service, "compute_hours", die)
    with pytest.raises(KeyboardInterrupt):
        close_ended_hours()
    monkeypatch.undo()
    assert root.get("/api/usage", by="user", until=until) == before
    assert close_ended_hours() > 25
    assert root.get("/api/usage", by="user", until=until) == before


def test_the_record_follows_the_audit_trail(root: ApiClient, worker: ApiClient) -> None:
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=3), actor=root.actor)
    assert [each for each in verify() if each.code == "usage"] == []
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_quotaspan SET quota = quota + 1 WHERE until IS NULL")
    assert [each.code for each in verify() if each.code == "usage"] == ["usage"]
    rebuild()
    assert [each for each in verify() if each.code == "usage"] == []


def test_a_person_sees_the_own_work_and_the_own_pools(root: ApiClient, worker: ApiClient, caller: Callers) -> None:
    make_pool("other", 8, on=Pool.objects.get(name="team").backend)
    for leaf in ("team--a", "other"):
        submit_workflow(root.actor, leaf, 2)
    submit_workflow(worker.actor, "team", 2)
    reconcile()
    age_installation(3)
    for row in Workflow.objects.all():
        move_back(row, 1)
    stranger = caller("stranger")
    seen = {
        who.user.username: {row["pool"] for row in who.get("/api/usage")["rows"]} for who in (root, worker, stranger)
    }
    assert seen == {"root": {"team", "other"}, "worker": {"team"}, "stranger": set()}
    assert worker.get("/api/usage")["totals"]["capacity_gpu_s"] is None
    assert {row["user"] for row in worker.get("/api/usage", by="user")["rows"]} == {"root", "worker"}
    worker.user.groups.clear()
    assert {row["user"] for row in caller("worker").get("/api/usage", by="user")["rows"]} <= {"root", "worker"}


def test_csv_and_faults(root: ApiClient, worker: ApiClient) -> None:
    age_installation(3)
    text = root.get("/api/usage", format="csv", by="subpool")
    assert text.startswith("start,subpool,capacity_gpu_hours,quota_gpu_hours,used_gpu_hours,")
    assert "_gpu_s" not in text, "people read hours, in the file as on the page"
    begin, end = (datetime.now(UTC) - timedelta(hours=hours) for hours in (2, 1))
    query = {"by": "pool", "since": begin.isoformat(), "until": end.isoformat()}
    rows = [each for each in root.get("/api/usage", **query)["rows"] if each["pool"] == "team"]
    lines = [*csv.DictReader(root.get("/api/usage", format="csv", pool="team", **query).splitlines())]
    assert rows, "two around midnight"
    for row, line in zip(rows, lines, strict=True):
        assert row["quota_gpu_s"]
        assert float(line["quota_gpu_hours"]) == pytest.approx(row["quota_gpu_s"] / 3600, abs=0.0001)
    assert (
        root.last.headers["Content-Disposition"]
        == f'attachment; filename="usage-team-{begin:%Y-%m-%d}-to-{end:%Y-%m-%d}.csv"'
    )
    text = root.get("/api/usage", format="csv", by="subpool")
    assert "team--a" in text and root.last.headers["Content-Type"].startswith("text/csv")
    answer = root.get("/api/usage", by="moon", bucket="week", since="soon", format="xml")
    assert root.status == 400
    assert {fault["path"] for fault in answer["details"]} >= {"by", "bucket", "since", "format"}
    root.get("/api/usage", by="workflow", since="2020-01-01")
    assert root.status == 400


def test_a_submission_writes_nothing_and_a_start_one_row(worker: ApiClient) -> None:
    with CaptureQueriesContext(connection):
        submit_workflow(worker.actor, "team--a", 8)
    assert WaitSpan.objects.count() == 0
    reconcile()
    (span,) = WaitSpan.objects.all()
    group = Group.objects.get()
    assert (span.since, span.until, span.started) == (group.ready_at, group.start_time, True)
