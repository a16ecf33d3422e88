"""The demo is a believable month, its ledger is consistent, and a replay finds the same month again. The tests ask the
finished data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from statistics import mean, median
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count, Min, Q

from pools.database.transactions import database_time
from pools.domain.approvals import ApprovalState
from pools.domain.people.roles import SYSTEM
from pools.models import (
    ApprovalRequest,
    AuditEntry,
    Backend,
    Cohort,
    GpuQuota,
    GpuUsageSample,
    Node,
    NoticeProgress,
    Pool,
    User,
)
from scheduling.demo.acts import LOST_NODE
from scheduling.demo.installation import CLUSTERS, OPERATOR
from scheduling.demo.month_file import DAY, HOUR, LENGTH, SHORTEST, ClusterMonth, month_start, read_month
from scheduling.demo.seed import seed_demo
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.start_words import FEWEST_LIKE
from scheduling.domain.statuses import TaskStatus
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history_clock import HistoryClock, first_difference
from scheduling.history.starts.background import read_calibration
from scheduling.history.starts.forecast_facts import read_forecast_facts
from scheduling.models import Decision, Group, Interruption, OfflineSpan, Receipt, StartForecast, Task, Workflow
from scheduling.selectors.queue.pending_queue import build_pending_queue
from scheduling.selectors.usage.answers import UsageAnswer, UsageQuestion
from scheduling.selectors.usage.reading import read_usage
from scheduling.services.receipts.past_receipts import write_past_receipts
from scheduling.services.seed import seed_defaults
from scheduling.services.verify import verify
from scripts.demo_month import month_forecasts
from scripts.demo_month.make_month import make_month
from tests.support.nightly_parts import samples

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("demo")]

STATES = ("guaranteed", "low_inside", "over_quota", "idle", "unallocated", "offline")


@pytest.fixture(scope="module")
def demo(module_data: Callable[[], Any]) -> None:
    """The demo, once for all tests of this module."""
    with module_data():
        seed_defaults()
        seed_demo()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # as the server does by itself once the data is committed


@pytest.fixture(scope="module")
def month(demo: None, module_data: Callable[[], Any]) -> UsageAnswer:
    """What Usage says of the last 30 days, by day."""
    with module_data():
        now = database_time()
        return read_usage(SYSTEM, UsageQuestion(now - timedelta(days=30), now, UsageKey.BACKEND, Bucket.DAY))


def test_the_demo_is_as_large_and_as_lively_as_documented() -> None:
    assert Pool.objects.roots().count() == 12
    states = dict(Pool.objects.filter(parent__isnull=False).values_list("subpool_state").annotate(Count("pk")))
    assert sum(states.values()) == 40
    assert states == {"ACTIVE": 30, "DELETING": 3, "ARCHIVED": 7}
    assert User.objects.count() == 26
    assert 2_000 <= Workflow.objects.count() <= 3_500
    statuses = set(Workflow.objects.values_list("status", flat=True))
    assert {
        "PENDING", "RUNNING", "COMPLETED", "FAILED", "FAILED_CANCELED", "FAILED_EXEC_TIMEOUT", "FAILED_QUEUE_TIMEOUT",
        "FAILED_BACKEND_ERROR",
    } <= statuses  # fmt: skip
    moments = Workflow.objects.order_by("submit_time").values_list("submit_time", flat=True)
    assert moments[0] < database_time() - timedelta(days=30)
    assert set(Cohort.objects.values_list("name", "parent__name")) == {
        ("company", None), ("products", "company"), ("science", "company"),
    }  # fmt: skip
    assert Pool.objects.filter(cohort__isnull=False).count() == 6
    conditions = {quota.namespace: quota.alert_since is not None for quota in GpuQuota.objects.all()}
    assert conditions == {"inference-prod": True, "inference-dev": False}
    assert Group.objects.exclude(gang=None).count() == 1


def test_the_ledger_and_the_record_of_use_are_consistent() -> None:
    assert verify() == []


def test_forecasts_learn_from_past_work_how_long_present_work_will_run() -> None:
    """Long work is more often among what runs now than among what ended."""
    ended, running = (
        sorted(
            Workflow.objects.filter(
                start_time__isnull=False, end_time__isnull=is_running, simulated_runtime__isnull=False
            ).values_list("simulated_runtime", flat=True)
        )
        for is_running in (False, True)
    )
    assert ended[len(ended) // 10] < timedelta(hours=3) < ended[len(ended) // 2] < timedelta(days=1)
    assert running[len(running) // 10] < timedelta(hours=18) < running[len(running) // 2] < timedelta(days=3)
    for work in Workflow.objects.filter(start_time__isnull=False, end_time__isnull=False, status="COMPLETED"):
        assert work.end_time - work.start_time >= work.simulated_runtime


def test_a_month_of_use_is_on_record_and_adds_up(month: UsageAnswer) -> None:
    """Its states add up to the capacity, and its use to the attempts."""
    totals, question = month.totals, month.question
    assert sum(totals.sums[state] or 0 for state in STATES) == totals.sums["capacity"]
    gpus = sum(Node.objects.filter(backend__name__in=CLUSTERS).values_list("gpus", flat=True))
    # The empty cluster that every installation has is a minute old.
    assert totals.sums["capacity"] == pytest.approx(gpus * 30 * 86_400_000, rel=0.001)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT sum(gpu_count * (floor(extract(epoch FROM LEAST(COALESCE(end_time, %(until)s), %(until)s)) * 1000)
                - floor(extract(epoch FROM GREATEST(start_time, %(since)s)) * 1000)))
            FROM scheduling_task WHERE start_time < %(until)s AND (end_time IS NULL OR end_time > %(since)s)
            """,
            {"since": question.since, "until": question.until},
        )
        assert totals.used == cursor.fetchone()[0]
    assert (totals.wait_p90 or 0) > (totals.wait_p50 or 0)


def test_most_gpus_are_in_use_and_days_and_weekends_show(month: UsageAnswer) -> None:
    totals = month.totals
    assert 0.70 <= totals.used / (totals.sums["capacity"] or 1) <= 0.90
    by_day: dict[bool, list[float]] = {True: [], False: []}
    for row in month.rows:
        if (row.sums["capacity"] or 0) > 0:
            by_day[row.start.weekday() < 5].append(row.used / (row.sums["capacity"] or 1))
    working, weekend = (sum(shares) / len(shares) for shares in (by_day[True], by_day[False]))
    assert working > weekend + 0.03
    submitted = [0] * 24
    of_day: Counter[date] = Counter()
    for at in Workflow.objects.values_list("submit_time", flat=True):
        submitted[at.hour] += 1
        of_day[at.date()] += 1
    assert sum(submitted[9:18]) > 3 * sum(submitted[0:7])
    # A month has four or five weekends, and part of the first day and of the last.
    whole_days = sorted(of_day.items())[1:-1]
    at_weekends, on_working_days = (
        [count for day, count in whole_days if (day.weekday() >= 5) is is_weekend] for is_weekend in (True, False)
    )
    assert 2 * mean(at_weekends) < mean(on_working_days)


def test_work_waits_for_causes_of_every_kind(month: UsageAnswer) -> None:
    totals = month.totals
    sums = totals.sums
    hours = {str(cause): (sums[f"waiting_{cause}"] or 0) / 3_600_000 for cause in WaitCause}
    assert totals.waiting == sum(sums[f"waiting_{cause}"] or 0 for cause in WaitCause) > 0
    assert min(hours.values()) > 1, hours
    assert hours["order"] < sum(hours.values()) / 2
    # What waits at one moment depends on the hour of the week, so the causes of two days are counted.
    now = database_time()
    recent = read_usage(SYSTEM, UsageQuestion(now - timedelta(days=2), now, UsageKey.BACKEND, Bucket.HOUR)).totals.sums
    assert sum((recent[f"waiting_{cause}"] or 0) > 3_600_000 for cause in WaitCause) >= 3, recent
    assert any(build_pending_queue(backend).gangs for backend in Backend.objects.all())


def _waits(month: ClusterMonth) -> Iterator[tuple[int, int]]:
    """From when to when each gang waited, in seconds of the month."""
    since = {number: job.submit for number, job in enumerate(month.jobs)}
    changes = [(step.time, step.job, step.action) for step in month.steps if step.action != "move"]
    changes += [(end, job, "end") for job, (end, _) in month.ends.items()]
    for time, job, action in sorted(changes, key=lambda change: change[0]):
        if action in {"start", "end"} and job in since:
            yield since.pop(job), time
        elif action not in {"start", "end"}:
            since[job] = time
    yield from ((begin, LENGTH * DAY) for begin in since.values())


def test_what_waits_is_what_people_put_up_with_whenever_the_demo_is_started() -> None:
    """It may be started at any hour of the last week of its file."""
    waits = [wait for month in read_month().clusters.values() for wait in _waits(month)]
    counts, oldest = [], []
    for now in range(SHORTEST * DAY, LENGTH * DAY, HOUR):
        ages = [now - since for since, until in waits if since <= now < until]
        counts.append(len(ages))
        oldest.append(max(ages, default=0))
    assert 10 <= median(counts) <= 30
    assert max(counts) <= 50
    assert median(oldest) >= 4 * HOUR
    assert max(oldest) <= 2 * DAY
    assert counts.count(0) <= len(counts) / 20


def test_teams_borrow_and_take_back() -> None:
    """An event says who took back what from whom, and the person who lost the GPUs has another attempt since."""
    actions = dict(Decision.objects.order_by().values_list("action").annotate(Count("pk")))
    assert actions["reclaim"] >= 50
    assert actions["preempt"] >= 10
    reclaim = Decision.objects.filter(action="reclaim").latest("time")
    assert reclaim.for_workflow is not None
    assert "reclaims" in reclaim.message
    assert reclaim.for_workflow.name in reclaim.message
    assert reclaim.for_workflow.pool_id != reclaim.workflow.pool_id
    assert Task.objects.filter(group=reclaim.group, status="FAILED_PREEMPTED", exit_code=3006).exists()
    entry = AuditEntry.objects.filter(object=f"preemption/{reclaim.workflow.name}").first()
    assert entry is not None
    assert entry.owner == reclaim.workflow.submitted_by.username
    lately = Decision.objects.filter(action__in=["reclaim", "preempt"], time__gt=database_time() - timedelta(days=3))
    assert lately.values("workflow__submitted_by").distinct().count() >= 3


def test_a_drain_is_over_and_others_go_on() -> None:
    trail = AuditEntry.objects.filter(object="pool/recsys--abtest").order_by("id").values_list("action", "time")
    (deleted, begin), (archived, end) = list(trail)[-2:]
    assert (deleted, archived) == ("subpool.deleting", "subpool.archived")
    assert end - begin > timedelta(hours=12)
    assert Workflow.objects.filter(pool__name="recsys--abtest").latest("end_time").end_time == end
    for subpool in Pool.objects.filter(subpool_state="DELETING"):
        assert Workflow.objects.active().filter(pool=subpool).exists()


def test_a_node_was_lost_with_its_work() -> None:
    node = Node.objects.get(name=LOST_NODE)
    span = OfflineSpan.objects.get(node_id=node.pk)
    assert span.until is not None
    lost = Task.objects.filter(node_name=LOST_NODE, status=TaskStatus.FAILED_BACKEND_ERROR)
    assert set(lost.values_list("end_time", flat=True)) == {span.since}
    during = Q(start_time__lt=span.until) & Q(end_time__gt=span.since)
    assert not Task.objects.filter(during, node_name=LOST_NODE).exists()
    assert Task.objects.filter(node_name=LOST_NODE, start_time__gte=span.until).exists()


def test_what_waits_for_people() -> None:
    now = database_time()
    assert ApprovalRequest.objects.get().state == ApprovalState.WAITING
    temporary = Pool.objects.get(quota_until__isnull=False)
    assert (temporary.name, temporary.last_quota, temporary.quota_after) == ("vision--pose", 10, 6)
    assert temporary.quota_until is not None
    assert now < temporary.quota_until < now + timedelta(days=8)
    assert temporary.quota_until.strftime("%a %H:%M") == "Fri 18:00"


def test_the_inboxes_tell_of_the_last_week() -> None:
    """The planner begins there; the trail is not final before the transaction of this module, so the rest is asked."""
    begin = NoticeProgress.objects.get()
    told = AuditEntry.objects.filter(transaction=begin.transaction, pk__gt=begin.entry)
    assert told.earliest("id").time > database_time() - timedelta(days=7, minutes=10)
    assert AuditEntry.objects.get(pk=begin.entry).time < database_time() - timedelta(days=7)
    actions = set(told.values_list("action", flat=True))
    assert {"workflow.ended", "workflow.preempted", "subpool.deleting", "approval.requested"} <= actions


def test_the_audit_trail_is_that_of_several_people_in_the_order_of_time() -> None:
    by_people = AuditEntry.objects.exclude(action__startswith="workflow.")
    assert by_people.exclude(actor="system").values("actor").distinct().count() >= 12
    first = AuditEntry.objects.get(object=f"user/{OPERATOR}", action="user.created")
    times = list(AuditEntry.objects.filter(id__gte=first.pk).order_by("id").values_list("time", flat=True))
    assert times == sorted(times)
    # As many entries about work as there were changes.
    submitted = AuditEntry.objects.filter(action="workflow.submitted").count()
    assert submitted == Workflow.objects.count()


def test_gpu_quotas_have_a_week_of_use() -> None:
    for quota in GpuQuota.objects.all():
        samples = GpuUsageSample.objects.filter(namespace=quota.namespace).order_by("at")
        assert samples[0].at < database_time() - timedelta(days=6)
        assert samples.values("workers").distinct().count() >= 2


@pytest.mark.parametrize("days", samples([2], [30]))
def test_an_unchanged_replay_finds_the_same_month(days: int) -> None:
    """Every start, move and preemption at the same time on the same nodes, so the waits are those of Usage."""
    now = database_time()
    since = now - timedelta(days=days)
    for backend in Backend.objects.filter(name__in=["dgx", "hopper"]):
        history = read_history(backend, since, now)
        past = HistoryClock(history).run()
        assert first_difference(history.steps, past.steps) is None
        waits = sorted(job.first_wait / 10**6 for job in past.jobs.values() if job.first_wait is not None)
        assert waits


def test_the_receipts_of_the_month_are_those_of_the_engine() -> None:
    """With the rule, the numbers of both queues and the work that could also have gone; nothing was left out."""
    evictions = Interruption.objects.exclude(cause__in=["node", "evicted", "person"])
    assert evictions.count() > 400
    assert {"priority", "reclaim", "fair_share"} <= set(evictions.values_list("cause", flat=True))
    for each in evictions.select_related("pool", "for_workflow__pool"):
        loser, taker = each.numbers["loser"], each.numbers["taker"]
        assert (loser["pool"], taker["pool"]) == (each.pool.name, each.for_workflow.pool.name)
        assert loser["used"] > 0
        assert None not in {loser["quota"], loser["share"], taker["quota"], taker["share"]}
        if each.cause == "reclaim":
            assert loser["used"] > loser["quota"]
    assert evictions.exclude(spared=[]).count() > 100
    before = Receipt.objects.count()
    write_past_receipts()
    assert Receipt.objects.count() == before


def test_the_file_of_the_month_is_what_the_engine_makes() -> None:
    """Its first two days, made again."""
    made, kept = make_month(month_start(database_time()), days=2), read_month()
    for name, month in made.clusters.items():
        until = 2 * DAY
        assert month.jobs == [job for job in kept.clusters[name].jobs if job.submit < until]
        assert len(month.steps) > 100
        assert month.steps == [step for step in kept.clusters[name].steps if step.time <= until]
        assert month.causes == [cause for cause in kept.clusters[name].causes if cause.time <= until]
        for job, end in month.ends.items():
            assert kept.clusters[name].ends[job] == end


def test_a_forecast_of_the_month_knows_nothing_of_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made of the first hours alone, and with more after them: the same forecasts."""
    monkeypatch.setattr(month_forecasts, "SINCE", 0)
    monkeypatch.setattr(month_forecasts, "FUTURES", 2)
    short, long = (
        make_month(month_start(database_time()), days=days, clusters=["hopper"]).clusters["hopper"].forecasts
        for days in (1.4, 1.5)
    )
    assert len(short) > 3
    assert short == [each for each in long if each.time <= 1.4 * DAY]


def test_the_past_forecasts_are_scored_by_what_came() -> None:
    scored = StartForecast.objects.filter(scored_at__isnull=False, wait__isnull=False)
    assert scored.count() > 80
    starts = dict(
        Decision.objects.filter(action="start", group_id__in=scored.values("group_id"))
        .order_by()
        .values_list("group_id")
        .annotate(Min("time"))
    )
    for row in scored:
        assert row.first_made_at == row.made_at
        assert row.scored_at == starts[row.group_id]
        assert row.wait == (row.scored_at - row.made_at).total_seconds()
        assert row.first_waits == sorted(row.first_waits)
    running = Group.objects.filter(status="RUNNING")
    assert not StartForecast.objects.filter(scored_at=None, group_id__in=running.values("pk")).exists()


def test_waiting_work_says_how_forecasts_like_its_own_came_true() -> None:
    found = []
    for backend in Backend.objects.filter(name__in=CLUSTERS):
        facts, known = read_forecast_facts(backend), read_calibration(backend)
        found += [] if facts is None else [known.record(place) for place in facts.places().values()]
    assert max(record.like for record in found) >= FEWEST_LIKE
    assert all(0 <= record.in_time <= record.like for record in found)


def test_each_time_limit_of_the_month_ends_the_work_that_it_limits() -> None:
    """The wait since the last eviction, and all the time since the first start, waits between attempts included."""
    for month in read_month().clusters.values():
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for step in month.steps:
            if step.action == "start":
                first.setdefault(step.job, step.time)
            last[step.job] = step.time
        for number, (end, status) in month.ends.items():
            job = month.jobs[number]
            if status == TaskStatus.FAILED_QUEUE_TIMEOUT:
                assert end == last.get(number, job.submit) + job.queue_timeout
            elif status == TaskStatus.FAILED_EXEC_TIMEOUT:
                assert end == first[number] + job.exec_timeout


def test_a_second_demo_changes_nothing() -> None:
    before = (Pool.objects.count(), Workflow.objects.count(), User.objects.count())
    seed_demo()
    assert (Pool.objects.count(), Workflow.objects.count(), User.objects.count()) == before
