"""`osmo pool subpool`: divide a pool into subpools with a guaranteed quota, resize and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_parent_pools
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.options import (
    DescriptionOption,
    ParentArgument,
    SubpoolArgument,
)
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, OutputFormat, print_warning
from osmo_admin.cli.base.tables import (
    NOT_IN_THE_FILE,
    Facts,
    Shown,
    Table,
    build_table,
    first_of,
    format_cell,
    headings,
)
from osmo_admin.cli.base.times import format_local_time
from osmo_admin.cli.base.yaml_files import parse_number, read_text_file
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.lists import list_command
from osmo_admin.cli.text.drawn_bar import BAR_HEADING, drawn_bar
from osmo_admin.cli.text.effect_text import show_effect
from osmo_admin.cli.text.pool_table import branch_prefix
from pools.domain.change_effects import cancelled_text
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, ResizeSubpools, SetDrainDeadline
from pools.domain.columns import pick
from pools.domain.list_columns import POOL_COLUMNS
from pools.domain.lists import SubpoolQuery
from pools.domain.names import REMAINDER_LABEL, SEPARATOR, SHARED_QUEUE
from pools.domain.numbers import CAN_START_NOW, LOW_CAN_START_NOW, POOL_NUMBERS, QUOTA
from pools.domain.values.amounts import NO_LIMIT, UNLIMITED, as_json, gpus_text
from pools.domain.values.counting import counted

if TYPE_CHECKING:
    from pools.domain.configuration.quota_file import QuotaFile

app = command_group("Subpools: guaranteed parts of a pool.")
QUOTAS_URL = url_path("api", "configs", "subpool_quotas")
NUMBERS = ("used", "available", "total_usage", "live_workflows")
COLUMNS_SHOWN = "pool state quota guaranteed_in_use guaranteed_free total_in_use active_workflows"
ADDED_HEADINGS = (CAN_START_NOW.label, LOW_CAN_START_NOW.label, BAR_HEADING)


def _subpool_url(parent: str, *sub: str) -> str:
    return url_path("api", "configs", "pool", parent, "subpool", *sub)


@change_command(app, "create", CreateSubpool)
def create(session: ClientSession, change: TypedChange) -> None:
    """Create a subpool. The name of an archived subpool reactivates it.

    Where the pool has flavors, the quota is by flavor: --quotas h100=4,a100=8.

    Example: osmo pool subpool create vision detect --quota 8
    """
    _require_quota(change)
    answer = change.send("POST", _subpool_url(change["parent"]))
    action = "reactivated" if (answer or {}).get("reactivated") else "created"
    change.show(answer, lambda body: _result_message(body, action))


@change_command(app, "update", ResizeSubpool)
def update(session: ClientSession, change: TypedChange) -> None:
    """Change the quota of a subpool, lasting or until a time. Running work continues; use above the new quota
    drains.

    Example: osmo pool subpool update vision detect --quota 16 --until 2026-11-27T18:00
    """
    _require_quota(change)
    answer = change.send("PATCH", _subpool_url(change["parent"], change["subpool_name"]))
    change.show(answer, lambda body: _result_message(body, "updated"))


def _require_quota(change: TypedChange) -> None:
    if change["quota"] is None and change["quotas"] is None:
        raise typer.BadParameter("Give --quota, or --quotas by flavor.")


@change_command(app, "delete", DeleteSubpool, confirms=True)
def delete(session: ClientSession, change: TypedChange) -> None:
    """Delete a subpool: at once if it has no active workflows; otherwise it takes no new work and drains first.

    Example: osmo pool subpool delete vision detect --dry-run
    """
    parent, subpool = change["parent"], change["subpool_name"]
    address = _subpool_url(parent, subpool)
    change.confirm(f"Delete subpool {parent}--{subpool}?", "DELETE", address)
    change.show(change.send("DELETE", address), lambda body: _result_message(body, "deleted"))


@change_command(app, "deadline", SetDrainDeadline)
def set_deadline(session: ClientSession, change: TypedChange) -> None:
    """Set the time by which the work of a draining subpool should have ended. No work is stopped then: the home page
    warns, and notices are sent.

    Example: osmo pool subpool deadline vision detect 2026-11-27T18:00
    """
    answer = change.send("PATCH", _subpool_url(change["parent"], change["subpool_name"]))
    change.show(answer, lambda body: _result_message(body, "updated"))


@client_command(app, "export")
def export(
    session: ClientSession,
    *,
    pool: Annotated[
        str | None,
        typer.Option(
            "--pool", "-p", metavar="NAME", help="Only subpools of this pool.", autocompletion=complete_parent_pools
        ),
    ] = None,
) -> None:
    """Print the quotas of ACTIVE subpools as CSV: pool,subpool,quota, and the flavor where a pool has flavors.

    Example: osmo pool subpool export --pool vision > quotas.csv
    """
    from pools.domain.configuration.quota_file import quota_rows
    from pools.domain.names import split_name

    answer = session.http().get(QUOTAS_URL, query={"pool": pool} if pool else {})
    columns, rows = quota_rows({split_name(name): quota for name, quota in answer["quotas"].items()})
    table = build_table(columns, rows)
    if session.output is OutputFormat.TABLE:
        session.output = OutputFormat.CSV
    print_answer(session, answer, lambda: table)


@client_command(app, "import", writes=True)
def import_file(
    session: ClientSession,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV file, or - for standard input.")],
    description: DescriptionOption = None,
) -> None:
    """Change the quotas of many subpools to those of a CSV file, all of them or none.

    The file has a line pool,subpool,quota first, then a line for each subpool (with a column flavor, for each flavor),
    as in the output of export, or as the CSV of the list of pools. --dry-run shows the effect.

    Example: osmo pool subpool import quotas.csv --dry-run
    """
    read = _read_quota_file(file)
    quotas = {
        name: parse_number(text) if isinstance(text, str) else {key: parse_number(each) for key, each in text.items()}
        for name, text in read.quotas.items()
    }
    try:
        answer = TypedChange(session, ResizeSubpools, {"quotas": quotas}, description).send("PATCH", QUOTAS_URL)
    except ClientError as error:
        raise _in_words_of_file(error, quotas) from None
    if read.left_out:
        print_warning(f"WARNING: {counted(read.left_out, 'line')} of pools, remainders and inactive subpools left out.")
    if session.dry_run:
        show_effect(session, answer)
        return
    changed = [each["name"] for each in answer["subpools"]]
    names = f": {format_cell(first_of(changed))}" if changed else ""
    print_answer(
        session,
        answer,
        lambda: f"{len(changed):,} of {counted(len(quotas), 'subpool has', 'subpools have')} new quotas{names}.",
    )


def _in_words_of_file(error: ClientError, names: Iterable[str]) -> ClientError:
    """The refusal of the change without the paths of its body, which the file does not have."""
    from pools.domain.configuration.quota_file import message_of_file

    for detail in error.details:
        path, said = str(detail.get("path", "")), str(detail.get("message", ""))
        detail["message"] = message_of_file(path, str(detail.get("code", "")), said, names)
        if said and detail["message"] != said:
            error.message = error.message.replace(said, detail["message"])
            detail["path"] = ""
    return error


def _read_quota_file(file: str) -> QuotaFile:
    from pools.domain.configuration.quota_file import parse_quota_file
    from pools.domain.errors import DomainError

    try:
        text = read_text_file(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{file} cannot be read: {error}") from None
    try:
        return parse_quota_file(text)
    except DomainError as refusal:
        raise ClientError(refusal.message, details=[each.as_dict() for each in refusal.details]) from None


def _result_message(answer: dict[str, Any], action: str) -> str:
    name, state = answer["name"], answer["subpool_state"]
    cancelled = answer.get("cancelled_workflows")
    ended = "" if cancelled is None else f" {cancelled_text(cancelled)}"
    if state == "ACTIVE":
        quota = f"quota {answer['quota']}{_flavors_text(answer)}"
        numbers = f"{quota}, guaranteed in use {answer['used']}, guaranteed free {answer['available']}"
        until = format_local_time(answer.get("quota_until"))
        after = f"{answer.get('quota_after')}{_flavors_text(answer, 'quotas_after')}"
        end = f" At {until} it is {after} again." if until else ""
        return f"Subpool {name} {action}: {state}, {numbers}.{end}"
    if state == "DELETING":
        deadline = format_local_time(answer.get("drain_by"))
        return (
            f"Subpool {name} is DELETING: it takes no new work and is archived when its "
            f"{_active_workflows_text(answer['live_workflows'])} ended (guaranteed in use: "
            f"{_used_text(answer)}).{f' Deadline: {deadline}.' if deadline else ''}{ended}"
        )
    return f"Subpool {name} is {state}; its quota returned to {answer['parent_pool']}.{ended}"


def _used_text(answer: dict[str, Any]) -> str:
    flavors = answer.get("flavors") or ()
    parts = {each["flavor"] for each in flavors if each.get("shared")}
    return gpus_text(answer["used"], {each["flavor"]: each["used"] for each in flavors}, parts)


def _flavors_text(answer: dict[str, Any], key: str = "quotas") -> str:
    parts = ", ".join(f"{gpus} {flavor}" for flavor, gpus in (answer.get(key) or {}).items())
    return f" ({parts})" if parts else ""


@list_command(app, "list", SubpoolQuery, watches=True)
def list_(session: ClientSession, query: dict[str, Any], *, parent: ParentArgument) -> None:
    """List the subpools of a pool, and the pool remainder (shared).

    Example: osmo pool subpool list vision
    """
    answer = read_subpools(session, parent, query)
    print_answer(session, answer, lambda: subpools_table(answer))


def read_subpools(session: ClientSession, parent: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
    """The subpools of a pool with what may start on them, and the parts of their bars."""
    answer: dict[str, Any] = session.http().get(_subpool_url(parent), {**(query or {}), "start_room": True})
    return answer


def subpools_table(answer: dict[str, Any]) -> Table:
    """One line for the whole pool, as on its page, one for its remainder (shared), and one for each subpool."""
    pool, children = answer["pool"], sorted(answer["subpools"], key=lambda row: str(row["name"]))
    whole = whole_pool(answer)
    rows: list[list[Any]] = [[pool, None, *_numbers(whole)]]
    if children:
        label = Shown(f"{branch_prefix(0, 2)}{REMAINDER_LABEL}", f"{pool}{SEPARATOR}{SHARED_QUEUE}")
        rows.append([label, None, *_numbers({**answer["shared"], "quota": answer["unallocated"]})])
    for at, row in enumerate(children):
        name = branch_prefix(at, len(children)) + row["name"]
        rows.append([name, row["subpool_state"], *_numbers(row)])
    columns = pick(POOL_COLUMNS, COLUMNS_SHOWN)
    names = [*(each.key for each in columns), *ADDED_HEADINGS[:-1], NOT_IN_THE_FILE]
    return build_table((*headings(columns), *ADDED_HEADINGS), rows, names=names, spare=tuple(reversed(ADDED_HEADINGS)))


def whole_pool(answer: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a whole pool: its remainder (shared) and its subpools together."""
    parts = [answer["shared"], *answer["subpools"]]
    sums = {key: sum(part.get(key) or 0 for part in parts) for key in ("used", "total_usage", "live_workflows")}
    quota = answer["quota"]
    return {**answer, **sums, "available": quota if quota == NO_LIMIT else quota - sums["used"]}


def _numbers(row: dict[str, Any]) -> list[Any]:
    """The cells of a row; what is free of a quota without a limit has none either, and may be -1 otherwise."""
    numbers = {key: row.get(key) for key in ("quota", *NUMBERS, "can_start_now", "low_can_start_now")}
    limits = {"quota", "can_start_now", "low_can_start_now"} | ({"available"} if row["quota"] == NO_LIMIT else set())
    unlimited = {key: as_json(UNLIMITED) for key in limits if numbers[key] == NO_LIMIT}
    return [*(numbers | unlimited).values(), drawn_bar(row)]


@client_command(app, "show")
def show(session: ClientSession, parent: ParentArgument, subpool: SubpoolArgument) -> None:
    """Show one subpool, also an archived one.

    Example: osmo pool subpool show vision detect
    """
    answer = session.http().get(_subpool_url(parent, subpool))
    print_answer(session, answer, lambda: _subpool_facts(answer))


def _subpool_facts(answer: dict[str, Any]) -> Facts:
    return Facts(
        [
            ("Subpool", answer["name"]),
            ("Parent", answer["parent_pool"]),
            ("State", answer["subpool_state"]),
            (QUOTA.label, answer["quota"]),
            *((f"{QUOTA.label} of {flavor}", gpus) for flavor, gpus in (answer.get("quotas") or {}).items()),
            ("Last quota", answer["last_quota"]),
            ("Temporary until", format_local_time(answer.get("quota_until"))),
            ("Quota after that", answer.get("quota_after")),
            ("Drain deadline", format_local_time(answer.get("drain_by"))),
            ("Scheduling quota", answer["scheduling_quota"]),
            *((POOL_NUMBERS[key].label, answer[key]) for key in NUMBERS),
            ("Queue", answer["queue"]),
            ("Version", answer["version"]),
        ]
    )


def _active_workflows_text(count: int) -> str:
    return "1 active workflow has" if count == 1 else f"{count} active workflows have"
