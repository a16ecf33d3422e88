"""`doctor` and `support-bundle`: what each running process reaches, and everything that others need to find a fault."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django
from osmo_admin.ops.files.data_directory import DataDirectory


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
    seconds: Annotated[
        float, typer.Option(min=1, max=300, help="How long to wait for the answers of the processes.")
    ] = 20.0,
    data_dir: DataDirOption = None,
) -> None:
    """Check everything that this installation needs, from here and from each running process.

    It works while the installation runs, also in any pod of it. Each line is one check: OK, or PROBLEM with what to
    do. No secret is shown. Exit code 0: all is right; 1: there is a problem.
    """
    use_django(data_dir, database=False)
    from osmo_admin.doctor.diagnosis import diagnose

    diagnosis = diagnose(seconds=seconds)
    if as_json:
        print(json.dumps(diagnosis.as_json(), indent=2))
    else:
        print_findings(diagnosis.findings)
    if not diagnosis.is_ok:
        raise typer.Exit(1)


def print_findings(findings: object) -> None:
    """One line for each check below its place, with the advice below a problem."""
    place = ""
    for there, finding in findings:  # type: ignore[attr-defined]
        if there != place:
            place = there
            print(f"{place}:")
        print(f"  {'OK     ' if finding.ok else 'PROBLEM'} {finding.check}: {finding.message}")
        if not finding.ok and finding.advice:
            print(f"          {finding.advice}")


def support_bundle(
    file: Annotated[
        Path | None,
        typer.Argument(help="A new file. Default: osmo-support-TIME.tar.gz in this folder.", dir_okay=False),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            "--log", help="Further log file, as of kubectl logs or journalctl; may be repeated.", dir_okay=False
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, max=300, help="How long to wait for the answers of the processes.")
    ] = 20.0,
    data_dir: DataDirOption = None,
) -> None:
    """Write one file with everything that others need to find a fault, without secrets.

    It has versions, settings, checks, doctor, locks, the queue, jobs, clusters, metrics, verify and the last 1,000
    lines of each log. What cannot be read, because the database is down for example, is named, and the rest is still
    written. Exit code 0: the file is written, also if a part is missing.
    """
    use_django(data_dir, database=False)
    from osmo_admin.doctor.bundle import write_bundle

    path = file or Path(f"osmo-support-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    root = DataDirectory.open(data_dir).root
    for each in write_bundle(path, data_dir=root, logs=log or [], seconds=seconds):
        print(each)
    print(f"The support bundle is {path}. Secrets are replaced by [hidden]; read it before you give it to somebody.")
