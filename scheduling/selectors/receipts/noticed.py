"""The receipts of preemptions that notices tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from pools.domain.audit_actions import AuditAction
from pools.models import AuditEntry
from scheduling.models import Interruption
from scheduling.selectors.receipts.losses import RECEIPT_ROWS, FlavorLosses


@dataclass(frozen=True, slots=True)
class NoticedReceipt:
    """What one preemption lost."""

    interruption: int
    losses: FlavorLosses

    @property
    def sentence(self) -> str:
        """What was lost. It names nobody, so that all may read it who may see the work."""
        return f"{self.losses.text[0].upper()}{self.losses.text[1:]} of work were lost."


def receipts_of_preemptions(entries: Collection[AuditEntry]) -> Mapping[int, NoticedReceipt]:
    """The receipts by the ids of the entries about preemptions. One query, none without such an entry."""
    about: dict[int, tuple[str, datetime]] = {}
    for entry in entries:
        row = entry.after or {}
        if entry.action == AuditAction.WORKFLOW_PREEMPTED and "group_id" in row and "time" in row:
            about[entry.pk] = row["group_id"], datetime.fromisoformat(row["time"])
    if not about:
        return {}
    rows = (
        Interruption.objects.select_related("backend")
        .filter(group__in={group for group, _at in about.values()}, time__in={at for _group, at in about.values()})
        .annotate(receipt_rows=RECEIPT_ROWS)
    )
    found = {
        (str(row.group_id), row.time): NoticedReceipt(row.pk, FlavorLosses.of(row)) for row in rows.order_by("-pk")
    }
    return {entry: found[key] for entry, key in about.items() if key in found}
