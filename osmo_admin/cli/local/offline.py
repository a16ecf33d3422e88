"""`osmo simulate` and `osmo podgroup validate|plan`: answers from files, without a server.

Several files, a directory, several documents or `-` are a batch: one JSON object for each document and line, errors
included. `osmo simulate --live` is the exception: the server simulates its own state.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import detail_location
from osmo_admin.cli.base.command_decorator import command_group
from osmo_admin.cli.base.help_text import HelpedCommand
from osmo_admin.cli.base.tables import printable_text
from osmo_admin.cli.local.offline_text import plan_text, simulation_text, validation_text

if TYPE_CHECKING:
    from scheduling.scenario.batch import Batch


class AnswerFormat(StrEnum):
    """The format of one answer; a batch is always one JSON object for each line."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


FilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE…", help="YAML or JSON files, directories of them, or - for standard input."),
]
OptionalFilesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE…", help="YAML or JSON files, directories of them, or - for standard input."),
]
AnswerFormatOption = Annotated[
    AnswerFormat,
    typer.Option(
        "--output", "-o", "--format-type", "-t", envvar="OSMO_OUTPUT", case_sensitive=False,
        help="Output format: text for people, json or yaml for programs. A batch is printed as JSON lines.",
    ),
]  # fmt: skip


def add_to(app: typer.Typer) -> None:
    """Register `simulate` and the group `podgroup` with their commands."""
    app.command("simulate", cls=HelpedCommand)(simulate)
    group = command_group("Check PodGroup manifests and plan their gangs, without a server.")
    group.command("validate", cls=HelpedCommand)(validate)
    group.command("plan", cls=HelpedCommand)(plan)
    app.add_typer(group, name="podgroup")


def simulate(
    ctx: typer.Context,
    *,
    files: OptionalFilesArgument = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Let the server simulate its own state with the `changes` of FILE. Nothing is written."
        ),
    ] = False,
    backend: Annotated[
        str | None, typer.Option("--backend", "-b", help="With --live: the backend, if there are several.")
    ] = None,
    output: AnswerFormatOption = AnswerFormat.TEXT,
) -> None:
    """Run scenario files through the scheduler: workloads that start or stay pending, with the reason, and each queue.

    With --live the server simulates its own state: FILE holds `changes` as in a scenario; without FILE the current
    state is shown. Exit code 0: every file was answered; 2: a file could not be read.

    Example: osmo simulate week.yaml
    """
    if live:
        from osmo_admin.cli.base.session import OutputFormat
        from osmo_admin.cli.local.simulate_live import simulate_live

        ctx.obj.output = OutputFormat(output.value)
        _print_answer(simulate_live(ctx.obj, files or [], backend), output, simulation_text)
        return
    if not files or backend:
        raise typer.BadParameter(
            "Name at least one FILE, or simulate the state of the server with --live (and --backend).", ctx=ctx
        )
    from scheduling.scenario import simulate_sources as simulate_files

    batch = simulate_files(files)
    _print_batch(batch, output, simulation_text)
    raise typer.Exit(batch.exit_code)


def validate(files: FilesArgument, output: AnswerFormatOption = AnswerFormat.TEXT) -> None:
    """Check PodGroup manifests against every rule of minMember and minSubGroup.

    Objects of other kinds in the files are skipped and counted. Exit code 0: all are valid; 1: some are not valid; 2: a
    file could not be read.

    Example: osmo podgroup validate gang.yaml
    """
    from scheduling.scenario.podgroup_batches import validate_files, validation_exit_code

    batch = validate_files(files)
    _print_batch(batch, output, validation_text)
    if batch.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in batch.skipped.items())
        typer.echo(f"Skipped, because they are not PodGroups: {kinds}.", err=True)
    raise typer.Exit(validation_exit_code(batch))


def plan(files: FilesArgument, output: AnswerFormatOption = AnswerFormat.TEXT) -> None:
    """Show the next pods of PodGroups: {podgroup: manifest, pods: [{name, sub_group, state}]}.

    Exit code 0: every file was answered; 2: a file could not be read.

    Example: osmo podgroup plan gang.yaml
    """
    from scheduling.scenario.podgroup_batches import plan_files

    batch = plan_files(files)
    _print_batch(batch, output, plan_text)
    raise typer.Exit(batch.exit_code)


def _print_batch(batch: Batch, output: AnswerFormat, text: Callable[[dict[str, Any]], str]) -> None:
    if not batch.is_single:
        for line in batch.output_objects():
            typer.echo(json.dumps(line, ensure_ascii=False))
        return
    entry = batch.entries[0]
    if entry.is_readable or output is not AnswerFormat.TEXT:
        _print_answer(entry.body, output, text)
    else:
        _print_error(entry.source, entry.body)


def _print_answer(body: dict[str, Any], output: AnswerFormat, text: Callable[[dict[str, Any]], str]) -> None:
    if output is AnswerFormat.JSON:
        typer.echo(json.dumps(body, indent=2, ensure_ascii=False))
    elif output is AnswerFormat.YAML:
        import yaml

        typer.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True).rstrip("\n"))
    else:
        typer.echo(printable_text(text(body)))


def _print_error(source: str, body: dict[str, Any]) -> None:
    for detail in body["details"] or [{"path": "", "message": body["message"]}]:
        line = f":{detail['line']}" if detail.get("line") else ""
        where = detail_location({**detail, "line": None})
        typer.echo(f"{source}{line}: {where}{detail['message']}", err=True)
