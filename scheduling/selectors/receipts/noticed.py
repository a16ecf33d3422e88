"""The receipts of preemptions that notices tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from pools.domain.audit_actions import AuditAction
from pools.models import AuditEntry
from scheduling.models import Interruption

MS_PER_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class NoticedReceipt:
    """What one preemption lost."""

    interruption: int
    lost_gpu_ms: int

    @property
    def sentence(self) -> str:
        """What was lost. It names nobody, so that all may read it who may see the work."""
        return f"{self.lost_gpu_ms / MS_PER_HOUR:.1f} GPU-hours of work were lost."


def receipts_of_preemptions(entries: Collection[AuditEntry]) -> Mapping[int, NoticedReceipt]:
    """The receipts by the ids of the entries about preemptions. One query, none without such an entry."""
    about: dict[int, tuple[str, datetime]] = {}
    for entry in entries:
        row = entry.after or {}
        if entry.action == AuditAction.WORKFLOW_PREEMPTED and "group_id" in row and "time" in row:
            about[entry.pk] = row["group_id"], datetime.fromisoformat(row["time"])
    if not about:
        return {}
    rows = Interruption.objects.filter(
        group__in={group for group, _at in about.values()}, time__in={at for _group, at in about.values()}
    ).annotate(lost=Sum("receipts__lost_gpu_ms"))
    found = {
        (str(row.group_id), row.time): NoticedReceipt(row.pk, getattr(row, "lost", 0) or 0)
        for row in rows.order_by("-pk")
    }
    return {entry: found[key] for entry, key in about.items() if key in found}
