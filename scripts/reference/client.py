"""The reference of `osmo` as Markdown, generated from the commands by `make reference`, into docs/client.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from textwrap import fill
from typing import Any

import typer

from osmo_admin.cli.base.help_text import EXAMPLE, VARIABLES, example_of
from osmo_admin.cli.client import app

PAGE_HEAD = f"""\
# The client `osmo`

<!-- Generated from the commands by `make reference`. -->

Every command has `--help`, and `osmo help` shows the same. List options take one value each (`-p a -p b`)
or several at once (`-p a b`).

{fill(VARIABLES, 120)}

`-o table` is for people: on a terminal it fits the width, and long cells are cut; `-o wide` cuts nothing. `-o csv` has
a row of names, then the values: each number in a column of its own, times in UTC with their zone. `-o json` and
`-o yaml` print the unchanged answer of the server. `--watch` shows the answer again after each change. Error messages
go to standard error; with `-o json` the error object is printed as the answer too. A dry run changes nothing and fails
as the change itself would. Destructive commands ask for confirmation on a terminal; `--yes` confirms.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the submission was refused: a fault in it, or no room in the quota (or, with `--wait`, the workflow failed) |
| 2 | all else: an unknown name, a missing right, a local file that cannot be read, a wrong option |
| 3 | interrupted, or not confirmed |
| 10 | the server failed, or did not answer |
| 75 | too many requests: try again later |

With `-o json` the `error_code` of a refused submission is `USAGE` for a fault and `RESOURCE` for a full quota.

The login is stored in `login.yaml` in `$OSMO_CONFIG_FILE_DIR`, else `$XDG_CONFIG_HOME/osmo`, else `~/.config/osmo`, in
the format of the stock client: each client can use the login of the other. With `OSMO_URL` and `OSMO_TOKEN` no login is
needed.

Completion of commands, options, and the names of pools, workflows, nodes, users, cohorts and namespaces:
`osmo --install-completion` (bash, zsh, fish).
"""


def render_reference() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    return "\n".join([PAGE_HEAD, *_render_command(root, root.make_context("osmo", [], resilient_parsing=True), "osmo")])


def _render_command(command: Any, ctx: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", {})
    yield f"{'##' if children else '###'} `{name}`\n"
    yield f"{_join_paragraphs(command.help)}\n"
    usage = [] if children else [" ".join(command.get_usage(ctx).split()).removeprefix("Usage: ")]
    example = example_of(command.help)
    if usage or example:
        yield "\n".join(["```", *usage, *([f"# such as\n{example}"] if example else []), "```\n"])
    yield from _render_options(command, ctx)
    for child_name, child in children.items():
        child_ctx = child.make_context(child_name, [], parent=ctx, resilient_parsing=True)
        yield from _render_command(child, child_ctx, f"{name} {child_name}")


def _render_options(command: Any, ctx: Any) -> Iterator[str]:
    records = [record for parameter in command.params if (record := parameter.get_help_record(ctx))]
    rows = [f"| `{_escape_cell(names)}` | {_escape_cell(about)} |" for names, about in records]
    if rows:
        yield "\n".join(["| argument or option | |", "|---|---|", *rows]) + "\n"


def _escape_cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _join_paragraphs(text: str | None) -> str:
    return "\n\n".join(re.sub(r"\s+", " ", part) for part in _paragraphs(text))


def _paragraphs(text: str | None) -> list[str]:
    return [part for part in (text or "").strip().split("\n\n") if not part.startswith(EXAMPLE)]


if __name__ == "__main__":
    sys.stdout.write(render_reference())
