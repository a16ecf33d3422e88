"""What a person says about an import: the software that the files are of, and the choices that the files leave open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pools.domain.values.counting import counted

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
    """What is guaranteed where the source has ceilings only: nothing, the same number, or what was usually used."""

    NONE = "none"
    LIMIT = "limit"
    HISTORY = "history"


ALL_KINDS: Final = "*"
"""In place of a kind of GPU: the use of all kinds together, of a team that used several."""


@dataclass(frozen=True, slots=True)
class PastUse:
    """GPUs that a team held at one time: at most `usual` in 95 % of the time, in the mean, and at most; its jobs."""

    usual: int
    mean: float
    most: int
    jobs: int = 0

    def text(self) -> str:
        """The numbers in words."""
        jobs = f" ({counted(self.jobs, 'job')})" if self.jobs else ""
        return f"in 95 % of the time at most {self.usual}, {self.mean:.1f} in the mean, at most {self.most}{jobs}"


@dataclass(frozen=True, slots=True)
class HistoryUse:
    """What a history says about the use of GPUs: by team and kind of GPU (empty: not known; `ALL_KINDS`), and which of
    its jobs do not count."""

    teams: Mapping[str, Mapping[str, PastUse]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`backend` is the name of the cluster of all pools, `namespace` its namespace; `writes_backend`: a simulated one
    is written with the nodes of the source. `depth` is for a tree of accounts: the level whose accounts become
    pools. `past_use` is for `GuaranteeFrom.HISTORY`."""

    backend: str = "imported"
    namespace: str = "default"
    writes_backend: bool = True
    guarantee: GuaranteeFrom = GuaranteeFrom.NONE
    depth: int | None = None
    past_use: HistoryUse = field(default_factory=HistoryUse)
