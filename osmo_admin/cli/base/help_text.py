"""The help of commands: sections of the commands below, whole summaries, and an example as it is typed.

A docstring has the example in a paragraph of its own: `Example: osmo pool list --pool vision`. Environment variables
stand once, at the end of `osmo --help`, and not at each option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

EXAMPLE = "Example: "
SHARED_VARIABLES = ("OSMO_OUTPUT", "OSMO_POOL", "OSMO_DRY_RUN", "OSMO_YES", "OSMO_URL", "OSMO_TOKEN", "OSMO_USERNAME")
"""Those that several commands read."""
VARIABLES = (
    "Each option has an environment variable, and the command line wins: OSMO_POOL_LIST_MODE is that of osmo pool list "
    f"--mode, and OSMO_TIMEOUT that of osmo --timeout. Several commands share {', '.join(SHARED_VARIABLES[:-1])} and "
    f"{SHARED_VARIABLES[-1]}."
)
_UNWRAPPED = "\b\n"
_SAME_COMMANDS = (
    ("show", "get", "query", "info", "describe", "list"),
    ("list", "ls", "show"),
    ("create", "add", "new", "put", "set"),
    ("update", "set", "edit", "resize", "change", "put", "adjust"),
    ("delete", "remove", "rm"),
)
"""Words of which each command has one: the first that it has is meant by any of them."""


class HelpText:
    """What all commands have in their help."""

    help: str | None
    short_help: str | None
    params: list[Any]
    sections: Mapping[str, Sequence[str]] = {}

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence, whole."""
        first = " ".join((self.short_help or self.help or "").split("\n\n")[0].split())
        return re.split(r"[.;](?:\s|$)", first, maxsplit=1)[0]

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options; their help names no variables."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            parameter.show_envvar = False
        return found

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """The sentences, and the example on a line of its own."""
        text = self.help
        if text:
            self.help = text.replace(EXAMPLE, f"{_UNWRAPPED}{EXAMPLE}")
        try:
            super().format_help_text(ctx, formatter)  # type: ignore[misc]
        finally:
            self.help = text


class HelpedCommand(HelpText, TyperCommand):
    """A command whose help has all that helps."""


class HelpedGroup(HelpText, TyperGroup):
    """A group of commands whose help has all that helps."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word; the error for an unknown one says which is meant."""
        if args and self.get_command(ctx, args[0]) is None and (meant := self.meant_command(args[0])):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)

    def meant_command(self, word: str) -> str | None:
        """The command that is spelled nearly so; else one that other programs call so."""
        if near := get_close_matches(word, self.commands, n=1):
            return near[0]
        known = [words for words in _SAME_COMMANDS if word in words]
        return next((each for words in known for each in words if each in self.commands), None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands under the headings of their sections, all of them under one without sections."""
        for heading, names in (self.sections or {"Commands": self.list_commands(ctx)}).items():
            rows = [(name, self.commands[name].get_short_help_str()) for name in names if name in self.commands]
            with formatter.section(heading):
                formatter.write_dl(rows)


def example_of(text: str | None) -> str | None:
    """The command line that a help text has as its example."""
    found = [part for part in (text or "").split("\n\n") if part.startswith(EXAMPLE)]
    return found[0].removeprefix(EXAMPLE).strip() if found else None
