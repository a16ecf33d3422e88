"""The database constraints of GPU quota, which apply to every writer, raw SQL included."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, CommitWorker, ReleaseWorker
from pools.domain.gpu_quota.workers import GpuWorker, WorkerTotals, totals_of_worker
from pools.domain.people.roles import SYSTEM
from pools.models import GpuAllocation, GpuUsage
from pools.selectors.gpu_namespace import read_namespaces
from pools.services.gpu_quota.gpu_allocations import adjust
from tests.support import world
from tests.unit.gpu_quota.builders import make_amounts

pytestmark = pytest.mark.django_db


def create_allocation(name: str = "w1", **more: Any) -> GpuAllocation:
    return world.apply_change(
        AllocateWorker(namespace="ns", id=name, request=make_amounts(5, "1Gi"), limit=make_amounts(7), count=2, **more)
    )


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("UPDATE pools_gpuusage SET workers = 7", "cannot be edited"),
        ("UPDATE pools_gpuallocation SET state = 'assumed', expires_at = now()", "cannot become assumed"),
        ("UPDATE pools_gpuallocation SET namespace = 'other'", "cannot change"),
        ("UPDATE pools_gpuallocation SET expires_at = now()", "gpu_allocation_state"),
        ("UPDATE pools_gpuallocation SET count = 0", "gpu_allocation_amounts"),
        ("UPDATE pools_gpuallocation SET request_tflops = -1", "gpu_allocation_amounts"),
        ("TRUNCATE pools_gpuallocation", "cannot be truncated"),
        ("TRUNCATE pools_gpuusage CASCADE", "cannot be truncated"),
    ],
)
def test_raw_sql_is_refused(sql: str, sentence: str) -> None:
    create_allocation()
    world.check_deferred_constraints()
    with pytest.raises(DatabaseError, match=sentence), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


def test_a_released_allocation_cannot_change() -> None:
    create_allocation()
    world.apply_change(ReleaseWorker(namespace="ns", id="w1"))
    with pytest.raises(DatabaseError, match="was released and cannot change"), transaction.atomic():
        GpuAllocation.objects.update(count=3)


def test_counters_follow_raw_rows_too() -> None:
    row = create_allocation()
    copies = [
        GpuAllocation(namespace=name, name=f"c{number}", request_tflops=Decimal(3), count=2)
        for number in range(3)
        for name in ("ns", "new")
    ]
    GpuAllocation.objects.bulk_create(copies)
    assert (GpuUsage.objects.get(pk="ns").requests_tflops, GpuUsage.objects.get(pk="new").workers) == (28, 3)
    GpuAllocation.objects.filter(namespace="ns").update(count=1)
    assert GpuUsage.objects.get(pk="ns").requests_tflops == 14
    GpuAllocation.objects.filter(pk=row.pk).update(state="released")
    assert GpuUsage.objects.get(pk="ns").workers == 3
    GpuAllocation.objects.exclude(pk=row.pk).update(state="released")
    GpuAllocation.objects.all().delete()
    assert {usage.workers for usage in GpuUsage.objects.all()} == {0}


def test_a_wrong_counter_cannot_become_negative() -> None:
    create_allocation()
    with world.triggers_off():
        GpuUsage.objects.update(workers=0)
    with pytest.raises(DatabaseError, match="gpu_usage_never_negative"), transaction.atomic():
        GpuAllocation.objects.update(state="released")


operations = st.lists(
    st.tuples(
        st.sampled_from(["allocate", "assume", "commit", "adjust", "release"]),
        st.integers(0, 3),
        st.integers(0, 2**63 - 1),
        st.integers(0, 5000),
        st.integers(1, 128),
    ),
    max_size=12,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations)
def test_counters_are_always_the_sum_of_live_rows(steps: list[tuple[str, int, int, int, int]]) -> None:
    with transaction.atomic():
        model: dict[str, tuple[str, GpuWorker]] = {}
        for operation, which, vram, milli, count in steps:
            name = f"w{which}"
            worker = GpuWorker(make_amounts(f"{milli}m", str(vram)), make_amounts(1, f"{milli}m"), count)
            state = model[name][0] if name in model else None
            if operation in {"allocate", "assume"} and state is None:
                world.apply_change(
                    AllocateWorker(
                        namespace="ns",
                        id=name,
                        request=worker.request,
                        limit=worker.limit,
                        count=worker.count,
                        assume=operation == "assume",
                    )
                )
                model[name] = ("assumed" if operation == "assume" else "committed", worker)
            elif operation == "commit" and state is not None:
                world.apply_change(CommitWorker(namespace="ns", id=name))
                model[name] = ("committed", model[name][1])
            elif operation == "adjust" and state is not None:
                body = {"request": worker.request.as_dict(), "limit": worker.limit.as_dict()}
                adjust(AdjustWorker.from_json({"namespace": "ns", "id": name, **body}), actor=SYSTEM)
                model[name] = (model[name][0], GpuWorker(worker.request, worker.limit, model[name][1].count))
            elif operation == "release" and state is not None:
                world.apply_change(ReleaseWorker(namespace="ns", id=name))
                del model[name]
        facts = read_namespaces(["ns"])["ns"]
        for state, found in (("committed", facts.committed), ("assumed", facts.assumed)):
            expected = sum(
                (totals_of_worker(worker) for how, worker in model.values() if how == state), start=WorkerTotals()
            )
            assert (found.workers, found.requests.millis, found.limits.millis) == (
                expected.workers,
                expected.requests.millis,
                expected.limits.millis,
            )
        transaction.set_rollback(True)
