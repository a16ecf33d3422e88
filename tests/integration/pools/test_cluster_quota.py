"""A GPU quota that an object of a cluster owns."""

from __future__ import annotations

import pytest

from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.errors import Conflict
from pools.domain.people.roles import SYSTEM
from pools.models import GpuQuota
from pools.services.gpu_quota.gpu_quotas import apply_cluster_quota, drop_cluster_quota
from tests.support.world import apply_change

pytestmark = pytest.mark.django_db

SOURCE, OTHER = "kubernetes:osmo/first", "kubernetes:osmo/second"
SPEC = {"total": {"maxWorkers": 9}}
NEGATIVE, UNKNOWN = {"total": {"maxWorkers": -1}}, {"total": {"workers": 1}}


def apply(spec: object, source: str = SOURCE) -> bool:
    return apply_cluster_quota(actor=SYSTEM, namespace="ns", source=source, spec=spec)


def drop(source: str) -> bool:
    return drop_cluster_quota(actor=SYSTEM, namespace="ns", source=source)


def test_an_object_is_applied_when_it_differs() -> None:
    assert (apply(NEGATIVE), GpuQuota.objects.count()) == (False, 0), "nothing valid was there before"
    assert (apply(SPEC), apply(SPEC)) == (True, False)
    # Each way between two sets of faults, whichever sorts first.
    for spec in (NEGATIVE, UNKNOWN, NEGATIVE):
        assert (apply(spec), apply(spec)) == (True, False)
        row = GpuQuota.objects.get()
        assert (row.spec["total"]["maxWorkers"], len(row.faults)) == (9, 1), "the last valid caps stay in force"
    assert apply(SPEC)
    assert GpuQuota.objects.get().faults == []


def test_only_its_own_object_takes_a_quota_away() -> None:
    assert not drop(SOURCE)
    apply(SPEC)
    with pytest.raises(Conflict):
        apply(SPEC, OTHER)
    assert (drop(OTHER), GpuQuota.objects.count()) == (False, 1)
    assert (drop(SOURCE), GpuQuota.objects.count()) == (True, 0)
    apply_change(PutGpuQuota(namespace="ns", spec=SPEC))
    assert (drop(SOURCE), GpuQuota.objects.count()) == (False, 1), "the API owns it"
