"""GPU quota in the browser, on desk and phone, in both colours, without a serious finding of axe."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pools.domain.changes.gpu_allocations import AllocateWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}


@pytest.fixture
def namespace(scene: PoolScene) -> str:
    """A namespace near its cap, with workers in every state and a history."""
    name = scene.stack.unique_name("space")
    with scene.stack.orm():
        from datetime import timedelta

        from django.utils import timezone

        from pools.domain.people.roles import SYSTEM
        from pools.models import GpuUsageSample
        from pools.services.gpu_quota.gpu_allocations import allocate, release
        from pools.services.gpu_quota.gpu_quotas import put_gpu_quota, sample_usage
        from tests.unit.gpu_quota.builders import make_amounts

        total = {"requests": {"tflops": "250", "vram": "64Gi"}, "limits": {"tflops": "400", "vram": "128Gi"}}
        single = {"maxRequests": {"tflops": "100", "vram": "16Gi"}, "maxGPUCount": 8}
        put_gpu_quota(
            PutGpuQuota(namespace=name, spec={"total": total | {"maxWorkers": 20}, "single": single}), actor=SYSTEM
        )
        for number in range(4):
            worker = AllocateWorker(
                namespace=name,
                id=f"worker-{number}",
                workload=f"inference-{number % 2}",
                request=make_amounts(24, "6Gi"),
                limit=make_amounts(40, "8Gi"),
                count=2,
                assume=number == 3,
            )
            allocate(worker, actor=SYSTEM)
            sample_usage()
        allocate(
            AllocateWorker(
                namespace=name, id="big", workload="training", request=make_amounts(50, "4Gi"), limit=make_amounts(60)
            ),
            actor=SYSTEM,
        )
        release(ReleaseWorker(namespace=name, id="worker-0"), actor=SYSTEM)
        for age, sample in enumerate(GpuUsageSample.objects.filter(namespace=name).order_by("-at"), 1):
            GpuUsageSample.objects.filter(pk=sample.pk).update(at=timezone.now() - timedelta(days=1.5 * age))
        total["requests"]["tflops"] = "150"
        put_gpu_quota(
            PutGpuQuota(namespace=name, spec={"total": total | {"maxWorkers": 20}, "single": single}), actor=SYSTEM
        )
        put_gpu_quota(PutGpuQuota(namespace=scene.stack.unique_name("wide"), spec={}), actor=SYSTEM)
    return name


def test_every_page(scene: PoolScene, namespace: str, signed_in: Callable[..., Any]) -> None:
    tab = signed_in("admin", viewport=DESK)
    here = f"/gpu-quotas/{namespace}"
    pages = {
        "gpu-list": "/gpu-quotas",
        "gpu-namespace": f"{here}",
        "gpu-room": f"{here}?request_tflops=30&count=2",
        "gpu-configure": f"{here}/configuration",
        "gpu-create": "/gpu-quotas/-/create",
        "gpu-delete": f"{here}/delete",
        "gpu-release": f"{here}/release/big/",
    }
    for name, address in pages.items():
        page = tab.open(address)
        expect(page, address).to_have_title(re.compile("OSMO Admin$"))
        assert page.evaluate("document.documentElement.scrollWidth") <= DESK["width"], address
        tab.screenshot(name)
        tab.assert_accessible_on_desk_and_phone()


def test_calculating_free_capacity_and_setting_a_cap(
    scene: PoolScene, namespace: str, signed_in: Callable[..., Any]
) -> None:
    page = signed_in("admin").open("/gpu-quotas")
    page.get_by_role("link", name=namespace).click()
    page.get_by_label("TFLOPS requested, per GPU").fill("10")
    page.get_by_role("button", name="Calculate").click()
    page.get_by_role("status").filter(has_text="more such worker").wait_for()
    page.wait_for_url("**#capacity-title")  # so the answer is visible, on a phone too
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Workers", exact=True).fill("-3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("whole number from 0").first.wait_for()
    page.get_by_label("Workers", exact=True).fill("3")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("table", name="Fields that change"), "Workers")
    page.get_by_role("button", name="Save the quota").click()
    page.get_by_text(f"The quota of namespace {namespace} was saved.").wait_for()
