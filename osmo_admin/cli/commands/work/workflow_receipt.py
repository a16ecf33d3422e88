"""`osmo workflow receipt`: why something else ended attempts of a workflow, and what was lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.options import WorkflowArgument
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerText, Facts, Shown, format_cell, list_table, local_time
from osmo_admin.cli.text.start_text import start_sentence
from pools.domain.values.amounts import gpus_text, hours_text
from scheduling.domain.list_columns import RECEIPT_COLUMNS

SECONDS_PER_HOUR = 3600
NOTHING = "Nothing else ended an attempt of this workflow."


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    client_command(app, "receipt")(receipt)


def receipt(session: ClientSession, *, workflow: WorkflowArgument) -> None:
    """Show for each attempt that something else ended: for whom, by which rule, what was lost, and what came next.

    Example: osmo workflow receipt train-12
    """
    answer = session.http().get(url_path("api", "workflow", workflow, "receipts"))
    print_answer(session, answer, lambda: _receipts_text(answer))


def _receipts_text(answer: dict[str, Any]) -> AnswerText:
    found = answer["receipts"]
    rows = [_row(each) for each in (*found, *answer["taken"])]
    facts = [*_facts(found[0]), *_all_lost(answer)] if found else []
    if answer["has_hidden"]:
        facts.append(("Also Preempted", "work of pools that you may not see"))
    return [
        *([Facts(facts)] if facts else []),
        list_table(RECEIPT_COLUMNS.values(), rows, nothing=NOTHING),
    ]


def _all_lost(answer: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if len(answer["receipts"]) > 1:
        yield "Lost In All", lost_text(answer)


def lost_text(answer: dict[str, Any]) -> str:
    """The GPU-seconds of an answer as GPU-hours: `3.2 GPU-hours`."""
    of_parts = answer.get("lost_parts_s", {})
    hours = {flavor: lost_s / SECONDS_PER_HOUR for flavor, lost_s in of_parts.items()}
    return hours_text(answer["lost_gpu_s"] / SECONDS_PER_HOUR, hours)


def _row(each: dict[str, Any]) -> dict[str, Any]:
    hours = round(each["lost_gpu_s"] / SECONDS_PER_HOUR, 4)
    return {**each, "lost": Shown(lost_text(each), hours)}


def _facts(each: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "Ended", f"{format_cell(local_time(each['time']))} {each['message']}"
    yield "Rule", each["rule"]
    starts = [attempt["start_time"] for attempt in each["attempts"] if attempt["start_time"]]
    since = min((attempt["lost_since"] for attempt in each["attempts"]), default=None)
    if since is not None:
        what = "start" if since in starts else "last checkpoint"
        yield "Lost", f"{lost_text(each)} since the {what} {format_cell(local_time(since))}"
    for title, side in (("Its Queue", "loser"), ("The Other Queue", "taker")):
        if numbers := each[side]:
            yield title, numbers_text(numbers)
    if each["spared"]:
        stayed: dict[str, list[str]] = {}
        for other in each["spared"]:
            held = gpus_text(other["gpus"], other.get("by_flavor", {}), other.get("parts", ()))
            stayed.setdefault(other["reason"], []).append(f"{other['gang']} ({held})")
        others = [f"{', '.join(works)}: {reason}" for reason, works in stayed.items()]
        yield "Could Also Have Gone", "; ".join(others) + ("; and more" if each["more_spared"] else "")
    yield "Said", each["note"]
    yield "Next", _next_text(each["next"])


def numbers_text(numbers: dict[str, Any]) -> str:
    """The numbers of a queue at that instant."""
    known = [f"{key} {numbers[key]}" for key in ("quota", "share") if numbers[key] is not None]
    used = f"{numbers['used']} used"
    return f"{numbers['pool']}: {', '.join([used, *known])}"


def _next_text(following: dict[str, Any]) -> str:
    if following["status"] == "started":
        return f"started again {format_cell(local_time(following['start_time']))}"
    if following["status"] == "ended":
        return "no further attempt"
    place = following["position_in_queue"]
    words = "it waits" if place is None else f"it waits at place {place} of its queue"
    sentence = start_sentence(following["start"], following.get("reservation"))
    return f"{words}. {sentence}" if sentence else words
