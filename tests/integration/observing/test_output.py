"""How the output of observed work is read: only pods that are there are named."""

from __future__ import annotations

import pytest

from tests.integration.observing.test_seen_work import Lab
from tests.support import world


@pytest.fixture
def lab(db: None) -> Lab:
    found = Lab()
    world.make_user("root", "osmo-admin")
    world.make_pool("team", 8, on=found.backend)
    found.firm.add_pod_group("train", namespace="science", queue="team", pods=2)
    for number in (0, 1):
        found.firm.start(f"train-{number}", f"n{number + 1}", namespace="science")
    found.look()
    return found


def commands() -> list[str]:
    browser = world.sign_in("root")
    text = b"".join(browser.get("/api/workflow/train-1/logs").streaming_content).decode()
    page = browser.get("/workflows/train-1").content.decode()
    found = [line for line in text.splitlines() if line.startswith("kubectl")]
    assert all(line in page for line in found)
    assert page.count("kubectl") == len(found)
    return [line.removeprefix("kubectl -n science logs ") for line in found]


def test_pods_that_run_are_named_by_their_own_names(lab: Lab) -> None:
    assert commands() == ["train-0 --all-containers", "train-1 --all-containers"]
    lab.firm.preempt("train-0", namespace="science")
    lab.look()
    assert commands() == ["train-1 --all-containers"], "a preempted pod goes"
    lab.firm.delete("train-0", namespace="science")
    lab.firm.add_member("train", "train-9", namespace="science", node="n1")
    lab.look()
    assert commands() == ["train-9 --all-containers", "train-1 --all-containers"]


def test_an_ended_pod_has_an_output_until_it_is_deleted(lab: Lab) -> None:
    for number in (0, 1):
        lab.firm.set_phase(f"train-{number}", "Succeeded", namespace="science")
    lab.look()
    assert lab.states() == {}
    assert commands() == ["train-0 --all-containers", "train-1 --all-containers"]


def test_deleted_work_has_no_output(lab: Lab) -> None:
    for number in (0, 1):
        lab.firm.delete(f"train-{number}", namespace="science")
    lab.look()
    assert commands() == []
