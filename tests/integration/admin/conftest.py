"""Users with a browser session, and two pools `team` (100 GPUs, subpools a 30, b 20) and `other` (50, subpool x 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from pools.domain.people.roles import Actor
from pools.models import User
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from scheduling.services.workflows.submission import Submission, submit
from tests.support.world import apply_change, make_subpool, make_user, sign_in

SignedIn = Callable[[str], Client]
"""What the fixture `as_person` is: the browser of one of these users."""
ROLES_BY_USER = {
    "root": ("osmo-admin",),
    "viewer": ("osmo-viewer",),
    "chief": ("osmo-team-admin",),
    "worker": ("osmo-team-user",),
    "stranger": ("osmo-other-admin",),
    "prefix": ("osmo-team-admin-admin", "osmo-team-admin-user"),  # the roles of a pool that is called team-admin
    "nobody": (),
}
WORKFLOW = """\
workflow:
  name: {name}
  resources:
    default: {{gpu: {gpus}, cpu: 1, memory: 1Gi, storage: 1Gi}}
  tasks:
  - {{name: main, image: ubuntu, command: [sleep, "60"]}}
"""


def actor_named(username: str) -> Actor:
    """The actor of a user."""
    return User.objects.get(username=username).as_actor()


def submit_workflow(
    leaf: str, *, gpus: int = 8, username: str = "worker", name: str = "work", priority: str = "NORMAL"
) -> Workflow:
    """Submit a workflow of one task; it starts not before `world.reconcile`."""
    wanted = Submission(file=WORKFLOW.format(name=name, gpus=gpus), priority=Priority(priority))
    receipt = submit(actor=actor_named(username), pool=leaf, submission=wanted)
    assert receipt.workflow is not None
    return receipt.workflow


@pytest.fixture(scope="module")
def pools_and_users_once(module_data: Callable[[], Any]) -> None:
    with module_data():
        make_pools_and_users()


def make_pools_and_users() -> None:
    """The two pools and their users."""
    nodes = [{"name": f"n{number}", "gpus": 8} for number in range(20)]
    apply_change(PutBackend(name="sim", body={"namespace": "ns", "auto_end": False, "nodes": nodes}))
    for name, gpus in (("team", 100), ("other", 50), ("team-admin", 10)):
        resources = {"gpu": {"guarantee": gpus, "maximum": -1, "weight": 1}}
        apply_change(PutPool(name=name, body={"backend": "sim", "resources": resources}))
    for name, roles in ROLES_BY_USER.items():
        make_user(name, *roles)
    make_subpool("team", "a", 30)
    make_subpool("team", "b", 20)
    make_subpool("other", "x", 10)


@pytest.fixture
def pools_and_users(pools_and_users_once: None, db: None) -> None:
    """The two pools and their users, made once for a module."""


@pytest.fixture
def as_person(pools_and_users: None) -> SignedIn:
    """A browser in which the user is signed in."""
    return sign_in


def confirm_change(client: Client, address: str, **typed: Any) -> Any:
    """Post the preview and the confirmation; the last response. Raises AssertionError without a preview."""
    preview = client.post(address, {**typed, "step": "preview"}, follow=True)
    assert preview.status_code == 200, preview.content.decode()
    assert "hidden" in preview.context, preview.content.decode()
    return client.post(address, {**preview.context["hidden"], "step": "confirm"})
