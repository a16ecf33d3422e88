"""Declaration of commands: a command is a function of the session and its own arguments.

`@client_command(group, "name")` adds the option of every command (`-o`), of every write (`--dry-run`) and of every
destructive command (`--yes`), so that no command can lack them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.completion import Completion, names_hint, require_known_pools
from osmo_admin.cli.base.help_text import HelpedCommand, HelpedGroup
from osmo_admin.cli.base.list_options import OptionGrammar, repeat_list_options
from osmo_admin.cli.base.options import (
    DryRunOption,
    OutputFormatOption,
    OutputFormatOptionWithoutT,
    WatchOption,
    YesOption,
)
from osmo_admin.cli.base.session import ClientSession, OutputFormat
from osmo_admin.cli.base.watch import show_each_change
from osmo_admin.cli.strict_values import read_strictly

CommandFunction = Callable[..., None]


class ListOptionWords:
    """List options also take several words at once, as in the stock client."""

    params: list[Any]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after each list option was repeated for its values."""
        read_strictly(self.params)
        words: list[str] = super().parse_args(  # type: ignore[misc]
            ctx, repeat_list_options(args, self._grammar())
        )
        return words

    def _grammar(self) -> OptionGrammar:
        lists: set[str] = set()
        pairs: set[str] = set()
        single: set[str] = set()
        positional: int | None = 0
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                positional = None if parameter.nargs == -1 or positional is None else positional + 1
            elif getattr(parameter, "multiple", False):
                lists.update(parameter.opts)
                if "=" in (getattr(parameter, "metavar", None) or ""):
                    pairs.update(parameter.opts)
            elif not getattr(parameter, "is_flag", False):
                single.update(parameter.opts)
        return OptionGrammar(frozenset(lists), frozenset(pairs), frozenset(single), positional)


class ListOptionCommand(ListOptionWords, HelpedCommand):
    """A command with list options."""


class ListOptionGroup(ListOptionWords, HelpedGroup):
    """A command with list options and with commands below it."""


def command_group(about: str) -> typer.Typer:
    """A group of commands under one name."""
    return typer.Typer(cls=HelpedGroup, help=about, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


def client_command(
    family: typer.Typer,
    name: str,
    *,
    writes: bool = False,
    confirms: bool = False,
    watches: bool = False,
    short_t: bool = True,
    is_group: bool = False,
) -> Callable[[CommandFunction], CommandFunction]:
    """Register a command. `short_t=False` leaves `-t` to the command's own option (tags). `is_group`: it is the command
    of the family itself, when no command below is named."""

    def register(function: CommandFunction) -> CommandFunction:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        names = {option_name(parameter): parameter.name for parameter in own}
        sources = {each.name: source for each in own if (source := _completion_of(each))}
        shared: list[tuple[str, Any, Any]] = [
            ("output", OutputFormatOption if short_t else OutputFormatOptionWithoutT, OutputFormat.TABLE)
        ]
        if writes:
            shared.append(("dry_run", DryRunOption, False))
        if confirms:
            shared.append(("yes", YesOption, False))
        if watches:
            shared.append(("watch", WatchOption, False))
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("ctx", keyword, annotation=typer.Context),
            *(parameter.replace(name=option_name(parameter), kind=keyword) for parameter in own),
            *(inspect.Parameter(each, keyword, default=value, annotation=kind) for each, kind, value in shared),
        ]

        def run(**values: Any) -> None:
            ctx = values.pop("ctx")
            if ctx.invoked_subcommand is not None:
                return
            session: ClientSession = ctx.obj
            for each, _, _ in shared:
                setattr(session, each, values.pop(each))
            arguments = {names[name]: value for name, value in values.items()}
            session.find_hint = lambda lists: names_hint(ctx, sources, arguments, lists=lists)
            session.require_known_names = lambda: require_known_pools(ctx, sources, arguments)
            try:
                if session.watch:
                    show_each_change(session, lambda: function(session, **arguments))
                else:
                    function(session, **arguments)
            except ClientError as error:
                session.add_hint(error)
                raise
            session.hint_at_nothing()

        run.__name__ = function.__name__
        run.__doc__ = function.__doc__
        run.__module__ = function.__module__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        if is_group:
            family.callback(cls=ListOptionGroup, invoke_without_command=True)(run)
        else:
            family.command(name, cls=ListOptionCommand)(run)
        return function

    return register


def _completion_of(parameter: inspect.Parameter) -> Completion | None:
    """The source of the names that may be given for it."""
    declared = getattr(parameter.annotation, "__metadata__", ())
    return next((info.autocompletion for info in declared if getattr(info, "autocompletion", None)), None)


def option_name(parameter: inspect.Parameter) -> str:
    """The name of a parameter on the command line, `set_string` for `--set-string`.

    The environment variable is made from this name, so the parameter of the function may have another name.
    """
    for info in getattr(parameter.annotation, "__metadata__", ()):
        # Typer keeps the first option name of an Annotated option in `default`.
        declared = [info.default, *(info.param_decls or ())]
        for name in declared:
            if isinstance(name, str) and name.startswith("--"):
                return name.split("/")[0].removeprefix("--").replace("-", "_")
    return parameter.name
