"""The installation that fault tests break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.installation import FaultyInstallation
from tests.support import database, services
from tests.support.own_servers import KillableServers
from tests.support.services import Services


@pytest.fixture(scope="package")
def worker_installation(
    worker_id: str,
    template: Services,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: Any,
) -> Iterator[FaultyInstallation]:
    """One installation for the fault tests of this pytest worker. It stops after the last of them, because its
    processes would take time from all tests that follow."""
    number = services.current_services(None if worker_id == "master" else worker_id).number
    installation = FaultyInstallation(
        KillableServers.create(number),
        tmp_path_factory.mktemp("faults"),
        django_db_blocker,
        database.template_url(template),
    )
    try:
        installation.start()
        yield installation
    finally:
        installation.stop()


@pytest.fixture
def installation(worker_installation: FaultyInstallation) -> FaultyInstallation:
    """The installation with all processes running at the start of each test, also after a test that killed some."""
    worker_installation.restart_dead()
    worker_installation.wait_ready()
    return worker_installation
