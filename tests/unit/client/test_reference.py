"""The reference has every command and exit code, and every option has an environment variable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from osmo_admin.cli.client import app
from osmo_admin.cli.reference import render_reference

WITHOUT_VARIABLE = {"--version", "--help", "--install-completion", "--show-completion"}


def walk_commands(command: Any, ctx: Any) -> Iterator[tuple[Any, Any]]:
    yield command, ctx
    for name, child in getattr(command, "commands", {}).items():
        yield from walk_commands(child, child.make_context(name, [], parent=ctx, resilient_parsing=True))


def all_commands() -> list[tuple[Any, Any]]:
    root: Any = typer.main.get_command(app)
    return list(walk_commands(root, root.make_context("osmo", [], resilient_parsing=True)))


def test_the_reference_has_every_command_and_the_exit_codes_of_the_help():
    page = render_reference()
    headings = re.findall(r"^##+ `(.+)`$", page, re.MULTILINE)
    assert headings == [ctx.command_path for _command, ctx in all_commands()]
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    text = typer.main.get_command(app).help or ""
    assert codes == re.findall(r"(?:: |; )(\d+) ", text)


def test_every_option_has_a_variable_named_in_its_help():
    options = [
        (ctx.command_path, option, option.get_help_record(ctx)[1])
        for command, ctx in all_commands()
        for option in command.params
        if option.param_type_name == "option" and not WITHOUT_VARIABLE & set(option.opts)
    ]
    assert len(options) > 100
    assert [(path, option.opts) for path, option, about in options if "env var: OSMO_" not in about] == []


def test_every_command_has_an_output_format_and_every_write_a_dry_run():
    leaves = {
        ctx.command_path: {name for option in command.params for name in option.opts}
        for command, ctx in all_commands()
        if not getattr(command, "commands", None)
    }
    assert [path for path, names in leaves.items() if not {"-o", "--output"} <= names] == []
    writing = {"create", "update", "delete", "set", "submit", "cancel", "restart", "end", "settle"}
    assert [path for path, names in leaves.items() if path.split()[-1] in writing and "--dry-run" not in names] == []
    assert [
        path for path, names in leaves.items() if path.split()[-1] in {"delete", "cancel"} and "--yes" not in names
    ] == []


def test_variables_are_unique_or_shared_on_purpose():
    shared = {"OSMO_OUTPUT", "OSMO_DRY_RUN", "OSMO_YES", "OSMO_POOL", "OSMO_TOKEN", "OSMO_USERNAME"}
    seen: dict[str, int] = {}
    for command, ctx in all_commands():
        for option in command.params:
            if option.param_type_name == "option":
                name = option.envvar or f"{ctx.auto_envvar_prefix}_{option.name.upper()}"
                seen[name] = seen.get(name, 0) + 1
    assert {name for name, count in seen.items() if count > 1} == shared
