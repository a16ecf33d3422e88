"""The demo is the installation that the documentation describes, and its ledger is consistent."""

from __future__ import annotations

import pytest
from django.db.models import Count

from pools.models import Cohort, GpuQuota, Pool, User
from scheduling.models import Group, Workflow
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


def test_a_second_demo_changes_nothing() -> None:
    seed_demo()
    before = (Pool.objects.count(), Workflow.objects.count(), User.objects.count())
    seed_demo()
    assert (Pool.objects.count(), Workflow.objects.count(), User.objects.count()) == before
