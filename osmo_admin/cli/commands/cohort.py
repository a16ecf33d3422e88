"""`osmo cohort`: borrowing and lending between pools, and the whole quota tree."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_cohorts, complete_roots
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import Facts, Shown, build_table, headings
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.text.quota_tree_table import quota_tree_table
from pools.domain.changes.cohorts import DeleteCohort, PatchCohort, PutCohort
from pools.domain.configuration.cohort_config import COHORT_FIELDS, MAX_AMOUNT, row_from_text
from pools.domain.list_columns import COHORT_COLUMNS
from pools.domain.numbers import WEIGHT
from pools.domain.quota.tree import AMOUNT_KEYS, LIMIT_KEYS
from pools.domain.values.amounts import DEFAULT_FLAVOR

app = command_group("Cohorts: limits of borrowing and lending above the pools.")
_FIELDS = {each.key: each for each in COHORT_FIELDS}

CohortArgument = Annotated[
    str, typer.Argument(metavar="COHORT", help="Name of the cohort.", autocompletion=complete_cohorts)
]
ParentOption = Annotated[
    str | None,
    typer.Option("--parent", metavar="COHORT", help=_FIELDS["parent"].help, autocompletion=complete_cohorts),
]
CONFIGURATION = {
    "parent": ParentOption,
    "quotas": Annotated[
        list[str] | None,
        typer.Option(
            "--quota",
            "-q",
            metavar="RESOURCE=NOMINAL[:BORROW[:LEND]]...",
            help="Nominal quota of a resource, with the limits of borrowing and lending of its subtree: gpu=6, "
            "gpu=6:8, gpu=0::5, h100/gpu=4.",
        ),
    ],
    "weight": Annotated[float | None, typer.Option("--weight", min=0, help=_FIELDS["weight"].help)],
}
ROOT_HELP = "Cohort or pool at the top of the printed tree. Default: everything that you may see."


def parse_quota_rows(typed: list[str] | None) -> list[dict[str, Any]]:
    """The rows of a PUT from `gpu=6:8:2`. Raises :class:`ClientError` for text that is not a row, and for amounts that
    are not numbers, which the server would call by their places in JSON."""
    rows = [row_from_text(text) for text in typed or []]
    if not all(row and all(_is_amount(row[key]) for key in AMOUNT_KEYS) for row in rows):
        raise ClientError(
            "--quota: write RESOURCE=NOMINAL[:BORROW[:LEND]], each a whole number from 0 to "
            f"{MAX_AMOUNT:,}, as gpu=6:8 or gpu=0::5. An empty BORROW or LEND is no limit."
        )
    return [row for row in rows if row is not None]


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, int) and 0 <= value <= MAX_AMOUNT)


def _cohort_url(*name: str) -> str:
    return url_path("api", "configs", "cohort", *name)


@change_command(app, "put", PutCohort, options=CONFIGURATION)
def put(_session: ClientSession, change: TypedChange) -> None:
    """Create a cohort, or replace its whole configuration: options that are not given are cleared.

    Example: osmo cohort put research --parent company --weight 2
    """
    weight = {} if change["weight"] is None else {"weight": change["weight"]}
    body = {"parent": change["parent"], "quotas": parse_quota_rows(change["quotas"]), **weight}
    change.show(change.send("PUT", _cohort_url(change["name"]), body), _result_message)


@change_command(app, "move", PatchCohort, options={"parent": ParentOption})
def move(_session: ClientSession, change: TypedChange) -> None:
    """Move a cohort with its subtree to another parent. Without --parent it becomes a root, without limits.

    Example: osmo cohort move research --parent company
    """
    change.show(change.send("PATCH", _cohort_url(change["name"]), {"parent": change["parent"]}), _result_message)


def _result_message(answer: dict[str, Any]) -> str:
    place = f"below {answer['parent']}" if answer["parent"] else "a root"
    return f"Cohort {answer['name']} is {place}, with {_quotas_text(answer) or 'no quota of its own'}."


@change_command(app, "delete", DeleteCohort, confirms=True)
def delete(_session: ClientSession, change: TypedChange) -> None:
    """Delete a cohort with its quota. A cohort with children needs --orphan.

    Example: osmo cohort delete research --dry-run
    """
    name = change["name"]
    change.confirm(f"Delete cohort {name}?", "DELETE", _cohort_url(name))
    change.show(change.send("DELETE", _cohort_url(name)), lambda _: f"Cohort {name} deleted.")


@client_command(app, "list")
def list_(session: ClientSession) -> None:
    """List cohorts with their quotas and direct children.

    Example: osmo cohort list
    """
    answer = session.http().get(_cohort_url())
    header = headings(COHORT_COLUMNS.values())
    print_answer(session, answer, lambda: build_table(header, [_cohort_row(row) for row in answer["cohorts"]]))


def _cohort_row(row: dict[str, Any]) -> list[Any]:
    name = row["name"] if row["explicit"] else Shown(f"{row['name']} (implicit)", row["name"])
    quotas = Shown(_quotas_text(row), [_typed_quota(each) for each in row["quotas"]])
    return [name, row["parent"], row["weight"], quotas, row["cohorts"], row["pools"]]


@client_command(app, "show")
def show(session: ClientSession, name: CohortArgument) -> None:
    """Show one cohort.

    Example: osmo cohort show research
    """
    answer = session.http().get(_cohort_url(name))
    print_answer(session, answer, lambda: _cohort_facts(answer))


def _cohort_facts(answer: dict[str, Any]) -> Facts:
    lines = [
        ("Cohort", answer["name"]),
        ("Parent", answer["parent"]),
        (WEIGHT.label, answer["weight"]),
        *((f"Quota of {_resource_text(row)}", _limits_text(row)) for row in answer["quotas"]),
        ("Child cohorts", answer["cohorts"]),
        ("Child pools", answer["pools"]),
        ("Version", answer["version"]),
    ]
    if answer["condition"]:
        lines.append(("Not active", answer["condition"]["message"]))
        lines.append(("Inactive since", answer.get("inactive_since") or "not recorded yet"))
    return Facts(lines)


def _quotas_text(answer: dict[str, Any]) -> str:
    return ", ".join(f"{_resource_text(row)} {_limits_text(row)}" for row in answer["quotas"])


def _typed_quota(row: dict[str, Any]) -> str:
    """A quota as `--quota` takes it."""
    limits = ["" if row[limit] is None else str(row[limit]) for limit in LIMIT_KEYS]
    return f"{_resource_text(row)}={':'.join([str(row['nominal']), *limits]).rstrip(':')}"


def _resource_text(row: dict[str, Any]) -> str:
    """The resource as `--quota` takes it: without the flavor where that is the only one."""
    return f"{row['flavor']}/{row['resource']}".removeprefix(f"{DEFAULT_FLAVOR}/")


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
    root: Annotated[str | None, typer.Argument(metavar="[ROOT]", help=ROOT_HELP, autocompletion=complete_roots)] = None,
    resource: Annotated[str, typer.Option("--resource", "-r", help="FLAVOR/RESOURCE to show.")] = "default/gpu",
    leaves: Annotated[
        bool, typer.Option("--leaves/--no-leaves", help="With the queues of subpools and pool remainders.")
    ] = True,
) -> None:
    """Show the quota tree: quota, use, borrowing, lending and capacity of each node.

    Example: osmo cohort tree company --leaves
    """
    answer = session.http().get(url_path("api", "quota_tree"), {"root": root} if root else {})
    key = resource if "/" in resource else f"default/{resource}"
    print_answer(session, answer, lambda: quota_tree_table(answer["nodes"], key, leaves=leaves))
