"""`osmo replay --own`: the changes and the window go to the server, and its comparison is shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from osmo_admin.cli.local import replay_own

ROW = {
    "jobs": 2, "starts": 2, "reclaims": 0, "preemptions": 0, "wait_mean_s": 90.0, "wait_p50_s": 90.0, "wait_p90_s": 180,
    "used_gpu_h": 1.5, "utilisation": 0.5,
}  # fmt: skip
SIDE = {"summary": None, "teams": {"team--b": ROW}}
ANSWER = {
    "backend": "sim", "since": "2026-11-16T00:00:00", "until": "2026-11-23T00:00:00", "steps": 2, "identical": True,
    "first_difference": None, "on": SIDE, "against": SIDE,
    "difference": {"summary": None, "teams": {"team--b": ROW}, "better": ["team--b"], "worse": []},
    "people": [{"user": "ben", "queue": "team--b", "workloads": 1, "wait_s": -95.0, "preemptions": 1}],
    "more_people": 0, "advice": None,
    "sentences": ["team--b waits 31 % less in the mean (1 min 30 s instead of 2 min 10 s)."],
}  # fmt: skip
ROW_OF_REPLAY = {
    "id": "r-1", "status": "WAITING", "progress": 0, "requested_at": "2026-11-23T10:00:00", "started_at": None,
    "ended_at": None, "question": {}, "answer": None, "refusal": None,
}  # fmt: skip
RUNNING = {**ROW_OF_REPLAY, "status": "RUNNING", "progress": 0.4, "started_at": "2026-11-23T10:00:01"}
POST, GET = ("POST", "/api/replay"), ("GET", "/api/replay/r-1")


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_own, "time", SimpleNamespace(sleep=lambda _: None))


def completed(answer: dict[str, Any]) -> dict[str, Any]:
    return {**RUNNING, "status": "COMPLETED", "progress": 1, "answer": answer}


def test_the_question_is_sent_and_the_comparison_shown(osmo, stub, tmp_path: Path):
    stub.on(*POST, ROW_OF_REPLAY)
    stub.on(*GET, RUNNING, completed(ANSWER))
    file = tmp_path / "changes.yaml"
    file.write_text("- {set: {name: team--b, quota: 24}}")
    window = ("--since", "2026-11-16T00:00:00+00:00", "--until", "2026-11-23T00:00:00+00:00")
    shown = osmo.ok("replay", "--own", *window, "--backend", "sim", str(file))
    assert [request.method for request in stub.requests] == ["POST", "GET", "GET"]
    assert stub.requests[0].body == {
        "since": "2026-11-16T00:00:00",
        "until": "2026-11-23T00:00:00",
        "backend": "sim",
        "changes": [{"set": {"name": "team--b", "quota": 24}}],
    }
    assert "idempotency-key" in stub.requests[0].headers
    assert "team--b waits 31 % less in the mean" in " ".join(shown.split())
    assert "−1 min 35 s" in shown
    stub.requests.clear()
    stub.on(*GET, completed(ANSWER))
    assert json.loads(osmo.ok("replay", "--own", "--since", "7d", "-o", "json")) == ANSWER
    assert set(stub.requests[0].body) == {"since", "changes"}


def test_teams_stand_in_the_order_of_their_names(osmo, stub):
    """The server keeps the answer as jsonb, whose keys have no order for people."""
    side = {"summary": None, "teams": {"z": ROW, "team--b": ROW, "a--long": ROW}}
    stub.on(*POST, completed({**ANSWER, "on": side, "against": None}))
    lines = osmo.ok("replay", "--own", "--since", "7d").splitlines()
    first = [line.split()[0] for line in lines if line.split()]
    assert [name for name in first if name in side["teams"]][:3] == ["a--long", "team--b", "z"]


def test_a_difference_from_the_record_is_named(osmo, stub):
    step = {"time": "2026-11-17T10:00:00", "action": "start", "workflow": "w-1", "nodes": ["n1"]}
    first = {"recorded": step, "replayed": None}
    stub.on(*POST, completed({**ANSWER, "identical": False, "first_difference": first, "against": None}))
    shown = " ".join(osmo.ok("replay", "--own", "--since", "7d").split())
    assert "start of w-1 at 2026-11-17T10:00:00 is only recorded" in shown


def test_advice_is_asked_for_and_shown_with_its_dry_runs(osmo, stub):
    row = {**ROW, "waiting_gpu_h": 2.0, "lost_gpu_h": 0.5}
    cost = {"waiting_gpu_h": 2.0, "lost_gpu_h": 0.5, "cost_gpu_h": 2.5}
    change = {"name": "team--b", "key": "quota", "from": 1, "to": 2}
    effect = {"summary": row, "teams": {"team--b": row}, "better": [], "worse": []}
    proposal = {
        **cost,
        "saved_gpu_h": 1.0,
        "changes": [change],
        "effect": effect,
        "commands": ["osmo pool ... --dry-run"],
    }
    rival = {
        **cost,
        "name": "today",
        "leaves": {"team--b": 1},
        "allowed": True,
        "guaranteed_later": {},
        "never_again": 0,
    }
    pool = {"pool": "team", "quota": 4, "exact": True, "replays": 9, "rivals": [rival], "proposal": proposal}
    advice = {
        **cost, "today": {"summary": row, "teams": {"team--b": row}}, "pools": [pool], "together": None,
        "idle_promises": [{"team": "team--a", "gpu_h": 3.0}], "replays": 10,
    }  # fmt: skip
    stub.on(
        *POST, completed({**ANSWER, "against": None, "advice": advice, "sentences": ["team: quota of team--b 1 → 2."]})
    )
    shown = " ".join(osmo.ok("replay", "--own", "--advise", "--tries", "9", "--since", "7d").split())
    assert (stub.requests[0].body["advise"], stub.requests[0].body["tries"]) == (True, 9)
    for text in ("POOL TEAM: 4 GPUs", "osmo pool ... --dry-run", "IDLE PROMISES", "quota of team--b 1 → 2."):
        assert text in shown


def test_a_replay_that_fails_gives_its_reason(osmo, stub):
    stub.on(*POST, ROW_OF_REPLAY)
    detail = {"path": "since", "code": "window_too_long", "message": "Give a later since."}
    refusal = {"message": "Give a later since.", "details": [detail]}
    stub.on(*GET, {**RUNNING, "status": "FAILED", "refusal": refusal})
    refused = osmo("replay", "--own", "--since", "7d")
    assert refused.exit_code != 0
    assert "Give a later since." in refused.stderr


def test_ctrl_c_cancels_the_replay(osmo, stub, monkeypatch: pytest.MonkeyPatch):
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(replay_own, "time", SimpleNamespace(sleep=interrupt))
    stub.on(*POST, ROW_OF_REPLAY)
    stub.on("POST", "/api/replay/r-1/cancel", {**ROW_OF_REPLAY, "status": "CANCELED"})
    assert osmo("replay", "--own", "--since", "7d").exit_code != 0
    assert stub.last.path == "/api/replay/r-1/cancel"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--own"], "--own needs --since"),
        (["--own", "--since", "7d", "--tries", "9"], "add --advise"),
        (["--own", "--since", "7d", "--advise", "changes.yaml"], "leave out the file with changes"),
        (["--own", "--since", "7d", "--on", "c.yaml", "--forecast"], "--on, --forecast is for a trace"),
        (["trace.csv"], "or --own for the history of the server"),
        (["trace.csv", "--on", "c.yaml", "--backend", "sim"], "--backend belongs to --own"),
    ],
)
def test_options_of_the_other_kind_are_refused(osmo, stub, options, message):
    refused = osmo("replay", *options)
    assert (refused.exit_code, message in refused.stderr, stub.requests) == (2, True, [])
