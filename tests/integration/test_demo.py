"""The demo is the installation that the documentation describes, and its ledger is consistent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import Count
from django.utils import timezone

from pools.domain.people.roles import SYSTEM
from pools.models import Cohort, GpuQuota, Node, Pool, User
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.reason_codes import WaitCause
from scheduling.models import Group, Workflow
from scheduling.selectors.reports.usage import UsageQuestion, read_usage
from scheduling.services.demo import DAYS, seed_demo
from scheduling.services.seed import seed_defaults
from scheduling.services.verify import verify

pytestmark = pytest.mark.django_db


def test_the_demo_is_as_large_and_as_lively_as_documented() -> None:
    seed_defaults()
    seed_demo()
    assert Pool.objects.roots().count() == 12
    states = dict(Pool.objects.filter(parent__isnull=False).values_list("subpool_state").annotate(Count("pk")))
    assert sum(states.values()) == 40
    assert set(states) == {"ACTIVE", "DELETING", "ARCHIVED"}
    assert User.objects.count() == 25
    assert Workflow.objects.count() == 300
    statuses = set(Workflow.objects.values_list("status", flat=True))
    assert {"PENDING", "RUNNING", "COMPLETED", "FAILED", "FAILED_CANCELED"} <= statuses
    moments = Workflow.objects.order_by("submit_time").values_list("submit_time", flat=True)
    assert (moments[299] - moments[0]).days in range(DAYS - 5, DAYS + 1)
    assert set(Cohort.objects.values_list("name", "parent__name")) == {
        ("company", None), ("products", "company"), ("science", "company"),
    }  # fmt: skip
    assert Pool.objects.filter(cohort__isnull=False).count() == 6
    conditions = {quota.namespace: quota.alert_since is not None for quota in GpuQuota.objects.all()}
    assert conditions == {"inference-prod": True, "inference-dev": False}
    assert Group.objects.exclude(gang=None).count() == 1
    assert verify() == []
    _check_usage()

    _check_run_times()


def _check_run_times() -> None:
    """Forecasts learn from past work how long present work will run."""
    ended, running = (
        sorted(
            Workflow.objects.filter(
                start_time__isnull=False, end_time__isnull=is_running, simulated_runtime__isnull=False
            ).values_list("simulated_runtime", flat=True)
        )
        for is_running in (False, True)
    )
    for runs in (ended, running):
        assert runs[len(runs) // 10] < timedelta(hours=2) < runs[len(runs) // 2] < timedelta(days=1)
    for work in Workflow.objects.filter(start_time__isnull=False, end_time__isnull=False):
        assert work.end_time - work.start_time <= work.simulated_runtime


def _check_usage() -> None:
    """A month of use is on record; its states add up to the capacity, and its use to the attempts."""
    now = timezone.now()
    question = UsageQuestion(now - timedelta(days=30), now, UsageKey.BACKEND, Bucket.DAY)
    totals = read_usage(SYSTEM, question).totals
    states = ("guaranteed", "low_inside", "over_quota", "idle", "unallocated", "offline")
    assert sum(totals.sums[state] or 0 for state in states) == totals.sums["capacity"]
    gpus = sum(Node.objects.values_list("gpus", flat=True))
    assert totals.sums["capacity"] == pytest.approx(gpus * 30 * 86_400_000)
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
    assert totals.used > (totals.sums["capacity"] or 0) / 20
    assert (totals.wait_p90 or 0) > (totals.wait_p50 or 0) > 0
    assert totals.waiting == sum(totals.sums[f"waiting_{cause}"] or 0 for cause in WaitCause) > 0


def test_a_second_demo_changes_nothing() -> None:
    seed_demo()
    before = (Pool.objects.count(), Workflow.objects.count(), User.objects.count())
    seed_demo()
    assert (Pool.objects.count(), Workflow.objects.count(), User.objects.count()) == before
