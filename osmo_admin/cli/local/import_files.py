"""`import`: files of another scheduler as files of our configuration, without a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.local.file_faults import print_faults
from pools.domain.values.counting import counted
from scheduling.moving_in.options import REPORT_FILE, GuaranteeFrom, HistoryUse, ImportOptions, SourceKind

if TYPE_CHECKING:
    from scheduling.moving_in.result import ImportResult, PartOutcome

COMPLETE, UNREADABLE, INCOMPLETE = 0, 1, 2
MAX_SHOWN = 40


def import_files(
    kind: Annotated[SourceKind, typer.Argument(metavar="KIND", help=f"One of {', '.join(SourceKind)}.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to read; - is the standard input.")],
    folder: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help=f"Folder for our files and {REPORT_FILE}.", file_okay=False),
    ],
    backend: Annotated[str, typer.Option("--backend", help="Name of the cluster of all pools.")] = "imported",
    namespace: Annotated[str, typer.Option("--namespace", help="Namespace of that cluster.")] = "default",
    existing_backend: Annotated[
        bool, typer.Option("--existing-backend", help="The installation has this cluster: write no file for it.")
    ] = False,
    guarantee: Annotated[
        GuaranteeFrom,
        typer.Option("--guarantee", help="limit: a ceiling becomes the quota too; history: what was usually used."),
    ] = GuaranteeFrom.NONE,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="FILE", help="slurm, with --guarantee history: the output of sacct -P."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth", min=1, help="slurm: accounts of this level become pools. Default: those without others."
        ),
    ] = None,
) -> None:
    """Read the quotas of another scheduler and write them as files for `diff` and `apply`. Nothing else is touched.

    Every key of the source is in the report. Exit code 0: nothing is lost; 2: something has no counterpart or is to be
    decided; 1: a file cannot be read, and nothing was written.
    """
    from scheduling.history.traces.faults import ReplayFault
    from scheduling.moving_in.importing import import_sources, write_import
    from scheduling.moving_in.report import summary_text
    from scheduling.moving_in.result import BadSource, PartOutcome
    from scheduling.moving_in.source_text import read_source

    try:
        past_use = _read_use(kind, guarantee, history)
        options = ImportOptions(backend, namespace, not existing_backend, guarantee, depth, past_use)
        result = import_sources(kind, [read_source(path, sys.stdin.buffer) for path in files], options)
        written, removed = write_import(folder, kind, result)
    except ReplayFault as refusal:
        print_faults(refusal)
        raise typer.Exit(UNREADABLE) from None
    except ClientError as refusal:
        print(refusal, file=sys.stderr)
        raise typer.Exit(UNREADABLE) from None
    except BadSource as refusal:
        print(refusal.message, file=sys.stderr)
        for fault in refusal.details:
            print(f"{fault.path}: {fault.message}", file=sys.stderr)
        raise typer.Exit(UNREADABLE) from None
    _print_lines(result, PartOutcome.TO_DECIDE)
    _print_lines(result, PartOutcome.NO_COUNTERPART)
    print(
        f"{summary_text(result)}\n{folder}: {counted(written, 'file')} written, {removed} removed; {REPORT_FILE} has "
        "every line."
    )
    print(f"Next: osmo-admin diff -f {folder}")
    raise typer.Exit(COMPLETE if result.is_complete else INCOMPLETE)


def _read_use(kind: SourceKind, guarantee: GuaranteeFrom, history: str | None) -> HistoryUse:
    """What each account used. Raises ClientError and ReplayFault."""
    if (guarantee is GuaranteeFrom.HISTORY) != (history is not None):
        raise ClientError("--guarantee history and --history FILE belong together.")
    if history is None:
        return HistoryUse()
    if kind is not SourceKind.SLURM:
        raise ClientError("--guarantee history is for slurm: the other kinds have quotas, or no accounts.")
    from scheduling.history.proof.past_use import read_past_use

    return read_past_use(history)


def _print_lines(result: ImportResult, outcome: PartOutcome) -> None:
    from scheduling.moving_in.report import TITLES, line_text

    lines = [line for line in result.lines if line.outcome is outcome]
    if lines:
        print(f"{TITLES[outcome]}:")
    for line in lines[:MAX_SHOWN]:
        print(f"  {line_text(line)}")
    if len(lines) > MAX_SHOWN:
        print(f"  and {len(lines) - MAX_SHOWN} more")
