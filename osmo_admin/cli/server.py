"""`osmo-admin`: the command for operators. Only commands that need Django load it; `--help` does not."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from osmo_admin import __version__
from osmo_admin.cli.local.import_files import import_files
from osmo_admin.cli.local.prove import prove
from osmo_admin.cli.server_commands import (
    backups,
    clusters,
    configuration,
    django,
    doctor,
    lifecycle,
    probe,
    secret_key,
    serve,
    usage,
    users,
    verify_and_demo,
    webhook,
)
from osmo_admin.cli.strict_values import read_all_strictly
from osmo_admin.processes.operator_errors import exit_with_message


class OperatorCommandGroup(TyperGroup):
    """The root command. It turns every failure into a message and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; the values of all commands are read as in files."""
        read_all_strictly(self)
        words: list[str] = super().parse_args(ctx, args)
        return words

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with exit_with_message():
            return super().invoke(ctx)


app = typer.Typer(
    name="osmo-admin",
    cls=OperatorCommandGroup,
    help="Run and operate OSMO Admin.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command()(lifecycle.up)
app.command()(serve.serve)
app.command()(lifecycle.status)
app.command()(probe.probe)
app.command()(doctor.doctor)
app.command()(doctor.support_bundle)
app.command()(lifecycle.down)
app.command()(lifecycle.reset)
app.add_typer(users.user_commands, name="user")
app.add_typer(users.token_commands, name="token")
app.command()(clusters.sync)
app.command("import")(import_files)
app.command()(prove)
app.command()(configuration.export)
app.command()(configuration.diff)
app.command()(configuration.apply)
app.command()(configuration.release)
app.command()(configuration.follow)
app.command()(verify_and_demo.verify)
app.command()(verify_and_demo.demo)
app.command()(backups.backup)
app.command()(backups.backup_identity)
app.command()(backups.restore)
app.add_typer(secret_key.app, name="key")
app.add_typer(webhook.app, name="webhook")
app.add_typer(usage.app, name="usage")
app.command()(django.check)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})(
    django.manage
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"osmo-admin {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run and operate OSMO Admin: start it, create users and tokens, verify the ledger."""


def main() -> None:
    """The console script."""
    if sys.argv[1:2] not in (["follow"], ["manage"]):
        logging.disable(logging.INFO)  # the lines of a command are its output; warnings are shown as well
    app()


if __name__ == "__main__":
    main()
