"""The reference of `osmo` as Markdown, made from the commands themselves: `python -m osmo_admin.cli.reference`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from osmo_admin.cli.client import app

PAGE_HEAD = """\
# The client `osmo`

<!-- Made from the commands: python -m osmo_admin.cli.reference > docs/client.md -->

Every command answers `--help`. Every option has an environment variable, named in its line; an option on the command
line wins. List options take one value each (`-p a -p b`) or several at once (`-p a b`).

`-o table` is for people, `-o json` and `-o yaml` are the server's answer untouched. Errors are sentences on standard
error; with `-o json` the error object is printed as the answer too. A dry run changes nothing, and fails as the change
itself would. Destructive commands ask first when somebody sits at the terminal; `--yes` answers.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the submission was refused (or, with `--wait`, the workflow failed) |
| 2 | refused, or used wrongly |
| 3 | interrupted, or answered with no |
| 10 | the server failed, refused the session, or did not answer |
| 75 | too many requests: try again later |

The login is kept in `login.yaml` in `$OSMO_CONFIG_FILE_DIR`, else `$XDG_CONFIG_HOME/osmo`, else `~/.config/osmo`, in
the format of the stock client: either client can use the other's login. `OSMO_URL` with `OSMO_TOKEN` needs no login.

Completion of commands, options and pool names: `osmo --install-completion` (bash, zsh, fish).
"""


def render_reference() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    return "\n".join([PAGE_HEAD, *_render_command(root, root.make_context("osmo", [], resilient_parsing=True), "osmo")])


def _render_command(command: Any, ctx: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", {})
    yield f"{'##' if children else '###'} `{name}`\n"
    yield f"{_join_paragraphs(command.help)}\n"
    if not children:
        yield f"```\n{' '.join(command.get_usage(ctx).split()).removeprefix('Usage: ')}\n```\n"
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
    return "\n\n".join(re.sub(r"\s+", " ", part) for part in (text or "").strip().split("\n\n"))


if __name__ == "__main__":
    print(render_reference(), end="")
