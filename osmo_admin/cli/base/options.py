"""Options and arguments that several commands share, each with its environment variable.

An option without its own variable here gets one from its command: `osmo pool list --mode` reads
`OSMO_POOL_LIST_MODE`. The help text shows the name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from osmo_admin.cli.base.completion import (
    complete_parent_pools,
    complete_pools,
    complete_subpools,
    complete_users,
    complete_workflows,
)
from osmo_admin.cli.base.session import OutputFormat


class PoolListMode(StrEnum):
    """GPUs of the nodes to add to the pool table: used or free."""

    USED = "used"
    FREE = "free"


class SortOrder(StrEnum):
    """Order of a printed list: `asc` has the newest entry at the bottom."""

    ASC = "asc"
    DESC = "desc"


OUTPUT_HELP = (
    "Output format; a table fits the terminal, wide is not cut, csv has names and plain values; json and yaml are the "
    "unchanged answer of the server; text is the same as table."
)
OutputFormatOption = Annotated[
    OutputFormat,
    typer.Option(
        "--output",
        "-o",
        "--format-type",
        "-t",
        envvar="OSMO_OUTPUT",
        case_sensitive=False,
        help=OUTPUT_HELP,
    ),
]
OutputFormatOptionWithoutT = Annotated[
    OutputFormat,
    typer.Option(
        "--output",
        "-o",
        "--format-type",
        envvar="OSMO_OUTPUT",
        case_sensitive=False,
        help=OUTPUT_HELP,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", envvar="OSMO_DRY_RUN", help="Show the effect and change nothing."),
]
WatchOption = Annotated[
    bool,
    typer.Option("--watch", help="Show the answer again after each change, until Ctrl-C."),
]
YesOption = Annotated[
    bool,
    typer.Option("--yes", "-y", envvar="OSMO_YES", help="Do not ask for confirmation."),
]

ParentArgument = Annotated[
    str, typer.Argument(metavar="PARENT", help="Pool that has the subpools.", autocompletion=complete_parent_pools)
]
SubpoolArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBPOOL", help="Short name of the subpool, `a` of `team--a`.", autocompletion=complete_subpools
    ),
]
WorkflowArgument = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="Workflow ID or UUID.", autocompletion=complete_workflows)
]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", "-d", help="Reason for the change; it is recorded in the audit log.")
]
RequestApprovalOption = Annotated[
    bool,
    typer.Option(
        "--request-approval", help="If the change needs the approval of a second person, ask for it: osmo approval."
    ),
]
IfMatchOption = Annotated[
    str | None,
    typer.Option("--if-match", metavar="VERSION", help="Change the object only if it still has this version."),
]
PoolOption = Annotated[
    str | None,
    typer.Option(
        "--pool",
        "-p",
        envvar="OSMO_POOL",
        help="Pool or subpool. Default: the default pool of your profile.",
        autocompletion=complete_pools,
    ),
]
OrderOption = Annotated[
    SortOrder,
    typer.Option("--order", case_sensitive=False, help="asc prints the newest entry at the bottom, desc at the top."),
]
TagsOption = Annotated[list[str] | None, typer.Option("--tags", "-t", metavar="TAG...", help="Tags of the change.")]
UserOption = Annotated[
    str | None,
    typer.Option(
        "--user", "-u", help="For this user instead of yourself (administrators).", autocompletion=complete_users
    ),
]
