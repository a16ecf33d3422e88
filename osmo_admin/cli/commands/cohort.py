"""`osmo cohort`: borrowing and lending between pools, and the whole quota tree."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.client_errors import ClientError
from osmo_admin.cli.command_decorator import client_command, command_group
from osmo_admin.cli.completion import complete_cohorts
from osmo_admin.cli.effect_text import show_effect
from osmo_admin.cli.http import url_path
from osmo_admin.cli.options import DescriptionOption, IfMatchOption
from osmo_admin.cli.output import print_answer
from osmo_admin.cli.quota_tree_table import quota_tree_table
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import Facts, build_table
from osmo_admin.cli.yaml_files import parse_number
from pools.domain.changes.cohorts import DeleteCohort
from pools.domain.quota.tree import AMOUNT_KEYS, LIMIT_KEYS

app = command_group("Cohorts: limits of borrowing and lending above the pools.")
QUOTA_ROW_PATTERN = re.compile(r"(?:([^/=]+)/)?([^=]+)=([^:]*)(?::([^:]*))?(?::([^:]*))?")
HEADER = ("Cohort", "Parent", "Weight", "Quotas", "Cohorts", "Pools")

CohortArgument = Annotated[
    str, typer.Argument(metavar="COHORT", help="Name of the cohort.", autocompletion=complete_cohorts)
]
QuotasOption = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        "-q",
        metavar="RESOURCE=NOMINAL[:BORROW[:LEND]]...",
        help="Nominal quota of a resource, with the limits of borrowing and lending of its subtree: gpu=6, gpu=6:8, "
        "gpu=0::5, h100/gpu=4.",
    ),
]
ParentOption = Annotated[
    str | None, typer.Option("--parent", metavar="COHORT", help="Parent cohort; without it the cohort is a root.")
]
WeightOption = Annotated[
    float | None, typer.Option("--weight", min=0, help="Weight in the comparison of fair shares. Default: 1.")
]
ROOT_HELP = "Cohort or pool at the top of the printed tree. Default: everything that you may see."


def parse_quota_rows(typed: list[str] | None) -> list[dict[str, Any]]:
    """The rows of a PUT from `gpu=6:8:2`. Text that is not a number is sent unchanged: the server's message is better.
    Raises :class:`ClientError` for text that is not a row."""
    rows = []
    for text in typed or []:
        match = QUOTA_ROW_PATTERN.fullmatch(text.strip())
        if match is None:
            raise ClientError("--quota: write RESOURCE=NOMINAL[:BORROW[:LEND]], as gpu=6:8 or gpu=0::5.")
        flavor, resource, *amounts = match.groups()
        row = {"resource": resource, **dict(zip(AMOUNT_KEYS, map(_parse_amount, amounts), strict=True))}
        rows.append(row | ({"flavor": flavor} if flavor else {}))
    return rows


def _parse_amount(text: str | None) -> int | float | str | None:
    text = (text or "").strip()
    return parse_number(text) if text else None


def _cohort_url(*name: str) -> str:
    return url_path("api", "configs", "cohort", *name)


@client_command(app, "put", writes=True)
def put(
    session: ClientSession,
    *,
    name: CohortArgument,
    parent: ParentOption = None,
    quotas: QuotasOption = None,
    weight: WeightOption = None,
    description: DescriptionOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Create a cohort, or replace its whole configuration: options that are not given are cleared."""
    body: dict[str, Any] = {"parent": parent, "quotas": parse_quota_rows(quotas)}
    body |= {} if weight is None else {"weight": weight}
    _send_change(session, "PUT", name, body, description, if_match)


@client_command(app, "move", writes=True)
def move(
    session: ClientSession,
    *,
    name: CohortArgument,
    parent: ParentOption = None,
    description: DescriptionOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Move a cohort with its subtree to another parent. Without --parent it becomes a root, without limits."""
    _send_change(session, "PATCH", name, {"parent": parent}, description, if_match)


def _send_change(
    session: ClientSession, method: str, name: str, body: dict[str, Any], description: str | None, if_match: str | None
) -> None:
    body |= {"description": description} if description else {}
    answer = session.http().send_change(
        method, _cohort_url(name), query=session.dry_run_query, body=body, if_match=if_match
    )
    if session.dry_run:
        show_effect(session, answer)
    else:
        print_answer(session, answer, lambda: _result_message(answer))


def _result_message(answer: dict[str, Any]) -> str:
    place = f"below {answer['parent']}" if answer["parent"] else "a root"
    return f"Cohort {answer['name']} is {place}, with {_quotas_text(answer) or 'no quota of its own'}."


@change_command(app, "delete", DeleteCohort, confirms=True)
def delete(_session: ClientSession, change: TypedChange) -> None:
    """Delete a cohort with its quota. A cohort with children needs --orphan."""
    name = change["name"]
    change.confirm(f"Delete cohort {name}?", "DELETE", _cohort_url(name))
    change.show(change.send("DELETE", _cohort_url(name)), lambda _: f"Cohort {name} deleted.")


@client_command(app, "list")
def list_(session: ClientSession) -> None:
    """List cohorts with their quotas and direct children."""
    answer = session.http().get(_cohort_url())
    print_answer(session, answer, lambda: build_table(HEADER, [_cohort_row(row) for row in answer["cohorts"]]))


def _cohort_row(row: dict[str, Any]) -> list[Any]:
    name = row["name"] if row["explicit"] else f"{row['name']} (implicit)"
    return [name, row["parent"], row["weight"], _quotas_text(row), row["cohorts"], row["pools"]]


@client_command(app, "show")
def show(session: ClientSession, name: CohortArgument) -> None:
    """Show one cohort."""
    answer = session.http().get(_cohort_url(name))
    print_answer(session, answer, lambda: _cohort_facts(answer))


def _cohort_facts(answer: dict[str, Any]) -> Facts:
    lines = [
        ("Cohort", answer["name"]),
        ("Parent", answer["parent"]),
        ("Weight", answer["weight"]),
        *((f"Quota of {row['flavor']}/{row['resource']}", _limits_text(row)) for row in answer["quotas"]),
        ("Child cohorts", answer["cohorts"]),
        ("Child pools", answer["pools"]),
        ("Version", answer["version"]),
    ]
    if answer["condition"]:
        lines.append(("Not active", answer["condition"]["message"]))
        lines.append(("Inactive since", answer.get("inactive_since") or "not recorded yet"))
    return Facts(lines)


def _quotas_text(answer: dict[str, Any]) -> str:
    return ", ".join(f"{row['flavor']}/{row['resource']} {_limits_text(row)}" for row in answer["quotas"])


def _limits_text(row: dict[str, Any]) -> str:
    limits = [
        f"{word} at most {row[limit]}"
        for word, limit in zip(("borrows", "lends"), LIMIT_KEYS, strict=True)
        if row[limit] is not None
    ]
    return f"{row['nominal']} ({', '.join(limits)})" if limits else str(row["nominal"])


@client_command(app, "tree")
def tree(
    session: ClientSession,
    *,
    root: Annotated[
        str | None, typer.Argument(metavar="[ROOT]", help=ROOT_HELP, autocompletion=complete_cohorts)
    ] = None,
    resource: Annotated[str, typer.Option("--resource", "-r", help="FLAVOR/RESOURCE to show.")] = "default/gpu",
    leaves: Annotated[
        bool, typer.Option("--leaves/--no-leaves", help="With the queues of subpools and pool remainders.")
    ] = True,
) -> None:
    """Show the quota tree: quota, use, borrowing, lending and capacity of each node."""
    answer = session.http().get(url_path("api", "quota_tree"), {"root": root} if root else {})
    key = resource if "/" in resource else f"default/{resource}"
    print_answer(session, answer, lambda: quota_tree_table(answer["nodes"], key, leaves=leaves))
