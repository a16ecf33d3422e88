"""The reference has every command and exit code, and every option has an environment variable."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer
from typer.testing import CliRunner

from osmo_admin.cli.base.help_text import EXAMPLE, SHARED_VARIABLES, example_of
from osmo_admin.cli.client import SECTIONS, app
from scripts.reference.client import render_reference

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


def test_every_option_has_a_variable_by_the_rule_that_stands_once():
    options = [
        (option.envvar or f"{ctx.auto_envvar_prefix}_{option.name.upper()}", ctx, option)
        for command, ctx in all_commands()
        for option in command.params
        if option.param_type_name == "option" and not WITHOUT_VARIABLE & set(option.opts)
    ]
    assert len(options) > 100
    by_rule = {f"{ctx.command_path} {option.name}".replace(" ", "_").upper() for _, ctx, option in options}
    assert {name for name, _, _ in options} <= by_rule | set(SHARED_VARIABLES)
    assert "OSMO_POOL_LIST_MODE" in by_rule
    for text in (render_reference(), help_of()):
        assert text.count("OSMO_POOL_LIST_MODE") == 1
        assert "env var" not in text


def test_the_help_lists_each_command_once_under_a_section():
    names = [name for section in SECTIONS.values() for name in section]
    root: Any = typer.main.get_command(app)
    assert sorted(names) == sorted(root.commands)
    text = help_of()
    assert [heading for heading in SECTIONS if f"\n{heading}:\n" not in text] == []
    assert "Commands:" not in text


def test_no_summary_is_cut():
    """Summaries are whole sentences: none ends in dots, at any width."""
    summaries = [command.get_short_help_str(20) for command, _ in all_commands()]
    assert [each for each in summaries if not each or each.endswith(("...", "…"))] == []


def test_every_command_has_an_example_that_parses():
    root: Any = typer.main.get_command(app)
    for command, ctx in all_commands():
        if getattr(command, "commands", None) and not getattr(command, "invoke_without_command", False):
            continue
        example = example_of(command.help)
        assert example, ctx.command_path
        program, *words = shlex.split(example.partition(" > ")[0])
        found = root
        parent = found.make_context(program, [], resilient_parsing=True)
        while words and words[0] in getattr(found, "commands", {}):
            name = words.pop(0)
            found = found.commands[name]
            if words and words[0] in getattr(found, "commands", {}):
                parent = found.make_context(name, [], parent=parent, resilient_parsing=True)
        assert found.help == command.help, example
        found.make_context(ctx.info_name, words, parent=parent)  # a usage error fails the test
        assert f"\n  {EXAMPLE}{example}\n" in command.get_help(ctx), "the example is not on a line of its own"


def test_help_is_a_command(osmo):
    assert osmo.bare("help", "pool", "list").stdout == osmo.bare("pool", "list", "--help").stdout
    assert osmo.bare("help").stdout == osmo.bare("--help").stdout
    refused = osmo.bare("help", "pool", "lst")
    assert (refused.exit_code, refused.stderr) == (2, "Error: osmo pool has no command lst. Did you mean list?\n")


def help_of(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="osmo")
    assert result.exit_code == 0
    return result.stdout


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
    seen: dict[str, int] = {}
    for command, ctx in all_commands():
        for option in command.params:
            if option.param_type_name == "option":
                name = option.envvar or f"{ctx.auto_envvar_prefix}_{option.name.upper()}"
                seen[name] = seen.get(name, 0) + 1
    assert {name for name, count in seen.items() if count > 1} == set(SHARED_VARIABLES) - {"OSMO_URL"}
