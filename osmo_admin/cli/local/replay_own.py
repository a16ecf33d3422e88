"""`osmo replay --own`: the server replays its own history with other quotas."""

from __future__ import annotations

import sys
import time
from typing import Any

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.http import HttpClient
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerText, Table, list_table
from osmo_admin.cli.base.times import parse_time
from osmo_admin.cli.local.replay_advice import advice_text
from osmo_admin.cli.local.replay_tables import team_table
from osmo_admin.cli.local.simulate_live import read_changes
from pools.domain.values.durations import span_text
from scheduling.domain.list_columns import PERSON_COLUMNS

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 2.0
"""Seconds between two questions about the progress."""
_LIVE = ("WAITING", "RUNNING")
_COLUMNS = (
    "jobs", "starts", "reclaims", "preemptions", "wait_mean_s", "wait_p50_s", "wait_p90_s", "used_gpu_h"
)  # fmt: skip


def replay_own_history(
    session: ClientSession,
    changes: str | None,
    *,
    since: str | None,
    until: str | None,
    backend: str | None,
    is_advice: bool = False,
    tries: int | None = None,
) -> None:
    """Ask the server and print its answer. `is_advice`: ask for proposals, in `tries` replays (None: the server's
    number), instead of trying `changes`. Raises `ClientError`."""
    if since is None:
        raise ClientError("--own needs --since, such as --since 7d: the beginning of the time to replay.")
    body: dict[str, Any] = {
        "since": parse_time(since),
        "changes": read_changes([] if changes is None else [changes], option="--own"),
    }
    if until is not None:
        body["until"] = parse_time(until)
    if backend is not None:
        body["backend"] = backend
    if is_advice:
        body |= {"advise": True} if tries is None else {"advise": True, "tries": tries}
    answer = _wait(session.http(), body)
    print_answer(session, answer, lambda: _text(answer))


def _wait(http: HttpClient, body: dict[str, Any]) -> dict[str, Any]:
    """Request the replay and wait for its end; Ctrl-C cancels it."""
    row = http.send_change("POST", "api/replay", body=body)
    address, pause = f"api/replay/{row['id']}", FIRST_PAUSE
    try:
        while row["status"] in _LIVE:
            _show(f"{row['progress']:.0%} replayed" if row["started_at"] else "The replay waits for a worker.")
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)
            row = http.get(address)
    except KeyboardInterrupt:
        http.send_change("POST", f"{address}/cancel", body={})
        raise
    finally:
        _show("")
    if row["status"] != "COMPLETED":
        refusal = row["refusal"] or {"message": "The replay was cancelled.", "details": []}
        raise ClientError(refusal["message"], details=refusal["details"])
    answer: dict[str, Any] = row["answer"]
    return answer


def _show(text: str) -> None:
    """The progress on one line of standard error, if that is a terminal; empty removes it."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _text(answer: dict[str, Any]) -> AnswerText:
    lines = [*answer["sentences"], *([] if answer["identical"] else [f"The first difference: {_first(answer)}."])]
    if answer["advice"] is not None:
        return [*advice_text(answer["advice"]), *lines]
    if answer["against"] is None:
        return [_table(answer["on"]), *lines]
    people = list_table(
        PERSON_COLUMNS.values(),
        [
            {**row, "wait": span_text(row["wait_s"], is_signed=True), "preemptions": f"{row['preemptions']:+}"}
            for row in answer["people"]
        ],
    )
    return [
        "AS IT WAS", _table(answer["on"]), "AS IT WOULD HAVE BEEN", _table(answer["against"]), "PEOPLE", people,
        *lines,
    ]  # fmt: skip


def _first(answer: dict[str, Any]) -> str:
    difference = answer["first_difference"]
    step = difference["recorded"] or difference["replayed"]
    if step is None:
        return "first in work of pools that you may not see"
    where = "recorded" if difference["recorded"] else "replayed"
    return f"{step['action']} of {step['workflow']} at {step['time']} is only {where}"


def _table(side: dict[str, Any]) -> Table:
    return team_table(dict(sorted(side["teams"].items())), _COLUMNS)
