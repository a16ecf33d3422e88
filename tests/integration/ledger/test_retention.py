"""The retention of the audit trail: old entries go, and everything that is computed from the rest still holds."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pgtrigger
import pytest
from django.conf import settings
from django.db import transaction
from django.db.models import F
from psycopg import errors as pg

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import AuditEntry, IdempotencyRecord, Pool, User
from pools.services.changes.audit_retention import BATCH_SIZE, delete_old_entries, retention_days
from pools.services.changes.idempotency import purge_old_records
from scheduling.services.usage import rebuild
from scheduling.services.verify import verify
from tests.support.world import apply_change, make_pool, make_user, submit_workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def retention(monkeypatch: pytest.MonkeyPatch, ledger: None) -> None:
    """A record of use of 30 days, and an audit trail of 90."""
    monkeypatch.setattr(
        settings, "OSMO", dataclasses.replace(settings.OSMO, usage_retention_days=30, audit_retention_days=90)
    )


def age(**filters: object) -> None:
    """Make entries 200 days older."""
    with transaction.atomic(), pgtrigger.ignore("pools.AuditEntry:append_only"):
        AuditEntry.objects.filter(**filters).update(time=F("time") - timedelta(days=200))


def test_the_newest_old_entry_of_each_object_stays_and_verify_is_clean() -> None:
    make_pool("team", a=2)
    for quota in (3, 4, 5):
        apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=quota))
    submit_workflow(make_user("ann", "osmo-team-user"), "team")
    old = AuditEntry.objects.count()
    age()
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=6))
    rebuild()
    assert list(verify()) == []
    deleted = delete_old_entries()
    assert 0 < deleted < old
    (part,) = Pool.objects.filter(parent__isnull=False)
    quotas = (
        AuditEntry.objects.filter(object=f"pool/{part.name}").order_by("id").values_list("after__last_quota", flat=True)
    )
    assert list(quotas) == [5, 6]
    assert AuditEntry.objects.filter(object="pool/team").count() == 1
    assert not AuditEntry.objects.filter(object__startswith="workflow/").exists()
    assert list(verify()) == []
    rebuild()
    assert list(verify()) == []
    assert delete_old_entries() == 0


def test_without_a_retention_nothing_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "OSMO", dataclasses.replace(settings.OSMO, audit_retention_days=0))
    age()
    assert (retention_days(), delete_old_entries()) == (None, 0)


def test_the_days_of_the_record_of_use_are_kept_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "OSMO", dataclasses.replace(settings.OSMO, audit_retention_days=1))
    assert retention_days() == 31


def test_everybody_else_is_refused() -> None:
    age()
    with pytest.raises(Exception, match="append-only") as refused, transaction.atomic():
        AuditEntry.objects.all().delete()
    assert isinstance(refused.value.__cause__, pg.Error)


def test_more_than_a_batch_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BATCH_SIZE > 2
    monkeypatch.setattr("pools.services.changes.audit_retention.BATCH_SIZE", 2)
    make_pool("team")
    user = make_user("ann", "osmo-team-user")
    for _ in range(5):
        submit_workflow(user, "team")
    age(object__startswith="workflow/")
    count = AuditEntry.objects.filter(object__startswith="workflow/").count()
    assert delete_old_entries() == count
    assert count > 4


def test_stored_answers_go_after_their_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("ann")
    user = User.objects.get(username="ann")
    IdempotencyRecord.objects.create(
        user_id=user.pk, token_id=0, address="/x", key="k", fingerprint="f", response="[]", size=2
    )
    IdempotencyRecord.objects.update(created_at=F("created_at") - timedelta(hours=3))
    assert purge_old_records() == 0
    monkeypatch.setattr(settings, "OSMO", dataclasses.replace(settings.OSMO, idempotency_hours=2))
    assert purge_old_records() == 1
