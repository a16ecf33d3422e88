"""The owner of an object of the configuration: an admin, who changes it in pages and through the API, or Git, whose
files are applied as a whole (`osmo-admin apply`).

An object that Git owns is read-only for every other writer. A pool of Git leaves its subpools to the admins of the pool
unless its file says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OwnedKind(StrEnum):
    """The kinds of objects that files can own, in the words of the audit trail."""

    BACKEND = "backend"
    POOL = "pool"
    COHORT = "cohort"
    GPU_QUOTA = "gpu_quota"
    ROLE = "role"
    SETTINGS = "config"


class OwnerKind(StrEnum):
    """The owners of an object."""

    ADMIN = "admin"
    GIT = "git"


@dataclass(frozen=True, slots=True)
class GitOwner:
    """The place in Git that an object comes from. `source` names the repository or the mounted file, `path` the file in
    it; `commit` may be empty. `subpools`: the subpools of the pool come from there too."""

    source: str
    path: str = ""
    commit: str = ""
    subpools: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The owner in the form of the API."""
        return {"owner": str(OwnerKind.GIT), "source": self.source, "path": self.path, "commit": self.commit}

    def __str__(self) -> str:
        parts = [self.source, self.path, f"commit {self.commit[:12]}" if self.commit else ""]
        return ", ".join(part for part in parts if part)
