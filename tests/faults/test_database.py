"""PostgreSQL is restarted, crashes, or does not answer, under clients that repeat unacknowledged requests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import httpx
import pytest

from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.faults.load import ClientLoad, run_load
from tests.support import world

pytestmark = pytest.mark.fault

OUTAGE = 1.0


def stop_fast(installation: FaultyInstallation) -> None:
    installation.servers.stop_database(signal.SIGINT)
    time.sleep(OUTAGE)
    installation.servers.start_database()


def stop_immediately(installation: FaultyInstallation) -> None:
    installation.servers.stop_database(signal.SIGQUIT)
    time.sleep(OUTAGE)
    installation.servers.start_database()


def crash_one_process(installation: FaultyInstallation) -> None:
    """One of its processes is killed: PostgreSQL ends all sessions and recovers by itself."""
    victim = installation.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'osmo-admin' LIMIT 1")[0][
        "pid"
    ]
    os.kill(victim, signal.SIGKILL)


def assert_unavailable(answer: httpx.Response) -> None:
    """A temporary refusal with our own error body."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    body = answer.json()
    assert body["error_code"] == "SERVER"
    assert body["message"].endswith(".")
    assert body.keys() >= {"message", "error_code", "workflow_id", "details"}


def assert_each_key_once(installation: FaultyInstallation, found: ClientLoad) -> None:
    """Each acknowledged workflow exists once, and no other does."""
    assert sorted(installation.workflow_statuses(found.name)) == sorted(found.acknowledged.values())
    assert installation.audited_workflows("workflow.submitted", found.name) == sorted(found.acknowledged.values())
    installation.wait_all_running(found.name)
    installation.assert_consistent()


@pytest.mark.parametrize("how", [stop_fast, stop_immediately, crash_one_process])
def test_restarted_under_load(installation: FaultyInstallation, how: Callable[[FaultyInstallation], None]) -> None:
    pids, pools = installation.process_ids(), installation.make_pools(2)
    with run_load(installation, pools) as found:
        found.wait_for_growth(installation)
        how(installation)
        began = time.monotonic()
        found.wait_for_growth(installation)
        print(f"served again after {time.monotonic() - began:.1f} s, {len(found.error_responses)} refusals")
    for answer in found.error_responses:
        if answer.status_code == 409:  # the first request with this key was still being rolled back
            assert answer.headers["Retry-After"]
        else:
            assert_unavailable(answer)
    assert found.lost_connections == 0
    if how is not crash_one_process:
        assert found.error_responses
    assert_each_key_once(installation, found)
    installation.wait_serving(pools[0])
    installation.wait_ready()
    assert installation.process_ids() == pids
    assert "Internal Server Error" not in installation.children[process_commands.WEB].log.read_text()


def test_every_entry_point_reports_that_the_database_is_away(installation: FaultyInstallation) -> None:
    client, browser = installation.admin_client, installation.anonymous_client()
    browser.cookies.set("sessionid", "somebodys")
    installation.servers.stop_database(signal.SIGINT)
    for method, path in [
        ("GET", "/api/workflow"),
        ("GET", "/api/audit"),
        ("GET", "/api/configs/pool/team/subpool"),
        ("POST", "/api/configs/pool/team/subpool"),
        ("POST", "/api/pool/team/workflow"),
    ]:
        assert_unavailable(client.request(method, path, json={} if method == "POST" else None))
        assert_unavailable(browser.request(method, path, json={} if method == "POST" else None))
    assert_unavailable(browser.post("/api/auth/jwt/access_token", json={"token": "whatever"}))
    for path in ["/", "/login/", "/pools"]:
        page = browser.get(path)
        assert page.status_code == 503, (path, page.text[:300])
        assert int(page.headers["Retry-After"]) >= 1
        assert "database" in page.text
        assert "<html" in page.text
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    installation.servers.start_database()
    assert client.get("/api/workflow").status_code == 200
    assert browser.get("/login/").status_code in {200, 302}


def test_a_locked_tree_is_refused_in_time(installation: FaultyInstallation) -> None:
    held, free = installation.make_pools(2)
    name = installation.unique_name("held")
    with installation.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", held):
        answer = installation.submit(held, name)  # answered although the lock is not released
        assert_unavailable(answer)
        assert "nothing was changed" in answer.json()["message"]
        assert installation.submit(free, installation.unique_name("other")).status_code == 200
    assert installation.workflow_statuses(name) == {}
    assert installation.submit(held, name).status_code == 200
    installation.wait_all_running(name)
    installation.assert_consistent()


def test_a_locked_table_is_refused_in_time(installation: FaultyInstallation) -> None:
    pool = installation.make_pools(1)[0]
    client = installation.admin_client
    with installation.hold_tables("scheduling_workflow", "pools_user"):
        for send in [lambda: client.get("/api/workflow"), lambda: installation.submit(pool, "held")]:
            assert_unavailable(send())
    installation.wait_serving(pool)
    assert installation.admin_client.get("/api/workflow").status_code == 200


def test_a_key_whose_request_still_waits(installation: FaultyInstallation) -> None:
    """The same key again, while its first request waits for a lock: the work is done once, and the answer comes."""
    pool, name = installation.make_pools(1)[0], installation.unique_name("keyed")
    request = {"json": {"file": world.workflow_file(name)}, "headers": {"Idempotency-Key": name}}
    with installation.hold_locks("SELECT FROM pools_pool WHERE name = %s FOR UPDATE", pool):
        with pytest.raises(httpx.ReadTimeout):
            installation.admin_client.post(f"/api/pool/{pool}/workflow", timeout=0.3, **request)  # type: ignore[arg-type]
        again = installation.admin_client.post(f"/api/pool/{pool}/workflow", **request)  # type: ignore[arg-type]
        assert again.status_code in {409, 503}
        assert again.headers["Retry-After"]
    last = installation.wait_until(lambda: _submit_work(installation, pool, request), what="the key is free again")
    assert installation.workflow_statuses(name).keys() == {last}
    installation.assert_consistent()


def _submit_work(installation: FaultyInstallation, pool: str, request: dict[str, object]) -> str | None:
    answer = installation.admin_client.post(f"/api/pool/{pool}/workflow", **request)  # type: ignore[arg-type]
    return answer.json()["name"] if answer.status_code == 200 else None
