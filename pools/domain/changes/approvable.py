"""The changes for which an approval can be requested (docs/approvals.md)."""

from __future__ import annotations

from collections.abc import Mapping

from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.pools import DeletePool, PatchPool, PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool

APPROVABLE: Mapping[str, type[ChangeCommand]] = {
    each.service: each for each in (PutPool, PatchPool, DeletePool, CreateSubpool, ResizeSubpool, DeleteSubpool)
}
"""By the name that a stored request has."""
