"""Advice from an installation's own history, in sentences for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pools.domain.names import readable_name
from pools.domain.structured_input.faults import join_words
from pools.domain.values.amounts import gpu_words
from scheduling.history.replay.sentences import change_of_team

WITHOUT_GUARANTEED = (
    "It had no HIGH or NORMAL work in this time, which its quotas exist for, so look at other times too; "
    "each part keeps the GPUs that its work used on average."
)
MAX_TEAMS = 4
"""The teams that a sentence names."""
MAX_IDLE = 3
"""The idle promises with a sentence of their own, the largest first."""


def advice_sentences(advice: Mapping[str, Any], parts: Collection[str] = ()) -> list[str]:
    """What today's quotas cost, a sentence for each pool, and the largest idle promises. `parts` are the flavors of the
    pools that count parts of shared GPUs: delays add them to whole GPUs, which is said."""
    waiting, lost = _hours(advice["waiting_gpu_h"]), _hours(advice["lost_gpu_h"])
    lines = [
        f"Work was delayed by {_hours(advice['cost_gpu_h'])}: {waiting} of waiting, {lost} that preemption threw away."
    ]
    if parts:
        each = join_words([gpu_words(flavor, parts)[0] for flavor in sorted(parts)])
        lines.append(f"Delays add up all flavors: each {each} counts like one GPU in them.")
    if advice["quotas_changed"]:
        lines.append("Quotas changed in this time; “today's” are those of its end, as if they had held all the time.")
    lines += [_of_pool(pool, advice) for pool in advice["pools"]]
    if advice["together"] is not None:
        lines.append(
            f"All proposals together: {_saved(advice['together'], advice)}, without HIGH or NORMAL work waiting longer."
        )
    if not advice["pools"]:
        lines.append("There is nothing to advise on: no pool here has two parts with whole quotas, or can lend.")
    lines += [
        f"{readable_name(row['team'])} held {_held(row, parts)} that nobody used while work of others waited."
        for row in advice["idle_promises"][:MAX_IDLE]
    ]
    if advice["out_of_time"]:
        lines.append(f"The time for this advice ended after {advice['replays']} replays: it is the best of those.")
    return lines


def _of_pool(pool: Mapping[str, Any], advice: Mapping[str, Any]) -> str:
    name, proposal = f"{pool['pool']}{_in_flavor(pool)}", pool["proposal"]
    bound = "" if pool["guaranteed_jobs"] else f" {WITHOUT_GUARANTEED}"
    if proposal is None:
        return (
            f"{name}: no other division was found that would have cost less without delaying HIGH or NORMAL work "
            f"({pool['replays']} replays).{bound}"
        )
    changes = ", ".join(_change(change) for change in proposal["changes"])
    today = advice["today"]["teams"]
    teams = {
        team: text
        for team, change in proposal["effect"]["teams"].items()
        if (text := change_of_team(today[team], _after(today[team], change)))
    }
    by_wait = sorted(teams, key=lambda team: (-abs(proposal["effect"]["teams"][team]["waiting_gpu_h"] or 0), team))
    effects = "; ".join(f"{readable_name(team)} {teams[team]}" for team in by_wait[:MAX_TEAMS])
    more = f"; {len(by_wait) - MAX_TEAMS} more change" if len(by_wait) > MAX_TEAMS else ""
    return (
        f"{name}: {changes}: {_saved(proposal, advice)}, without HIGH or NORMAL work waiting longer"
        f"{f': {effects}{more}' if effects else ''}.{bound}"
    )


def _after(today: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if value is None or change[key] is None else value + change[key] for key, value in today.items()}


def _saved(proposal: Mapping[str, Any], advice: Mapping[str, Any]) -> str:
    of = advice["cost_gpu_h"]
    share = f" ({proposal['saved_gpu_h'] / of:.0%})".replace("%", " %") if of else ""
    return f"{_hours(proposal['saved_gpu_h'])} less delay{share}"


def _change(change: Mapping[str, Any]) -> str:
    key = "quota" if change["key"] == "quota" else "lending limit"
    before, after = ("none" if value is None else value for value in (change["from"], change["to"]))
    return f"{key} of {readable_name(change['name'])}{_in_flavor(change)} {before} → {after}"


def _held(row: Mapping[str, Any], parts: Collection[str]) -> str:
    flavor = row.get("flavor", "")
    if flavor in parts:
        return f"{row['gpu_h']:,.1f} hours of {gpu_words(flavor, parts)[1]} as quota"
    return f"{_hours(row['gpu_h'])} of {f'{flavor} ' if flavor else ''}quota"


def _in_flavor(row: Mapping[str, Any]) -> str:
    return f" ({row['flavor']})" if "flavor" in row else ""


def _hours(value: float) -> str:
    return f"{value:,.1f} GPU-hours"
