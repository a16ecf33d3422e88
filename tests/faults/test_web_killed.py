"""The web server dies during requests: one key creates one workflow, and the server restarts by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.faults.load import run_load
from tests.support import world

pytestmark = pytest.mark.fault


def test_its_process_is_killed_under_load_and_comes_back(installation: FaultyInstallation) -> None:
    """Also again and again: tests/ops/test_serve_web.py."""
    pids, pools = installation.process_ids(), installation.make_pools(2)
    with run_load(installation, pools) as found:
        found.wait_for_growth(installation)
        installation.kill_children_of(process_commands.WEB)
        began = time.monotonic()
        found.wait_for_growth(installation)
        print(f"served again after {time.monotonic() - began:.1f} s, {found.lost_connections} lost")
    assert found.lost_connections > 0
    assert {answer.status_code for answer in found.error_responses} <= {409, 503}
    assert sorted(installation.workflow_statuses(found.name)) == sorted(found.acknowledged.values())
    installation.wait_all_running(found.name)
    installation.assert_consistent()
    assert installation.process_ids() == pids


def test_its_processes_end_when_the_parent_alone_is_killed(installation: FaultyInstallation) -> None:
    children = installation.child_pids_of(process_commands.WEB)
    assert children
    os.kill(installation.process_ids()[process_commands.WEB], signal.SIGKILL)
    installation.wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), seconds=10, what="nobody serves the port"
    )
    with pytest.raises(httpx.ConnectError):
        installation.admin_client.get("/health")


def test_all_of_it_is_killed_under_load_and_started_again(installation: FaultyInstallation) -> None:
    pools = installation.make_pools(2)
    with run_load(installation, pools) as found:
        found.wait_for_growth(installation)
        installation.kill_process(process_commands.WEB)
        installation.restart_dead()
        found.wait_for_growth(installation)
    assert found.lost_connections > 0
    assert {answer.status_code for answer in found.error_responses} <= {409, 503}
    assert sorted(installation.workflow_statuses(found.name)) == sorted(found.acknowledged.values())
    installation.wait_all_running(found.name)
    installation.assert_consistent()


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_killed_in_the_middle_of_one_request(installation: FaultyInstallation, moment: str) -> None:
    pool, name = installation.make_pools(1)[0], installation.unique_name("middle")
    request = {"json": {"file": world.workflow_file(name)}, "headers": {"Idempotency-Key": name}}
    address = f"/api/pool/{pool}/workflow"
    if moment == "before the commit":
        with installation.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pool):
            with pytest.raises(httpx.ReadTimeout):
                installation.admin_client.post(address, timeout=0.2, **request)  # type: ignore[arg-type]
            installation.wait_until(installation.is_waiting_for_lock, what="the request waits")
            installation.kill_children_of(process_commands.WEB)
        assert installation.workflow_statuses(name) == {}
    else:
        assert installation.admin_client.post(address, **request).status_code == 200  # type: ignore[arg-type]
        installation.kill_children_of(process_commands.WEB)  # the answer counts as lost

    def repeat_request() -> httpx.Response | None:
        try:
            answer = installation.admin_client.post(address, **request)  # type: ignore[arg-type]
        except httpx.TransportError:
            return None
        return answer if answer.status_code == 200 else None

    answer = installation.wait_until(repeat_request, what="the repeated request is answered")
    assert installation.workflow_statuses(name).keys() == {answer.json()["name"]}
    assert ("Idempotent-Replayed" in answer.headers) == (moment == "after the commit")
    installation.wait_all_running(name)
    installation.assert_consistent()
