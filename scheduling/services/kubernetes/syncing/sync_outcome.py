"""The outcome of a sync of a cluster's queues, as texts for users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pools.models import Backend
from scheduling.domain.queues.plan import Untouched
from scheduling.kube.queues.queue_comparison import QueueComparison, QueueFieldDrift
from scheduling.kube.queues.queue_steps import ClusterWrite
from scheduling.models import QueueSync


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The writes of a run (or of a preview), and the condition of the backend after it. Each line is a text."""

    backend: str
    synced: str
    reason: str
    message: str
    written: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()


def build_outcome(
    backend: Backend,
    row: QueueSync,
    *,
    written: Sequence[ClusterWrite] = (),
    remaining: Sequence[ClusterWrite] = (),
    comparison: QueueComparison | None = None,
) -> SyncOutcome:
    """The outcome of a run whose condition is in `row`; without a comparison the cluster was not read."""
    untouched: Iterable[Untouched] = comparison.untouched if comparison is not None else ()
    drift = comparison.drift if comparison is not None else ()
    return SyncOutcome(
        backend.name,
        row.synced,
        row.reason,
        row.message,
        tuple(write.description for write in written),
        tuple(write.description for write in remaining),
        tuple(_drift_text(each) for each in drift),
        tuple(f"{each.name}: {each.note}" for each in untouched),
    )


def _drift_text(drift: QueueFieldDrift) -> str:
    found = drift.difference
    return f"{found.by} changed {drift.queue} {found.field}: {found.theirs} instead of {found.ours}"
