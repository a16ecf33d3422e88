"""A pool with a subpool, and a user of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import psycopg
import pytest
from django.db import connection

from pools.models import Pool
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.workflows.recorded_story import Story
from tests.support.api_client import ApiClient
from tests.support.world import ModuleData, call_as, make_user


@pytest.fixture(scope="module")
def alice_once(team_once: Pool, module_data: ModuleData) -> ApiClient:
    with module_data():
        make_user("alice", "osmo-team-user")
        return call_as("alice")


@pytest.fixture
def alice(alice_once: ApiClient, team: Pool) -> ApiClient:
    """Submits to `team`."""
    return ApiClient(alice_once.token)


@pytest.fixture
def reconcile_pool(team: Pool) -> Callable[[], list[dict[str, Any]]]:
    """Runs scheduling and returns its steps."""

    def run() -> list[dict[str, Any]]:
        answer = reconcile_backend(team.backend_id)
        assert answer["settled"]
        steps: list[dict[str, Any]] = answer["steps"]
        return steps

    return run


@pytest.fixture
def other_connection(db: None) -> Iterator[psycopg.Connection[Any]]:
    """A second connection to the database of the test."""
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as other:
        yield other


@pytest.fixture(scope="module")
def story_once(module_data: ModuleData) -> Story:
    with module_data():
        return Story()


@pytest.fixture
def story(story_once: Story, db: None) -> Story:
    """Made once for a module."""
    return copy(story_once)
