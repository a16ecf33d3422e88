"""Two people see the same preview and confirm: the first change is made, the second person is shown it before theirs.

The second confirmation overtakes the first one at the worst moment: after the page compared what was seen, and before
the service has its locks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from pools.admin.confirm_flow import ConfirmFlow
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool
from pools.models import Backend, Cohort, GpuQuota, Pool, User
from scheduling.selectors.cluster.scheduler_settings import current_config
from tests.support import world

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


@dataclass(frozen=True)
class Flow:
    """A page, what Ann and Bob type there, and what is read afterwards."""

    address: str
    ann: dict[str, Any]
    bob: dict[str, Any]
    read: Callable[[], object]
    before: Callable[[], object] = lambda: None
    says: str = "changed meanwhile"


def _subpools() -> None:
    world.make_subpool("team", "a", 2)
    world.make_subpool("team", "b", 2)


def _cohort_with_a_pool() -> None:
    world.apply_change(PutCohort(name="group", body={}))
    world.apply_change(PatchPool(name="team", patch={"cohort": "group"}))


def _quotas() -> dict[str, int | None]:
    return dict(Pool.objects.filter(parent__name="team").values_list("subpool_name", "last_quota"))


FLOWS = {
    "new cluster": Flow(
        "/clusters/-/create",
        {"name": "lab", "namespace": "x", "nodes": "m 4"},
        {"name": "lab", "namespace": "y", "nodes": "m 8"},
        lambda: Backend.objects.get(name="lab").namespace,
        says="exists",
    ),
    "cluster": Flow(
        "/clusters/sim/configuration",
        {"namespace": "ns", "nodes": "m 4"},
        {"namespace": "ns", "nodes": "m 8"},
        lambda: [node.gpus for node in Backend.objects.get(name="sim").nodes.all()],
    ),
    "new GPU quota": Flow(
        "/gpu-quotas/-/create",
        {"namespace": "lab", "max_workers": "3"},
        {"namespace": "lab", "max_workers": "5"},
        lambda: GpuQuota.objects.get(namespace="lab").spec["total"]["maxWorkers"],
        says="has a quota already",
    ),
    "GPU quota": Flow(
        "/gpu-quotas/team-a/configuration",
        {"max_workers": "3"},
        {"max_workers": "5"},
        lambda: GpuQuota.objects.get(namespace="team-a").spec["total"]["maxWorkers"],
        before=lambda: world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": 1}})),
    ),
    "new user": Flow(
        "/users/-/create",
        {"username": "kim", "roles": ["osmo-viewer"]},
        {"username": "kim", "roles": ["osmo-team-user"]},
        lambda: User.objects.get(username="kim").as_actor().roles,
        says="exists",
    ),
    "roles": Flow(
        "/users/lee/roles",
        {"roles": ["osmo-viewer"]},
        {"roles": ["osmo-team-user"]},
        lambda: User.objects.get(username="lee").as_actor().roles,
        before=lambda: world.make_user("lee"),
    ),
    "new cohort": Flow(
        "/cohorts/-/create",
        {"name": "lab", "nominal": "3", "weight": "1"},
        {"name": "lab", "nominal": "5", "weight": "1"},
        lambda: Cohort.objects.get(name="lab").quotas,
        says="exists",
    ),
    "new subpool": Flow(
        "/pools/team/subpools/create",
        {"subpool_name": "a", "quota": "3"},
        {"subpool_name": "a", "quota": "5"},
        _quotas,
        says="exists",
    ),
    "quotas of subpools": Flow(
        "/pools/team/quotas",
        {"quota-a": "3", "quota-b": "2"},
        {"quota-a": "5", "quota-b": "2"},
        _quotas,
        before=_subpools,
    ),
    "pool": Flow(
        "/pools/team/configuration",
        {"guarantee": "30", "weight": "1"},
        {"guarantee": "40", "weight": "1"},
        lambda: Pool.objects.get(name="team").guarantee,
    ),
    "settings": Flow(
        "/settings",
        {"minutes": "20", "retries": "5"},
        {"minutes": "30", "retries": "5"},
        lambda: current_config().subpool_drain_interval_minutes,
    ),
}


@pytest.fixture
def browsers() -> tuple[Client, Client]:
    """Ann's and Bob's, with a pool `team` of 50 GPUs on cluster `sim`."""
    world.make_pool("team", 50)
    return _browser("ann"), _browser("bob")


def _browser(name: str) -> Client:
    world.make_user(name, "osmo-admin")
    browser = Client()
    browser.force_login(User.objects.get(username=name), "django.contrib.auth.backends.ModelBackend")
    return browser


def _preview(browser: Client, address: str, typed: dict[str, Any]) -> dict[str, Any]:
    """What the button of the preview sends."""
    page = browser.post(address, {**typed, "step": "preview"}, follow=True)
    assert page.status_code == 200, _text(page)
    return {**page.context["hidden"], "step": "confirm"}


def _text(page: HttpResponse) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", page.content.decode()))


def _overtake(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """`other` happens when the service of the next confirmation begins its transaction."""
    make, begin, waiting = ConfirmFlow._make, transaction.Atomic.__enter__, [other]
    is_made = False

    def make_noted(flow: Any, *arguments: Any) -> Any:
        nonlocal is_made
        is_made = True
        return make(flow, *arguments)

    def begin_after(atomic: Any) -> Any:
        if is_made and waiting:
            waiting.pop()()
        return begin(atomic)

    monkeypatch.setattr(ConfirmFlow, "_make", make_noted)
    monkeypatch.setattr(transaction.Atomic, "__enter__", begin_after)


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_nobody_overwrites_what_they_have_not_seen(
    browsers: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch, flow: Flow
) -> None:
    flow.before()
    ann, bob = browsers
    of_ann, of_bob = _preview(ann, flow.address, flow.ann), _preview(bob, flow.address, flow.bob)
    made: list[object] = []

    def bob_confirms() -> None:
        answer = bob.post(flow.address, of_bob)
        assert answer.status_code == 302, _text(answer)  # type: ignore[arg-type]
        assert "preview" not in answer.headers["Location"]
        made.append(flow.read())

    _overtake(monkeypatch, bob_confirms)
    answer = ann.post(flow.address, of_ann, follow=True)
    assert flow.read() == made[0]
    text = _text(answer)  # type: ignore[arg-type]
    assert "does not know the filter" not in text
    assert re.search(flow.says, text), text


def test_the_deletion_of_a_cohort_spares_a_child_that_was_not_shown(
    browsers: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    _cohort_with_a_pool()
    world.make_pool("late", 5)
    hidden = _preview(browsers[0], "/cohorts/group/delete", {"orphan": "on"})
    _overtake(monkeypatch, lambda: world.apply_change(PatchPool(name="late", patch={"cohort": "group"})))
    answer = browsers[0].post("/cohorts/group/delete", hidden, follow=True)
    assert "changed meanwhile" in _text(answer)  # type: ignore[arg-type]
    assert Pool.objects.get(name="late").cohort.name == "group"
