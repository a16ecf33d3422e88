"""One export: the forms of objects → files of another scheduler with a report."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.structured_input.faults import join_words
from scheduling.configuration.folders import SUFFIXES, write_whole
from scheduling.configuration.texts import Objects
from scheduling.moving_out.kai import export_kai
from scheduling.moving_out.kueue import export_kueue
from scheduling.moving_out.quotas import ExportedTree, ForeignExport, read_tree

REPORT_FILE: Final = "REPORT.md"


class ForeignFormat(StrEnum):
    """The schedulers whose objects are written."""

    KUEUE = "kueue"
    KAI = "kai"


_WRITERS: Final[dict[ForeignFormat, Callable[[ExportedTree, ForeignExport], None]]] = {
    ForeignFormat.KUEUE: export_kueue,
    ForeignFormat.KAI: export_kai,
}


def export_objects(form: ForeignFormat, objects: Objects, backend: str = "") -> ForeignExport:
    """The objects of the other scheduler for the pools of one cluster, which needs no name if there is one. Raises
    BadInput."""
    names = sorted({body["backend"] for (kind, _), body in objects.items() if kind is OwnedKind.POOL})
    if backend not in names and (backend or len(names) != 1):
        there = f"Pools are on {join_words(names)}." if names else "There are no pools."
        message = f"Name the cluster whose pools are exported, with --backend. {there}"
        raise BadInput(message, [Violation("backend", Fault.BAD_VALUE, message)])
    export = ForeignExport()
    _WRITERS[form](read_tree(objects, backend or names[0], export), export)
    return export


def write_export(folder: Path, form: ForeignFormat, export: ForeignExport) -> None:
    """Write the files and the report. Raises BadInput for a folder with other files of this kind."""
    names = {f"{form}-{file}" for file in export.documents}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in SUFFIXES}
    if others := {name for name in found if not name.startswith(f"{form}-") or "/" in name}:
        message = f"{folder} has other files, such as {min(others)}. Choose an empty or new folder."
        raise BadInput(message, [Violation("file", Fault.BAD_VALUE, message)])
    folder.mkdir(parents=True, exist_ok=True)
    for file, documents in export.documents.items():
        text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=2**20)
        write_whole(folder / f"{form}-{file}", text)
    for name in found - names:
        (folder / name).unlink()
    lost = [f"    {line}" for line in export.lost] or ["Nothing."]
    lines = [f"# Export to {form}", "", "## Without a counterpart", "", *lost]
    write_whole(folder / REPORT_FILE, "\n".join(lines) + "\n")
