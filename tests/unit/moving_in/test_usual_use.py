"""Quotas from what accounts usually used: `osmo-admin import slurm --guarantee history`."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduling.history.proof.past_use import read_past_use
from scheduling.moving_in.options import ALL_KINDS, GuaranteeFrom, HistoryUse, PastUse
from scheduling.moving_in.result import PartOutcome
from tests.support.imports import gpu, imported, pool, told
from tests.unit.replay.test_proof import job, run
from tests.unit.replay.test_sacct import HEADER

TOP = "Cluster - 'tux'\nParent - 'root'\n"
DUMP = f"{TOP}Account - 'bio':GrpTRES=gres/gpu=6\nAccount - 'chem'\nAccount - 'ops'\n"
NODES = "NodeName=n1 Gres=gpu:8\nNodeName=n2 Gres=gpu:8\n"


def use(usual: int, kind: str = "") -> dict[str, PastUse]:
    """The use of one kind."""
    return {kind: PastUse(usual, usual / 2, usual + 1)}


def uses(**teams: dict[str, PastUse]) -> HistoryUse:
    """The use of several teams."""
    return HistoryUse(teams)


def test_the_usual_use_is_the_least_number_of_95_percent_of_the_time(tmp_path: Path) -> None:
    month = tmp_path / "month.txt"
    rows = [job(n, n, 1, Account="Bio", AllocTRES=f"gres/gpu={gpus}") for n, gpus in enumerate([2, 4, 4, 4, 4])]
    rows += [job(9, 0, 5, Account="chem", AllocTRES="gres/gpu=1"), job(10, 4, 1, Account="chem")]
    month.write_text(HEADER + "".join(rows))
    found = read_past_use(str(month)).teams
    assert (found["bio"][""].usual, found["bio"][""].mean, found["bio"][""].most) == (4, 3.6, 4)
    month.write_text(HEADER + job(1, 0, 5, AllocTRES="gres/gpu=1") + row_of_six_minutes())
    assert read_past_use(str(month)).teams["bio"][""] == PastUse(1, pytest.approx(1.14, abs=0.01), 8, 2)


def row_of_six_minutes() -> str:
    """7 more GPUs for 2 % of the five hours."""
    return job(2, 1, 0, AllocTRES="gres/gpu=7", ElapsedRaw="360", End="2026-10-01T11:06:00")


def test_quotas_are_the_usual_use_within_the_ceilings() -> None:
    result = imported("slurm", DUMP, NODES, guarantee=GuaranteeFrom.HISTORY, past_use=uses(bio=use(7), chem=use(3)))
    assert [gpu(result, name)[:2] for name in ("bio", "chem", "ops")] == [(6, 6), (3, -1), (0, -1)]
    became = told(result, PartOutcome.BECAME)
    assert "it used GPUs: in 95 % of the time at most 7, 3.5 in the mean, at most 8." in became


def test_kinds_that_take_turns_are_not_added(tmp_path: Path) -> None:
    """First 4 GPUs of one kind, then 4 of another: 4 at one time, where the cluster has no kinds."""
    month = tmp_path / "month.txt"
    rows = [job(n, n, 1, Account="chem", AllocTRES=f"gres/gpu:{kind}=4") for n, kind in enumerate(["a100", "v100"])]
    month.write_text(HEADER + "".join(rows))
    past_use = read_past_use(str(month))
    assert {kind: each.usual for kind, each in past_use.teams["chem"].items()} == {ALL_KINDS: 4, "a100": 4, "v100": 4}
    result = imported("slurm", DUMP, NODES, guarantee=GuaranteeFrom.HISTORY, past_use=past_use)
    assert gpu(result, "chem")[0] == 4
    assert told(result, PartOutcome.BECAME).count("it used GPUs") == 1


def test_together_they_are_at_most_the_nodes() -> None:
    past_use = uses(bio=use(6), chem=use(12), ops=use(14))
    result = imported("slurm", DUMP, NODES, guarantee=GuaranteeFrom.HISTORY, past_use=past_use)
    assert [gpu(result, name)[0] for name in ("bio", "chem", "ops")] == [3, 6, 7]
    decide = told(result, PartOutcome.TO_DECIDE)
    assert "usually used 32 GPUs together, and the nodes have 16: each quota is less in proportion." in decide


def test_subpools_and_the_pool_above_them() -> None:
    dump = f"{TOP}Account - 'sci':GrpTRES=gres/gpu=9\nParent - 'sci'\nAccount - 'bio'\nAccount - 'chem'\n"
    past_use = uses(bio=use(3), chem=use(2), sci=use(1))
    result = imported("slurm", dump, NODES, depth=1, guarantee=GuaranteeFrom.HISTORY, past_use=past_use)
    assert gpu(result, "sci")[:2] == (6, 9)
    assert pool(result, "sci")["subpools"] == {"bio": 3, "chem": 2}


def test_the_use_of_each_kind() -> None:
    dump = f"{TOP}Account - 'bio':GrpTRES=gres/gpu:a100=4\n"
    nodes = "NodeName=n1 Gres=gpu:a100:8\nNodeName=n2 Gres=gpu:v100:8\n"
    past_use = uses(bio=use(7, "a100") | use(3, "v100") | use(2))
    result = imported("slurm", dump, nodes, guarantee=GuaranteeFrom.HISTORY, past_use=past_use)
    assert {name: row["guarantee"] for name, row in pool(result, "bio")["resources"]["flavors"].items()} == {
        "a100": 4, "v100": 3
    }  # fmt: skip
    assert "it used GPUs of an unknown kind" in told(result, PartOutcome.TO_DECIDE)


def test_use_that_nothing_gets_a_quota_for_is_named(tmp_path: Path) -> None:
    month = tmp_path / "month.txt"
    gone = [job(n, n, 1, Account="Gone", AllocTRES="gres/gpu=3") for n in range(4)]
    open_one = job(8, 0, 1, Account="chem", State="RUNNING", End="Unknown")
    rows = [*gone, job(9, 0, 1, Account="sci", AllocTRES="gres/gpu=2"), job(10, 0, 1, Account="chem"), open_one]
    month.write_text(HEADER + "".join(rows))
    dump = f"{TOP}Account - 'sci'\nAccount - 'ops'\nParent - 'sci'\nAccount - 'chem'\n"
    result = imported("slurm", dump, NODES, guarantee=GuaranteeFrom.HISTORY, past_use=read_past_use(str(month)))
    decide = told(result, PartOutcome.TO_DECIDE)
    numbers = "in 95 % of the time at most 3, 3.0 in the mean, at most 3 (4 jobs). This use is in no quota."
    assert f"the history has an account gone that the files do not have; it used GPUs: {numbers}" in decide
    assert "the account sci is a cohort, in which nobody submits; it used GPUs: in 95 %" in decide
    assert "the history has no job of the account ops, so its quota is 0." in decide
    assert "1 of 7 jobs is left out: it had not ended (line 8)." in told(result, PartOutcome.STATE)


def test_the_runs_before_a_requeue_are_use(tmp_path: Path) -> None:
    month = tmp_path / "month.txt"
    runs = job(1, 0, 2, AllocTRES="gres/gpu=4", State="REQUEUED") + job(1, 4, 2, AllocTRES="gres/gpu=4")
    month.write_text(HEADER + runs)
    assert read_past_use(str(month)).teams["bio"][""].mean == pytest.approx(4 * 4 / 6)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tux.cfg").write_text(DUMP)
    (tmp_path / "month.txt").write_text(HEADER + job(1, 0, 5, AllocTRES="gres/gpu=5"))
    command = ("import", "slurm", "tux.cfg", "-o", "config")
    assert run(*command, "--guarantee", "history", "--history", "month.txt")[0] == 2
    assert "guarantee: 5" in (tmp_path / "config" / "pools" / "bio.yaml").read_text()
    for words, message in (
        (("--guarantee", "history"), "belong together"),
        (("--history", "month.txt"), "belong together"),
        (("--guarantee", "history", "--history", "none.txt"), "No such file"),
        (("--guarantee", "history", "--history", "tux.cfg"), "no recorded starts"),
    ):
        code, text = run(*command, *words)
        assert (code, message in text) == (1, True), text
    code, text = run("import", "kai", "tux.cfg", "-o", "x", "--guarantee", "history", "--history", "month.txt")
    assert (code, "is for slurm" in text) == (1, True)
