"""`osmo pool subpool`: cut a pool into guaranteed slices, resize them, give them back."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from osmo_admin.cli.effect import preview, show_effect
from osmo_admin.cli.http import path
from osmo_admin.cli.options import DescriptionOption, IfMatchOption, ParentArgument, QuotaOption, SubpoolArgument
from osmo_admin.cli.output import confirm, emit
from osmo_admin.cli.pool_table import branch
from osmo_admin.cli.session import Session
from osmo_admin.cli.tables import facts, table
from osmo_admin.cli.verb import group, verb

app = group("Guaranteed slices of a pool.")
HEADER = ("Pool", "Subpool State", "GPU Quota", "Used", "Available", "Total Usage", "Live Workflows")

CancelPendingOption = Annotated[
    bool, typer.Option("--cancel-pending", help="Cancel what waits in the slice, so that it drains sooner.")
]


def quota_value(text: str) -> int | float | str:
    """What was typed as a JSON number where it is one, else as it is: the server rounds down and knows the rules."""
    text = text.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?\d{1,18}\.\d{1,9}", text):
        return float(text)
    return text


def _address(parent: str, *sub: str) -> str:
    return path("api", "configs", "pool", parent, "subpool", *sub)


def _described(body: dict[str, Any], description: str | None) -> dict[str, Any]:
    return body | ({"description": description} if description else {})


@verb(app, "create", writes=True)
def create(
    session: Session,
    *,
    parent: ParentArgument,
    subpool: SubpoolArgument,
    quota: QuotaOption,
    description: DescriptionOption = None,
) -> None:
    """Cut a slice from a pool. The name of an archived slice brings that one back."""
    body = _described({"subpool_name": subpool, "quota": quota_value(quota)}, description)
    answer = session.http().change("POST", _address(parent), query=session.dry_query, body=body)
    _report(session, answer, "brought back" if (answer or {}).get("reactivated") else "created")


@verb(app, "update", writes=True)
def update(
    session: Session,
    *,
    parent: ParentArgument,
    subpool: SubpoolArgument,
    quota: QuotaOption,
    description: DescriptionOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Give a slice another quota. Work that runs goes on; what is used above the new quota drains."""
    body = _described({"quota": quota_value(quota)}, description)
    address = _address(parent, subpool)
    answer = session.http().change("PATCH", address, query=session.dry_query, body=body, if_match=if_match)
    _report(session, answer, "updated")


@verb(app, "delete", writes=True, asks=True)
def delete(
    session: Session,
    *,
    parent: ParentArgument,
    subpool: SubpoolArgument,
    cancel_pending: CancelPendingOption = False,
    description: DescriptionOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Give a slice back: at once when nothing lives in it, else it drains first and takes no new work."""
    body = _described({"cancel_pending": True} if cancel_pending else {}, description)
    address = _address(parent, subpool)
    http = session.http()

    def ask_with_effect() -> None:
        preview(http.change("DELETE", address, query={"dry_run": True}, body=body, if_match=if_match))

    confirm(session, f"Delete subpool {parent}--{subpool}?", first=ask_with_effect)
    answer = http.change("DELETE", address, query=session.dry_query, body=body or None, if_match=if_match)
    _report(session, answer, "deleted")


def _report(session: Session, answer: Any, deed: str) -> None:
    if session.dry_run:
        show_effect(session, answer)
    else:
        emit(session, answer, lambda: _sentence(answer, deed))


def _sentence(answer: dict[str, Any], deed: str) -> str:
    name, state = answer["name"], answer["subpool_state"]
    if state == "ACTIVE":
        numbers = f"quota {answer['quota']}, used {answer['used']}, available {answer['available']}"
        return f"Subpool {name} {deed}: {state}, {numbers}."
    if state == "DELETING":
        return (
            f"Subpool {name} is DELETING: it takes no new work and is archived when its "
            f"{_live(answer['live_workflows'])} ended (used {answer['used']} GPUs)."
        )
    return f"Subpool {name} is {state}; its quota went back to {answer['parent_pool']}."


@verb(app, "list")
def list_(
    session: Session,
    *,
    parent: ParentArgument,
    include_archived: Annotated[bool, typer.Option("--include-archived", help="Archived slices too.")] = False,
) -> None:
    """List a pool's slices and what it did not give to any."""
    query = {"include_archived": True} if include_archived else {}
    answer = session.http().get(_address(parent), query)
    emit(session, answer, lambda: slices_table(answer))


def slices_table(answer: dict[str, Any]) -> str:
    """The pool's own line, with what is unallocated, and one line for each slice."""
    shared = answer["shared"]
    own = f"{answer['unallocated']} (Total: {answer['quota']})" if answer["subpools"] else answer["quota"]
    rows: list[list[Any]] = [
        [
            answer["pool"],
            "-",
            own,
            shared["used"],
            shared["available"],
            shared["total_usage"],
            shared.get("live_workflows"),
        ]
    ]
    children = sorted(answer["subpools"], key=lambda row: str(row["name"]))
    for at, row in enumerate(children):
        counted = (row[key] for key in ("subpool_state", "quota", "used", "available", "total_usage", "live_workflows"))
        rows.append([branch(at, len(children)) + row["name"], *counted])
    return table(HEADER, rows)


@verb(app, "show")
def show(session: Session, parent: ParentArgument, subpool: SubpoolArgument) -> None:
    """Show one slice, an archived one too."""
    answer = session.http().get(_address(parent, subpool))
    emit(session, answer, lambda: _facts(answer))


def _facts(answer: dict[str, Any]) -> str:
    return facts(
        [
            ("Subpool", answer["name"]),
            ("Parent", answer["parent_pool"]),
            ("State", answer["subpool_state"]),
            ("Quota", answer["quota"]),
            ("Last quota", answer["last_quota"]),
            ("Scheduling quota", answer["scheduling_quota"]),
            ("Used (HIGH, NORMAL)", answer["used"]),
            ("Available", answer["available"]),
            ("Used (all)", answer["total_usage"]),
            ("Live workflows", answer["live_workflows"]),
            ("Queue", answer["queue"]),
            ("Version", answer["version"]),
        ]
    )


def _live(count: int) -> str:
    return "1 live workflow has" if count == 1 else f"{count} live workflows have"
