"""The web server dies in the middle of requests: a key is one workflow, and the server comes back by itself."""

from __future__ import annotations

import time

import httpx
import pytest

from osmo_admin.ops import commands
from tests.faults.house import FaultyHouse
from tests.faults.load import load
from tests.support import houses

pytestmark = pytest.mark.fault


def test_its_process_is_killed_under_load_and_comes_back(house: FaultyHouse) -> None:
    # Stands first in this file: granian gives up a process that dies twice in 5.5 s, and leaves it to its supervisor.
    pids, pools = house.pids(), house.pools(2)
    with load(house, pools) as found:
        found.grows(house)
        house.kill_workers_of(commands.WEB)
        began = time.monotonic()
        found.grows(house)
        print(f"served again after {time.monotonic() - began:.1f} s, {found.lost_connections} lost")
    assert found.lost_connections > 0
    assert {answer.status_code for answer in found.troubles} <= {409, 503}
    assert sorted(house.statuses(found.name)) == sorted(found.acknowledged.values())
    house.all_run(found.name)
    house.is_right()
    assert house.pids() == pids


def test_all_of_it_is_killed_under_load_and_started_again(house: FaultyHouse) -> None:
    pools = house.pools(2)
    with load(house, pools) as found:
        found.grows(house)
        house.kill(commands.WEB)
        house.mend()
        found.grows(house)
    assert found.lost_connections > 0
    assert {answer.status_code for answer in found.troubles} <= {409, 503}
    assert sorted(house.statuses(found.name)) == sorted(found.acknowledged.values())
    house.all_run(found.name)
    house.is_right()


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_killed_in_the_middle_of_one_request(house: FaultyHouse, moment: str) -> None:
    pool, name = house.pools(1)[0], house.name("middle")
    ask = {"json": {"file": houses.spec(name)}, "headers": {"Idempotency-Key": name}}
    address = f"/api/pool/{pool}/workflow"
    if moment == "before the commit":
        with house.holding("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pool):
            with pytest.raises(httpx.ReadTimeout):
                house.requester.post(address, timeout=0.2, **ask)  # type: ignore[arg-type]
            house.until(house.waits_for_lock, what="the request waits")
            house.kill_workers_of(commands.WEB)
        assert house.statuses(name) == {}
    else:
        assert house.requester.post(address, **ask).status_code == 200  # type: ignore[arg-type]
        house.kill_workers_of(commands.WEB)  # the answer is taken for lost

    def repeated() -> httpx.Response | None:
        house.mend()  # should granian give up, for it has died in the test before
        try:
            answer = house.requester.post(address, **ask)  # type: ignore[arg-type]
        except httpx.TransportError:
            return None
        return answer if answer.status_code == 200 else None

    answer = house.until(repeated, what="the repeated request is answered")
    assert house.statuses(name).keys() == {answer.json()["name"]}
    assert ("Idempotent-Replayed" in answer.headers) == (moment == "after the commit")
    house.all_run(name)
    house.is_right()
