"""The web server dies in the middle of requests: a key is one workflow, and the server comes back by itself."""

from __future__ import annotations

import time

import httpx
import pytest

from osmo_admin.ops import process_commands
from tests.faults.installation import FaultyInstallation
from tests.faults.load import run_load
from tests.support import factories

pytestmark = pytest.mark.fault


def test_its_process_is_killed_under_load_and_comes_back(house: FaultyInstallation) -> None:
    # Stands first in this file: granian gives up a process that dies twice in 5.5 s, and leaves it to its supervisor.
    pids, pools = house.process_ids(), house.make_pools(2)
    with run_load(house, pools) as found:
        found.wait_for_growth(house)
        house.kill_children_of(process_commands.WEB)
        began = time.monotonic()
        found.wait_for_growth(house)
        print(f"served again after {time.monotonic() - began:.1f} s, {found.lost_connections} lost")
    assert found.lost_connections > 0
    assert {answer.status_code for answer in found.error_responses} <= {409, 503}
    assert sorted(house.workflow_statuses(found.name)) == sorted(found.acknowledged.values())
    house.wait_all_running(found.name)
    house.assert_consistent()
    assert house.process_ids() == pids


def test_all_of_it_is_killed_under_load_and_started_again(house: FaultyInstallation) -> None:
    pools = house.make_pools(2)
    with run_load(house, pools) as found:
        found.wait_for_growth(house)
        house.kill_process(process_commands.WEB)
        house.restart_dead()
        found.wait_for_growth(house)
    assert found.lost_connections > 0
    assert {answer.status_code for answer in found.error_responses} <= {409, 503}
    assert sorted(house.workflow_statuses(found.name)) == sorted(found.acknowledged.values())
    house.wait_all_running(found.name)
    house.assert_consistent()


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_killed_in_the_middle_of_one_request(house: FaultyInstallation, moment: str) -> None:
    pool, name = house.make_pools(1)[0], house.unique_name("middle")
    ask = {"json": {"file": factories.workflow_file(name)}, "headers": {"Idempotency-Key": name}}
    address = f"/api/pool/{pool}/workflow"
    if moment == "before the commit":
        with house.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pool):
            with pytest.raises(httpx.ReadTimeout):
                house.admin_http.post(address, timeout=0.2, **ask)  # type: ignore[arg-type]
            house.wait_until(house.is_waiting_for_lock, what="the request waits")
            house.kill_children_of(process_commands.WEB)
        assert house.workflow_statuses(name) == {}
    else:
        assert house.admin_http.post(address, **ask).status_code == 200  # type: ignore[arg-type]
        house.kill_children_of(process_commands.WEB)  # the answer is taken for lost

    def repeated() -> httpx.Response | None:
        house.restart_dead()  # should granian give up, for it has died in the test before
        try:
            answer = house.admin_http.post(address, **ask)  # type: ignore[arg-type]
        except httpx.TransportError:
            return None
        return answer if answer.status_code == 200 else None

    answer = house.wait_until(repeated, what="the repeated request is answered")
    assert house.workflow_statuses(name).keys() == {answer.json()["name"]}
    assert ("Idempotent-Replayed" in answer.headers) == (moment == "after the commit")
    house.wait_all_running(name)
    house.assert_consistent()
