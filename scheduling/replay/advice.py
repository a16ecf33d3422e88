"""Quota advice from files: a trace and a cluster in, proposals with ready dry runs out. Nothing is applied."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from typing import Any

from pools.domain.names import SHARED_QUEUE, split_name
from scheduling.domain.advisor.advice import advise, use_by_team
from scheduling.domain.advisor.allotment import find_pools
from scheduling.domain.advisor.trials import TraceTrials
from scheduling.domain.replay.jobs import SECOND
from scheduling.garbage_collector import garbage_collector
from scheduling.replay.faults import FileFaults, ReplayFault
from scheduling.replay.run import Progress, ReplayRequest, Report, read_input


def advise_from_files(request: ReplayRequest, replays: int, report: Report = lambda _progress: None) -> dict[str, Any]:
    """The advice for the pools of `request.on` from its trace, in at most so many replays besides today's. Raises
    `ReplayFault`."""
    began = time.monotonic()
    given = read_input(request)
    facts, jobs = given.clusters[request.on], given.jobs
    pools = find_pools(facts)
    if not pools:
        faults = FileFaults(request.on)
        message = (
            "There is nothing to advise on: no two leaves with whole quotas have the same parent, and none can lend."
        )
        faults.add(None, "queues", "bad_value", message)
        raise ReplayFault([faults])

    def tell(replay: int, arrived: int, now: int) -> None:
        name = f"replay {replay} of at most {replays + 2}"
        report(Progress(name, arrived, len(jobs), now // SECOND))

    with garbage_collector.paused():
        trials = TraceTrials(facts, jobs, request.rules, tell=tell)
        answer = advise(pools, trials, use_by_team(jobs), replays=replays, idle=trials.idle_promises)
    add_dry_runs(answer)
    return answer | {"seconds": round(time.monotonic() - began, 3)}


def add_dry_runs(answer: dict[str, Any]) -> None:
    """Give each proposal its change in the form of a what-if, and the commands that try it."""
    for proposal in (*(pool["proposal"] for pool in answer["pools"]), answer["together"]):
        if proposal is not None:
            proposal["what_if"] = [_set(change) for change in proposal["changes"]]
            proposal["commands"] = dry_run_commands(proposal["changes"])


def _set(change: dict[str, Any]) -> dict[str, Any]:
    """-1 is no limit there."""
    to = -1 if change["to"] is None else change["to"]
    return {"set": {"name": change["name"], change["key"]: to}}


def dry_run_commands(changes: Sequence[dict[str, Any]]) -> list[str]:
    """Commands that show the effect of the changes on an installation with these pools and subpools, and change
    nothing: first all of them in the present state, then each of them as the change that it would be. The remainder
    of a pool follows from its subpools."""
    question = json.dumps({"changes": [_set(change) for change in changes]})
    commands = [f"echo {shlex.quote(question)} | osmo simulate --live -"]
    pools: dict[str, dict[str, Any]] = {}
    for change in changes:
        name, to = change["name"], change["to"]
        pool, subpool = split_name(name)
        if subpool is None:
            key = "guarantee" if change["key"] == "quota" else change["key"]
            pools.setdefault(name, {})[key] = to
        elif subpool != SHARED_QUEUE:
            words = ["osmo", "pool", "subpool", "update", pool, subpool, "--quota", str(to), "--dry-run"]
            commands.append(shlex.join(words))
    for name, values in pools.items():
        update = shlex.join(["osmo", "config", "update", "POOL", name, "--dry-run"])
        commands.append(f"echo {shlex.quote(json.dumps(values))} | {update}")
    return commands
