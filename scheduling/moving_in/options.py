"""What a person says about an import: the software that the files are of, and the choices that the files leave open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

REPORT_FILE: Final = "REPORT.md"
"""What became what, in the folder of the import."""


class SourceKind(StrEnum):
    """The software whose files are read."""

    KUEUE = "kueue"
    KAI = "kai"
    RUNAI = "runai"
    RESOURCEQUOTA = "resourcequota"
    SLURM = "slurm"
    OSMO = "osmo"


class GuaranteeFrom(StrEnum):
    """What a ceiling of the source guarantees here: nothing, or the same number."""

    NONE = "none"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`backend` is the name of the cluster of all pools, `namespace` its namespace; `writes_backend`: a simulated one
    is written with the nodes of the source. `depth` is for a tree of accounts: the level whose accounts become
    pools."""

    backend: str = "imported"
    namespace: str = "default"
    writes_backend: bool = True
    guarantee: GuaranteeFrom = GuaranteeFrom.NONE
    depth: int | None = None
