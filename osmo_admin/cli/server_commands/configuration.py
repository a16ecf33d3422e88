"""`export`, `diff`, `apply`, `release`: the configuration as files, for teams that keep it in Git."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import detail_location
from osmo_admin.cli.base.output import serialize
from osmo_admin.cli.base.session import OutputFormat
from osmo_admin.cli.server_commands.options import DataDirOption, OutputOption, use_django
from osmo_admin.cli.text.effect_text import effect_text
from osmo_admin.ops.programs.errors import OperationError
from pools.domain.values.counting import counted

if TYPE_CHECKING:
    from scheduling.configuration.files import ConfigurationFiles
    from scheduling.services.configuration import ApplyOptions

NO_CHANGES, REFUSED, CHANGES = 0, 1, 2
CONFIG_FILE_SOURCE = "config-file"
SIGNS = {"create": "+", "change": "~", "adopt": "=", "release": "=", "remove": "-", "keep": "!"}


class ObjectOwner(StrEnum):
    """Owners of applied objects."""

    GIT = "git"
    ADMIN = "admin"


FolderOption = Annotated[
    Path, typer.Option("--file", "-f", metavar="DIR", help="Folder of YAML files, or one file.", exists=True)
]
SourceOption = Annotated[
    str, typer.Option("--source", envvar="OSMO_CONFIG_SOURCE", help="Name of the repository, shown as the owner.")
]
CommitOption = Annotated[
    str, typer.Option("--commit", envvar="OSMO_CONFIG_COMMIT", help="Commit of the files.", show_default=False)
]
OwnerOption = Annotated[
    ObjectOwner, typer.Option("--owner", help="git: the objects are read-only elsewhere. admin: they are not.")
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Remove objects that this source owns and no file has any more.")
]


class ExportFormat(StrEnum):
    """Our files, or the objects of another scheduler."""

    GIT = "git"
    KUEUE = "kueue"
    KAI = "kai"


def export(
    folder: Annotated[Path, typer.Option("--file", "-f", metavar="DIR", help="Folder for the files.", file_okay=False)],
    form: Annotated[
        ExportFormat, typer.Option("--format", help="git: our files. kueue, kai: objects for kubectl, with a report.")
    ] = ExportFormat.GIT,
    backend: Annotated[
        str, typer.Option("--backend", help="kueue, kai: the cluster, if pools are on several.", show_default=False)
    ] = "",
    data_dir: DataDirOption = None,
) -> None:
    """Write the configuration to a folder, one YAML file for each object. Files of objects that no longer exist are
    removed; other files stay. A role that groups of a provider give is left out, unless Git owns it already.

    With --format kueue or kai: the pools of one cluster as objects of that scheduler, in a folder of their own.
    A report names what has no counterpart there. Exit code 0: nothing; 2: something; 1: refused.
    """
    use_django(data_dir)
    from scheduling.configuration.folders import write_folder
    from scheduling.selectors.cluster.configuration import read_export

    export = read_export()
    if form is not ExportFormat.GIT:
        raise typer.Exit(_export_objects(folder, form, export.objects, backend))
    written, removed = write_folder(folder, export.objects, left_out=export.left_out)
    print(f"{folder}: {counted(written, 'file')} written, {removed} removed.")
    if export.left_out:
        roles = ", ".join(sorted(name for _, name in export.left_out))
        print(f"Not written, because groups of a provider give them: {roles}.")


def _export_objects(folder: Path, form: ExportFormat, objects: Any, backend: str) -> int:
    """Write the objects of another scheduler. Returns the exit code."""
    from pools.domain.errors import BadInput
    from scheduling.moving_out.exporting import REPORT_FILE, ForeignFormat, export_objects, write_export

    try:
        found = export_objects(ForeignFormat(form), objects, backend)
        write_export(folder, ForeignFormat(form), found)
    except BadInput as refusal:
        print(refusal.message, file=sys.stderr)
        return REFUSED
    count = sum(map(len, found.documents.values()))
    print(f"{folder}: {counted(count, 'object')} written; {counted(len(found.lost), 'line')} in {REPORT_FILE}.")
    return CHANGES if found.lost else NO_CHANGES


def diff(
    folder: FolderOption,
    prune: PruneOption = False,
    source: SourceOption = "git",
    commit: CommitOption = "",
    owner: OwnerOption = ObjectOwner.GIT,
    output: OutputOption = OutputFormat.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """Show what `apply` would change, with its effect on the work, and write nothing.

    Exit code 0: nothing; 2: changes; 1: refused (faulty files, or a change that the ledger forbids).
    """
    use_django(data_dir)
    raise typer.Exit(_show_effect(*_read(folder, source, commit, owner, prune=prune), output))


def apply(
    folder: FolderOption,
    prune: PruneOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `diff`.")] = False,
    source: SourceOption = "git",
    commit: CommitOption = "",
    owner: OwnerOption = ObjectOwner.GIT,
    output: OutputOption = OutputFormat.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """Make the installation equal to the files, all or nothing. Their objects are owned by Git afterwards.

    Exit code 0: applied, or nothing to do; 1: refused, and nothing was written. With --dry-run as `diff`.
    """
    use_django(data_dir)
    files, options = _read(folder, source, commit, owner, prune=prune)
    if dry_run:
        raise typer.Exit(_show_effect(files, options, output))
    from pools.domain.errors import DomainError
    from pools.domain.people.roles import SYSTEM
    from pools.services.changes.shown_effects import confirming, effect_in_transaction
    from scheduling.services.configuration import apply_configuration, shown_files

    shown = shown_files(files, options)
    try:
        with (
            confirming(shown, SYSTEM),
            effect_in_transaction(actor=SYSTEM, title=shown.title, description=options.description),
        ):
            applied = apply_configuration(actor=SYSTEM, files=files, options=options)
    except DomainError as refusal:
        raise typer.Exit(_show_refusal(refusal, output)) from None
    differences = [each.as_dict() for each in applied.comparison.differences]
    if output is not OutputFormat.TABLE:
        print(serialize({"differences": differences, "warnings": list(applied.warnings)}, output))
        return
    _print_differences(differences)
    for warning in applied.warnings:
        print(f"WARNING: {warning}")
    changes = len(applied.comparison.changes)
    print(f"Applied {counted(changes, 'change')}." if changes else "Nothing to do.")


def release(
    objects: Annotated[
        list[str], typer.Argument(metavar="KIND/NAME...", help="Objects as in messages: pool/vision, role/osmo-admin.")
    ],
    description: Annotated[str, typer.Option("--description", "-d", help="Reason, for the audit log.")] = "",
    data_dir: DataDirOption = None,
) -> None:
    """Give objects that Git owns back to the admins. The next `apply` of a file that has them takes them again."""
    use_django(data_dir)
    from pools.domain.configuration.ownership import OwnedKind
    from pools.domain.people.roles import SYSTEM
    from pools.services.changes.ownership import release as release_object

    wanted = []
    for text in objects:
        kind, _, name = text.partition("/")
        if kind not in tuple(OwnedKind) or not name:
            raise OperationError(f"Give the object as KIND/NAME, KIND one of {', '.join(OwnedKind)}.")
        wanted.append((OwnedKind(kind), name))
    for owned_kind, name in wanted:
        release_object(actor=SYSTEM, kind=owned_kind, name=name, description=description)
        print(f"{owned_kind}/{name} belongs to the admins.")


def _read(
    folder: Path, source: str, commit: str, owner: ObjectOwner, *, prune: bool
) -> tuple[ConfigurationFiles, ApplyOptions]:
    from pools.domain.configuration.ownership import OwnerKind
    from scheduling.configuration.folders import read_folder
    from scheduling.services.configuration import ApplyOptions

    return read_folder(folder), ApplyOptions(source, commit, OwnerKind(owner), prune)


def _show_effect(files: ConfigurationFiles, options: ApplyOptions, output: OutputFormat) -> int:
    from pools.domain.errors import DomainError
    from pools.domain.people.roles import SYSTEM
    from pools.services.changes.shown_effects import previewing
    from scheduling.services.configuration import configuration_effect, shown_files

    try:
        with previewing(shown_files(files, options), SYSTEM):
            effect = configuration_effect(actor=SYSTEM, files=files, options=options)
    except DomainError as refusal:
        return _show_refusal(refusal, output)
    if output is not OutputFormat.TABLE:
        print(serialize(effect, output))
    else:
        _print_differences(effect["differences"])
        print(effect_text(effect))
        for note in effect["notes"]:
            print(f"NOTE: {note}")
        if effect["not_in_files"]:
            print(f"In no file, left to the admins: {', '.join(effect['not_in_files'])}")
    if effect["violations"]:
        return REFUSED
    return CHANGES if any(each["action"] != "keep" for each in effect["differences"]) else NO_CHANGES


def _show_refusal(refusal: Any, output: OutputFormat) -> int:
    details = [each.as_dict() for each in refusal.details]
    if output is not OutputFormat.TABLE:
        print(serialize({"message": refusal.message, "details": details}, output))
    elif any("file" in each for each in details):
        for each in details:
            print(f"{detail_location(each)}{each['message']}", file=sys.stderr)
        print("Nothing was written.", file=sys.stderr)
    else:
        print(refusal.message, file=sys.stderr)
    return REFUSED


def _print_differences(differences: list[dict[str, Any]]) -> None:
    for each in differences:
        place = f"  ({each['file']}:{each['line'] or 1})" if each["file"] else ""
        more = "  (in no file; --prune removes it)" if each["action"] == "keep" else ""
        print(f"{SIGNS[each['action']]} {each['action']} {each['object']}{more or place}")


def follow(
    config_file: Annotated[
        Path, typer.Option("--config_file", envvar="OSMO_CONFIG_FILE", help="The mounted file, as OSMO 6.4 reads it.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Apply the file once and end.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, with its effect on the work, and write nothing.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """Keep the installation equal to one mounted file until SIGTERM. Run one such process.

    A file that is missing for 30 s or cannot be applied at start ends the process with exit code 1. A later change that
    cannot be applied leaves the old configuration in force, and the process says why. With --dry-run the exit code is
    that of `diff`: 0 nothing, 2 changes, 1 refused.
    """
    use_django(data_dir)
    if once or dry_run:
        raise typer.Exit(_handle_file_once(config_file, output, dry_run=dry_run))
    import signal
    import threading

    from scheduling.configuration.follower import FileFollower, FileMissing, FileRefused

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    follower = FileFollower(
        config_file,
        lambda content: apply_mounted_file(config_file.name, content),
        lambda message: print(message, file=sys.stderr, flush=True),
        stopped.wait,
    )
    try:
        follower.follow()
    except (FileMissing, FileRefused) as problem:
        raise OperationError(str(problem)) from problem


def _handle_file_once(path: Path, output: OutputFormat, *, dry_run: bool) -> int:
    """Show what the file would change, or apply it. Returns the exit code."""
    from pools.domain.errors import DomainError
    from scheduling.configuration.follower import FileRefused
    from scheduling.configuration.osmo_file import read_osmo_file
    from scheduling.services.configuration import ApplyOptions

    try:
        content = path.read_bytes()
    except OSError as problem:
        raise OperationError(f"{path} cannot be read: {problem.strerror}.") from problem
    if not dry_run:
        try:
            apply_mounted_file(path.name, content)
        except FileRefused as refusal:
            raise OperationError(str(refusal)) from refusal
        return NO_CHANGES
    try:
        files = read_osmo_file(path.name, content)
    except DomainError as refusal:
        return _show_refusal(refusal, output)
    for note in files.notes:
        print(f"{path.name}: {note}", file=sys.stderr)
    return _show_effect(files, ApplyOptions(CONFIG_FILE_SOURCE, prune=True), output)


def apply_mounted_file(name: str, content: bytes) -> None:
    """Apply the content of a mounted file; objects that it no longer has are removed. Raises FileRefused."""
    from django.db import Error, connection

    from pools.database.errors import is_database_away
    from pools.domain.errors import Busy, DomainError
    from pools.domain.people.roles import SYSTEM
    from scheduling.configuration.follower import FileRefused
    from scheduling.configuration.osmo_file import read_osmo_file
    from scheduling.services.configuration import ApplyOptions, apply_configuration
    from scheduling.services.refused_files import forget_refused_file, record_refused_file

    files = read_osmo_file(name, content)
    source = CONFIG_FILE_SOURCE
    try:
        try:
            applied = apply_configuration(actor=SYSTEM, files=files, options=ApplyOptions(source, prune=True))
        except DomainError as refusal:
            if not isinstance(refusal, Busy):
                record_refused_file(actor=SYSTEM, source=source, path=name, content=content, refusal=refusal)
            raise
        forget_refused_file(actor=SYSTEM, source=source)
    except DomainError as refusal:
        places = [f"{detail_location(each.as_dict())}{each.message}" for each in refusal.details]
        raise FileRefused("\n".join([refusal.message, *places]), may_pass=isinstance(refusal, Busy)) from refusal
    except Error as lost:
        if not is_database_away(lost):
            raise
        connection.close()  # a new connection replaces a broken one
        raise FileRefused(f"The database does not answer: {lost}", may_pass=True) from lost
    for text in (*files.notes, *applied.warnings):
        print(f"{name}: {text}", flush=True)
    changes = len(applied.comparison.changes)
    print(f"{name}: {counted(changes, 'change')} applied.", flush=True)
