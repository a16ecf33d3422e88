"""The text of quota advice (`osmo replay --advise`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from osmo_admin.cli.base.tables import Facts, Table, build_table, headings
from osmo_admin.cli.local.replay_tables import format_decimal, format_seconds
from pools.domain.columns import pick
from pools.domain.names import readable_name
from pools.domain.numbers import REPLAY_NUMBERS
from scheduling.domain.list_columns import CHANGE_COLUMNS, RIVAL_COLUMNS, TEAM_COLUMNS

DEFAULT_REPLAYS = 60
_RIVALS = {"today": "Today", "equal": "Equal shares", "by_use": "Shares by use"}


def advice_text(answer: dict[str, Any]) -> list[Any]:
    """The proposals, the rivals and the idle promises for people."""
    today = answer["today"]["summary"]
    parts: list[Any] = [
        Facts(
            [
                (f"{REPLAY_NUMBERS['waiting_gpu_h'].heading}, today", format_decimal(answer["waiting_gpu_h"])),
                (f"{REPLAY_NUMBERS['lost_gpu_h'].heading}, today", format_decimal(answer["lost_gpu_h"])),
                (f"{REPLAY_NUMBERS['wait_mean_s'].label} today", format_seconds(today["wait_mean_s"])),
                *([(REPLAY_NUMBERS["never"].label, today["never"])] if "never" in today else []),
                ("Replays", answer["replays"]),
            ]
        )
    ]
    for pool in answer["pools"]:
        parts += _pool(pool, answer["today"])
    if answer["together"] is not None:
        parts.append("ALL PROPOSALS TOGETHER")
        parts += _proposal(answer["together"], answer["today"])
    rows = [(_name({"name": row["team"], **row}), format_decimal(row["gpu_h"])) for row in answer["idle_promises"]]
    parts += [
        "IDLE PROMISES: quota that nobody used while other teams waited",
        build_table(headings(pick(TEAM_COLUMNS, "team idle")), rows) if rows else "None.",
        "Nothing was changed. A proposal is the best for this window; another window may have another one.",
    ]
    return parts


def _pool(pool: dict[str, Any], today: Mapping[str, Any]) -> Iterator[Any]:
    name = "queues without a parent" if pool["pool"] is None else f"pool {pool['pool']}"
    how = "every division was tried" if pool["exact"] else f"the best of those that {pool['replays']} replays tried"
    yield f"{name.upper()}: {pool['quota']} {pool.get('flavor', 'GPUs')} of quota; {how}."
    yield build_table(
        headings(pick(RIVAL_COLUMNS, "division waiting_gpu_h lost_gpu_h cost later never_again quotas")),
        [_rival(rival) for rival in pool["rivals"]],
    )
    if pool.get("guaranteed_jobs") == 0:
        least = ", ".join(f"{readable_name(name)} {gpus}" for name, gpus in pool["least"].items() if gpus)
        yield (
            "No HIGH or NORMAL job of this pool is in the window, and quotas exist for those: try other windows too. "
            "No proposal takes a queue below the GPUs that its work used on average (if it has that many today): "
            f"{least or 'none used a GPU'}."
        )
    if pool["proposal"] is None:
        yield "No division was found that would have cost less without delaying HIGH or NORMAL work."
    else:
        yield from _proposal(pool["proposal"], today)


def _name(change: dict[str, Any]) -> str:
    name = readable_name(change["name"])
    return f"{name} ({change['flavor']})" if "flavor" in change else name


def _rival(rival: dict[str, Any]) -> tuple[Any, ...]:
    later = rival["guaranteed_later"]
    return (
        _RIVALS[rival["name"]], format_decimal(rival["waiting_gpu_h"]), format_decimal(rival["lost_gpu_h"]),
        format_decimal(rival["cost_gpu_h"]), None if later is None else sum(later.values()), rival["never_again"],
        {readable_name(name): quota for name, quota in sorted(rival["leaves"].items())},
    )  # fmt: skip


def _proposal(proposal: dict[str, Any], today: Mapping[str, Any]) -> Iterator[Any]:
    yield build_table(
        headings(pick(CHANGE_COLUMNS, "change of was would")),
        [(row["key"].replace("_", " "), _name(row), _amount(row["from"]), _amount(row["to"]))
         for row in proposal["changes"]],
    )  # fmt: skip
    yield (
        f"Waiting and work lost to preemption would have been {format_decimal(proposal['cost_gpu_h'])} GPU-hours, "
        f"{format_decimal(proposal['saved_gpu_h'])} less; no HIGH or NORMAL job would have waited longer."
    )
    yield _effect(proposal["effect"], today)
    yield "Try it; this changes nothing:"
    yield from proposal["commands"]


def _effect(effect: Mapping[str, Any], today: Mapping[str, Any]) -> Table:
    """The teams for which something changes."""
    rows = []
    changed = {name: change for name, change in effect["teams"].items() if any(change.values())}
    for name, change in sorted(changed.items()):
        team = today["teams"][name]
        rows.append(
            (
                readable_name(name), team["jobs"], format_seconds(team["wait_mean_s"]),
                *(format_seconds(change[key], is_signed=True) for key in ("wait_mean_s", "wait_p90_s")),
                _signed(change["waiting_gpu_h"]), _signed(change["lost_gpu_h"]),
                _signed(change["preemptions"] + change.get("reclaims", 0)),
            )
        )  # fmt: skip
    jobs, wait, wait_of_90, waiting, lost, preemptions = (
        REPLAY_NUMBERS[key]
        for key in ("jobs", "wait_mean_s", "wait_p90_s", "waiting_gpu_h", "lost_gpu_h", "preemptions")
    )
    header = (
        "Team", jobs.label, wait.label, "Change", f"Change of {wait_of_90.term}", waiting.heading, lost.label,
        preemptions.label,
    )  # fmt: skip
    return build_table(header, rows)


def _amount(value: float | None) -> str:
    return "no limit" if value is None else str(value)


def _signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+,.2f}".removesuffix(".00")
