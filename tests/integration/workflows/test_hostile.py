"""Hostile files, sent to a web process with little memory and little time: clear refusals, and never a 500."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support import hostile, resource_limits, world
from tests.support.services import Services
from tests.support.stack import LOCK_TIMEOUT_MS, SECRET_KEY

MEBIBYTES, CPU_SECONDS = 768, 120
SIMULATE, SUBMIT = "/api/simulate", "/api/pool/team/workflow"
ANSWERED = {"a chain of 2,000 cohorts", "a chain of 2,000 queues", "fine numbers"}
ACCEPTED = {"nothing"}
"""An empty body is an empty scenario."""

SendTexts = Callable[[Mapping[str, str], Mapping[str, str]], list[dict[str, Any]]]


@pytest.fixture
def send_texts(running_services: Services, ledger: None) -> SendTexts:
    """POSTs scenarios and submissions, one after the other, to one process as the admin of pool `team`; returns the
    answers to both by the names of the texts."""
    world.make_pool("team", 64)
    world.make_user("tess", "osmo-team-admin")
    env = {
        "DATABASE_URL": running_services.database_url(running_services.database_name("test")),
        "REDIS_URL": running_services.redis_url(),
        "OSMO_SECRET_KEY": SECRET_KEY,
        "OSMO_PUBLIC_URL": "http://localhost",
        "OSMO_LOCK_TIMEOUT_MS": str(LOCK_TIMEOUT_MS),
        "DJANGO_SETTINGS_MODULE": "osmo_admin.settings",
    }

    def send(scenarios: Mapping[str, str], manifests: Mapping[str, str]) -> list[dict[str, Any]]:
        bodies = [hostile.submission(text) for text in manifests.values()]
        cases = [{"path": SIMULATE, "kind": "application/yaml", "text": text} for text in scenarios.values()]
        cases += [{"path": SUBMIT, "kind": "application/json", "text": text} for text in bodies]
        answers = resource_limits.run_limited(
            "tests.support.hostile:knock",
            [{"name": "tess", **case} for case in cases],
            mebibytes=MEBIBYTES, cpu_seconds=CPU_SECONDS, env=env,
        )  # fmt: skip
        simulated, submitted = answers[: len(scenarios)], answers[len(scenarios) :]
        return [dict(zip(scenarios, simulated, strict=True)), dict(zip(manifests, submitted, strict=True))]

    return send


def assert_refused(answer: dict[str, Any], error_codes: set[str], what: str) -> None:
    assert 400 <= answer["status"] < 500, (what, answer)
    body = answer["body"]
    assert body["error_code"] in error_codes, (what, answer)
    assert body["message"], what
    assert all(each["message"] for each in body["details"]), (what, answer)


def _assert_hostile_files_are_answered(
    send_texts: SendTexts, scenarios: Mapping[str, str], manifests: Mapping[str, str], changed: int, seed: int
) -> None:
    """Hostile files, and so many good ones with something changed; one process gets all of them."""
    changed_scenarios = {str(n): text for n, text in enumerate(hostile.mutated_scenarios(changed, seed))}
    changed_manifests = {str(n): text for n, text in enumerate(hostile.mutated_manifests(changed, seed))}
    simulated, submitted = send_texts({**scenarios, **changed_scenarios}, {**manifests, **changed_manifests})
    for name, answer in simulated.items():
        if name in ANSWERED | ACCEPTED:
            assert answer["status"] == 200, (name, answer)
        elif name not in changed_scenarios or answer["status"] != 200:
            assert_refused(answer, {"SCENARIO"}, changed_scenarios.get(name, name))
            assert answer["body"]["details"], name
    for name, answer in submitted.items():
        if name not in changed_manifests or answer["status"] != 200:
            assert_refused(answer, {"USER", "USAGE", "SUBMISSION"}, changed_manifests.get(name, name))
            assert name in changed_manifests or answer["body"]["details"], name


@pytest.mark.timeout(900)
def test_some_hostile_files(send_texts: SendTexts) -> None:
    """The readers get all of them each day, with the same limits (`tests/unit`)."""
    scenarios = {
        name: text for n, (name, text) in enumerate(hostile.SCENARIOS.items()) if n % 5 == 1 or name in ACCEPTED
    }
    assert scenarios.keys() & ANSWERED
    some = dict(list(hostile.MANIFESTS.items())[::5])
    _assert_hostile_files_are_answered(send_texts, scenarios, some, changed=8, seed=5)


@pytest.mark.nightly
@pytest.mark.timeout(4500)
def test_all_hostile_files(send_texts: SendTexts) -> None:
    _assert_hostile_files_are_answered(send_texts, hostile.SCENARIOS, hostile.MANIFESTS, changed=1500, seed=6)
