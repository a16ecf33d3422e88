"""People at the API."""

from __future__ import annotations

import pytest
from django.test import Client

from pools.models import Pool, User
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.world import ModuleData


@pytest.fixture
def caller(db: None) -> Callers:
    """Makes a user with these roles (or takes the one there is) and calls as that user, each time with a new token."""

    def make(name: str, *roles: str, token_roles: tuple[str, ...] | None = None) -> ApiClient:
        if not User.objects.filter(username=name).exists():
            world.make_user(name, *roles)
        return world.call_as(name, token_roles=token_roles)

    return make


@pytest.fixture(scope="module")
def admin_once(module_data: ModuleData) -> ApiClient:
    with module_data():
        world.make_user("root", "osmo-admin")
        return world.call_as("root")


@pytest.fixture
def admin(admin_once: ApiClient, db: None) -> ApiClient:
    """An osmo-admin called root, made once for a module."""
    return ApiClient(admin_once.token)


@pytest.fixture
def viewer(caller: Callers) -> ApiClient:
    """Reads all, changes nothing."""
    return caller("vera", "osmo-viewer")


@pytest.fixture
def nobody(caller: Callers) -> ApiClient:
    """Signed in, without a role."""
    return caller("nils")


@pytest.fixture
def anonymous(db: None) -> ApiClient:
    """Nobody."""
    return ApiClient()


@pytest.fixture
def browser(db: None) -> Client:
    """A browser of the platform admin of `world.admin_actor`."""
    return world.sign_in(world.admin_actor().username)


@pytest.fixture(scope="module")
def team_once(module_data: ModuleData) -> Pool:
    with module_data():
        return world.make_pool("team", 100, a=30)


@pytest.fixture
def team(team_once: Pool, db: None) -> Pool:
    """Pool `team` of 100 GPUs on a simulated backend of 4 × 32, made once for a module; nothing ends by itself; subpool
    `a` has 30."""
    return Pool.objects.get(pk=team_once.pk)


@pytest.fixture
def split_team(team: Pool) -> Pool:
    """The same with subpool `b` of 20."""
    world.make_subpool("team", "b", 20)
    return team
