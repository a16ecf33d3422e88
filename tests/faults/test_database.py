"""PostgreSQL is restarted, crashes, or does not answer, under clients that repeat what was not acknowledged."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import httpx
import pytest

from osmo_admin.ops import process_commands
from tests.faults.installation import FaultyInstallation
from tests.faults.load import ClientLoad, run_load
from tests.support import factories

pytestmark = pytest.mark.fault

OUTAGE = 1.0


def fast(house: FaultyInstallation) -> None:
    house.servers.stop_database(signal.SIGINT)
    time.sleep(OUTAGE)
    house.servers.start_database()


def immediate(house: FaultyInstallation) -> None:
    house.servers.stop_database(signal.SIGQUIT)
    time.sleep(OUTAGE)
    house.servers.start_database()


def crash(house: FaultyInstallation) -> None:
    """One of its processes is killed: PostgreSQL throws everybody out and recovers by itself."""
    victim = house.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'osmo-admin' LIMIT 1")[0]["pid"]
    os.kill(victim, signal.SIGKILL)


def polite(answer: httpx.Response) -> None:
    """A refusal for now, in the house's own words."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    body = answer.json()
    assert body["error_code"] == "SERVER"
    assert body["message"].endswith(".")
    assert body.keys() >= {"message", "error_code", "workflow_id", "details"}


def every_key_once(house: FaultyInstallation, found: ClientLoad) -> None:
    """What was acknowledged is there once, and nothing else is."""
    assert sorted(house.workflow_statuses(found.name)) == sorted(found.acknowledged.values())
    assert house.audited_workflows("workflow.submitted", found.name) == sorted(found.acknowledged.values())
    house.wait_all_running(found.name)
    house.assert_consistent()


@pytest.mark.parametrize("how", [fast, immediate, crash])
def test_restarted_under_load(house: FaultyInstallation, how: Callable[[FaultyInstallation], None]) -> None:
    pids, pools = house.process_ids(), house.make_pools(2)
    with run_load(house, pools) as found:
        found.wait_for_growth(house)
        how(house)
        began = time.monotonic()
        found.wait_for_growth(house)
        print(f"served again after {time.monotonic() - began:.1f} s, {len(found.error_responses)} refusals")
    for answer in found.error_responses:
        if answer.status_code == 409:  # the first request with this key was still being thrown out
            assert answer.headers["Retry-After"]
        else:
            polite(answer)
    assert found.lost_connections == 0
    if how is not crash:
        assert found.error_responses
    every_key_once(house, found)
    house.wait_serving(pools[0])
    house.wait_ready()
    assert house.process_ids() == pids
    assert "Internal Server Error" not in house.children[process_commands.WEB].log.read_text()


def test_every_door_says_that_the_database_is_away(house: FaultyInstallation) -> None:
    client, browser = house.admin_http, house.anonymous_client()
    browser.cookies.set("sessionid", "somebodys")
    house.servers.stop_database(signal.SIGINT)
    for method, path in [
        ("GET", "/api/workflow"),
        ("GET", "/api/audit"),
        ("GET", "/api/configs/pool/team/subpool"),
        ("POST", "/api/configs/pool/team/subpool"),
        ("POST", "/api/pool/team/workflow"),
    ]:
        polite(client.request(method, path, json={} if method == "POST" else None))
        polite(browser.request(method, path, json={} if method == "POST" else None))
    polite(browser.post("/api/auth/jwt/access_token", json={"token": "whatever"}))
    for path in ["/", "/login/", "/pools/pool/"]:
        page = browser.get(path)
        assert page.status_code == 503, (path, page.text[:300])
        assert int(page.headers["Retry-After"]) >= 1
        assert "database" in page.text
        assert "<html" in page.text
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    house.servers.start_database()
    assert client.get("/api/workflow").status_code == 200
    assert browser.get("/login/").status_code in {200, 302}


def test_a_tree_that_somebody_holds_is_refused_in_time(house: FaultyInstallation) -> None:
    held, free = house.make_pools(2)
    name = house.unique_name("held")
    with house.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", held):
        answer = house.submit(held, name)  # answered although nobody lets go
        polite(answer)
        assert "nothing was changed" in answer.json()["message"]
        assert house.submit(free, house.unique_name("beside")).status_code == 200
    assert house.workflow_statuses(name) == {}
    assert house.submit(held, name).status_code == 200
    house.wait_all_running(name)
    house.assert_consistent()


def test_a_table_that_somebody_holds_is_refused_in_time(house: FaultyInstallation) -> None:
    pool = house.make_pools(1)[0]
    client = house.admin_http
    with house.hold_tables("scheduling_workflow", "pools_user"):
        for ask in [lambda: client.get("/api/workflow"), lambda: house.submit(pool, "held")]:
            polite(ask())
    house.wait_serving(pool)
    assert house.admin_http.get("/api/workflow").status_code == 200


def test_a_key_whose_request_still_waits(house: FaultyInstallation) -> None:
    """The same key again, while its first request waits for a lock: neither twice nor for ever."""
    pool, name = house.make_pools(1)[0], house.unique_name("keyed")
    ask = {"json": {"file": factories.workflow_file(name)}, "headers": {"Idempotency-Key": name}}
    with house.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pool):
        with pytest.raises(httpx.ReadTimeout):
            house.admin_http.post(f"/api/pool/{pool}/workflow", timeout=0.3, **ask)  # type: ignore[arg-type]
        again = house.admin_http.post(f"/api/pool/{pool}/workflow", **ask)  # type: ignore[arg-type]
        assert again.status_code in {409, 503}
        assert again.headers["Retry-After"]
    last = house.wait_until(lambda: _accepted(house, pool, ask), what="the key is free again")
    assert house.workflow_statuses(name).keys() == {last}
    house.assert_consistent()


def _accepted(house: FaultyInstallation, pool: str, ask: dict[str, object]) -> str | None:
    answer = house.admin_http.post(f"/api/pool/{pool}/workflow", **ask)  # type: ignore[arg-type]
    return answer.json()["name"] if answer.status_code == 200 else None
