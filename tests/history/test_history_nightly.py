"""Long histories: one with many faults that must be right, and one for each planted fault, which must be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.run import PLANTS
from tests.history.test_history import run_history

pytestmark = [pytest.mark.fault, pytest.mark.nightly]
OPERATIONS, FAULTS = 10_000, 200

RULES = {
    "lock": {
        "gpu_quota_never_over_its_cap",
        "states_move_as_promised",
        "quotas_promised_once",
        "counters_equal_recounts",
    },
    "trigger": {"counters_equal_recounts", "audit_is_complete"},
    "replay": {"repeats_are_answered_alike"},
    "snapshot": {"reads_show_one_state", "answers_agree_with_themselves"},
    "reservations": {"nothing_waits_on_an_idle_cluster", "nothing_is_stuck"},
}
"""Promises of which at least one is broken by the planted fault."""


@pytest.mark.timeout(5400)
def test_a_long_history_under_faults_is_right(tmp_path: Path) -> None:
    done = run_history("--operations", OPERATIONS, "--faults", FAULTS, "--out", tmp_path, seconds=5300)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-3000:]}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_found(plant: str, tmp_path: Path) -> None:
    done = run_history(
        "--seed", 6, "--operations", 2000, "--faults", 5, "--plant", plant, "--out", tmp_path, seconds=890
    )  # fmt: skip
    assert done.returncode == 1, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert any(f"{rule}: " in done.stdout for rule in RULES[plant]), done.stdout
