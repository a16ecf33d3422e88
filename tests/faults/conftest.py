"""The house that fault tests break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.installation import FaultyInstallation
from tests.support import services
from tests.support.own_servers import KillableServers


@pytest.fixture(scope="session")
def broken_before(
    worker_id: str,
    django_test_environment: None,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: Any,
) -> Iterator[FaultyInstallation]:
    """One house for the fault tests of this pytest worker."""
    number = services.current_services(None if worker_id == "master" else worker_id).number
    house = FaultyInstallation(KillableServers.create(number), tmp_path_factory.mktemp("faults"), django_db_blocker)
    try:
        house.start()
        yield house
    finally:
        house.stop()


@pytest.fixture
def house(broken_before: FaultyInstallation) -> FaultyInstallation:
    """The house, whole at the start of each test: what one test left dead does not spoil the next."""
    broken_before.restart_dead()
    broken_before.wait_ready()
    return broken_before
