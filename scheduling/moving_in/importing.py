"""One import: files of a kind → the objects of our form with the report, and both in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from scheduling.configuration.folders import SUFFIXES, write_folder, write_whole
from scheduling.moving_in.kubernetes.kai import read_kai
from scheduling.moving_in.kubernetes.kueue import read_kueue
from scheduling.moving_in.kubernetes.resource_quotas import read_resource_quotas
from scheduling.moving_in.options import REPORT_FILE, ImportOptions, SourceKind
from scheduling.moving_in.osmo import read_osmo
from scheduling.moving_in.report import report_text
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.moving_in.runai import read_runai
from scheduling.moving_in.slurm.accounts import read_slurm
from scheduling.moving_in.source_text import SourceText

Reader = Callable[[list[SourceText], ImportResult, ImportOptions], None]


READERS: Final[dict[SourceKind, Reader]] = {
    SourceKind.KUEUE: read_kueue,
    SourceKind.KAI: read_kai,
    SourceKind.RUNAI: read_runai,
    SourceKind.RESOURCEQUOTA: read_resource_quotas,
    SourceKind.SLURM: read_slurm,
    SourceKind.OSMO: read_osmo,
}


def import_sources(kind: SourceKind, sources: list[SourceText], options: ImportOptions) -> ImportResult:
    """The objects and the report. Raises BadSource with every fault."""
    result = ImportResult()
    READERS[kind](sources, result, options)
    result.finish()
    return result


def write_import(folder: Path, kind: SourceKind, result: ImportResult) -> tuple[int, int]:
    """Write one file for each object and the report, and remove the files of an earlier import that are gone. Returns
    (files written, files removed). Raises BadSource for a folder that has other configuration."""
    report = folder / REPORT_FILE
    if folder.is_dir() and not report.exists() and any(path.suffix in SUFFIXES for path in folder.rglob("*")):
        message = "the folder has files that no import wrote. Choose an empty or new one."
        raise BadSource.at(SourcePlace(str(folder), 1), message)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(report, report_text(kind, result))
    return write_folder(folder, result.objects)
