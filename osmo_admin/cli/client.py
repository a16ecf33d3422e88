"""`osmo`: the client for users of pools. It sends HTTP requests to the server and does not import Django."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from osmo_admin import __version__
from osmo_admin.cli.base.client_errors import INTERRUPTED, REFUSED, SERVER_FAILED, ClientError
from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.help_text import VARIABLES, HelpedGroup
from osmo_admin.cli.base.output import print_answer, print_error
from osmo_admin.cli.base.session import ClientSession, print_warning
from osmo_admin.cli.commands import (
    agents,
    approval,
    audit,
    backend,
    cohort,
    config,
    jobs,
    login,
    notice,
    pool,
    profile,
    quota,
    user,
)
from osmo_admin.cli.commands import (
    token as access_token,
)
from osmo_admin.cli.commands.work import outcomes, resource, task, usage, workflow
from osmo_admin.cli.local import offline, replay
from osmo_admin.cli.strict_values import read_strictly

SECTIONS = {
    "Work": ("workflow", "task", "usage"),
    "Pools and quotas": ("pool", "quota", "cohort", "approval"),
    "Clusters": ("resource", "backend"),
    "Changes and news": ("audit", "outcomes", "jobs", "notice", "config"),
    "People": ("login", "logout", "profile", "token", "user"),
    "Try out": ("simulate", "replay", "podgroup"),
    "This program": ("help", "version", "mcp"),
}
"""The commands as `osmo --help` lists them."""
OTHER_WORDS = {
    "node": "resource",
    "cluster": "backend",
    "job": "workflow",
    "queue": "workflow queue",
    "submit": "workflow submit",
    "cancel": "workflow cancel",
    "subpool": "pool subpool",
    "inbox": "notice inbox",
    "events": "workflow events",
}
"""What people type first who know other schedulers, and what it is called here."""


class ClientCommandGroup(HelpedGroup):
    """The root command. It turns every failure into a message and an exit code."""

    sections = SECTIONS

    def meant_command(self, word: str) -> str | None:
        """As for each group; of a word of other schedulers it is ours."""
        return OTHER_WORDS.get(word.removesuffix("s")) or OTHER_WORDS.get(word) or super().meant_command(word)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command."""
        read_strictly(self.params)
        words: list[str] = super().parse_args(ctx, args)
        return words

    def invoke(self, ctx: Any) -> Any:
        """Run the command and close the connection in any case."""
        try:
            return super().invoke(ctx)
        except ClientError as error:
            print_error(error, ctx.obj.output)
            raise typer.Exit(error.exit_code) from error
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            print_warning(f"Error: The server's answer has an unexpected shape ({error!r}). See it with -o json.")
            raise typer.Exit(SERVER_FAILED) from error
        except (KeyboardInterrupt, typer.Abort) as error:
            raise typer.Exit(INTERRUPTED) from error
        finally:
            if ctx.obj is not None:
                ctx.obj.close()


app = typer.Typer(
    name="osmo",
    cls=ClientCommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=VARIABLES,
    context_settings={"auto_envvar_prefix": "OSMO", "help_option_names": ["--help", "-h"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"osmo {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    *,
    url: Annotated[
        str | None, typer.Option(envvar="OSMO_URL", help="Server, instead of the one you logged in to.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="OSMO_TOKEN", help="Access token, instead of a stored login; better in the environment."),
    ] = None,
    username: Annotated[
        str | None,
        typer.Option(envvar="OSMO_USERNAME", help="User at a server in development mode, instead of a stored login."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(envvar="OSMO_TIMEOUT", min=0.1, help="Seconds to wait for an answer.")
    ] = 60.0,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            allow_from_autoenv=False,  # OSMO_VERSION means something else to other programs
            show_envvar=False,
            help="Show the version of the client and exit.",
        ),
    ] = False,
) -> None:
    """Share GPUs: pools, their subpools, and the workflows in them.

    Exit codes: 0 done; 1 a submission was refused; 2 refused, or a usage error; 3 interrupted; 10 the server failed or
    did not answer; 75 too many requests, try again.
    """
    ctx.obj = ClientSession(url=url, token=token, username=username, timeout=timeout)


login.add_to(app)
for family, name in (
    (profile, "profile"),
    (pool, "pool"),
    (quota, "quota"),
    (workflow, "workflow"),
    (task, "task"),
    (resource, "resource"),
    (config, "config"),
    (access_token, "token"),
    (user, "user"),
    (backend, "backend"),
    (cohort, "cohort"),
    (notice, "notice"),
    (approval, "approval"),
):
    app.add_typer(family.app, name=name)
audit.add_to(app)
outcomes.add_to(app)
jobs.add_to(app)
agents.add_to(app)
usage.add_to(app)
offline.add_to(app)
replay.add_to(app)


@client_command(app, "help")
def help_(
    session: ClientSession,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Such as: pool list.")] = None,
) -> None:
    """Show the help of a command, as --help does.

    Example: osmo help pool list
    """
    found: Any = typer.main.get_command(app)
    context = found.make_context("osmo", [], resilient_parsing=True)
    for word in command or []:
        below = getattr(found, "commands", {}).get(word)
        if below is None:
            near = found.meant_command(word) if isinstance(found, HelpedGroup) else None
            meant = f" Did you mean {near}?" if near else f" See them all: {context.command_path} --help."
            raise ClientError(f"{context.command_path} has no command {word}.{meant}")
        found, context = below, below.make_context(word, [], parent=context, resilient_parsing=True)
    text = found.get_help(context)
    print_answer(session, {"help": text}, lambda: text)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None: closed by the parent process
            # A terminal that cannot show a character gets an escape sequence instead of a stack trace.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="osmo")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        print_warning(f"Error: The answer cannot be written: {error.strerror or error}.")
        # Buffered output is discarded; otherwise the interpreter reports the same error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(REFUSED)
