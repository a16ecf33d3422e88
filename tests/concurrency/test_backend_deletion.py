"""A cluster is deleted while the process of its agents writes rows about it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections

from pools.domain.changes.backends import DeleteBackend
from pools.models import Backend
from scheduling.models import ClusterState
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_SECONDS = 0.5


def test_a_row_of_its_agent_that_comes_meanwhile_does_not_stop_the_deletion() -> None:
    backend = world.make_backend("lab")
    outcomes: list[Exception | None] = []

    def write_state() -> None:
        try:
            ClusterState.objects.create(backend_id=backend.pk)
            outcomes.append(None)
        except IntegrityError as problem:
            outcomes.append(problem)
        finally:
            connections.close_all()

    agent = threading.Thread(target=write_state)

    def write_meanwhile(execute: Any, sql: str, *rest: Any) -> Any:
        """Just before the cluster's own row goes, when its dependent rows are known."""
        if sql.startswith('DELETE FROM "pools_backend"'):
            agent.start()
            agent.join(WAIT_SECONDS)
        return execute(sql, *rest)

    with connection.execute_wrapper(write_meanwhile):
        world.apply_change(DeleteBackend(name="lab"))
    agent.join(30)
    assert not Backend.objects.filter(name="lab").exists()
    assert not ClusterState.objects.exists()
    (refused,) = outcomes
    assert isinstance(refused, IntegrityError)
