"""The receipts of a transition: collected while attempts end, and written with them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pools.models import Pool
from scheduling.domain.receipts.causes import InterruptionFacts, cause_of_end
from scheduling.domain.receipts.lost import checkpoint_interval, lost_gpu_ms, lost_since
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Interruption, Receipt, Task, Workflow


class ReceiptBook:
    """The receipts of attempts of one tree that end at one time."""

    def __init__(self, root: Pool, *, now: datetime) -> None:
        self._root, self._now = root, now
        self._interruptions: dict[tuple[object, ...], Interruption] = {}
        self._receipts: dict[object, Receipt] = {}

    def note_end(
        self,
        workflow: Workflow,
        group: Group,
        attempts: Iterable[Task],
        end: tuple[TaskStatus, int | None],
        facts: InterruptionFacts | None,
    ) -> None:
        """Note that these attempts end with this status and exit code. Without `facts` the end itself says whether
        something else caused it."""
        if facts is None:
            if (cause := cause_of_end(*end)) is None:
                return
            facts = InterruptionFacts(cause)
        for task in attempts:
            if task.pk not in self._receipts:
                self._receipts[task.pk] = self._receipt(workflow, group, task, facts)

    def _receipt(self, workflow: Workflow, group: Group, task: Task, facts: InterruptionFacts) -> Receipt:
        started = task.start_time or self._now
        since = lost_since(started, self._now, checkpoint_interval(workflow.labels))
        return Receipt(
            task=task,
            interruption=self._interruption(workflow, group, facts),
            gpus=task.gpu_count,
            lost_since=since,
            lost_gpu_ms=lost_gpu_ms(task.gpu_count, since, self._now),
        )

    def _interruption(self, workflow: Workflow, group: Group, facts: InterruptionFacts) -> Interruption:
        key = (group.pk, facts.cause, facts.for_workflow, facts.by_user, facts.note)
        assert self._root.backend_id is not None, "a top-level pool has a backend"
        if key not in self._interruptions:
            numbers = dict(facts.numbers)
            if self._root.flavors:
                numbers["parts"] = sorted(self._root.part_flavors)
            self._interruptions[key] = Interruption(
                time=self._now,
                cause=facts.cause,
                backend_id=self._root.backend_id,
                root_pool=self._root,
                pool_id=workflow.pool_id,
                workflow=workflow,
                group=group,
                for_workflow_id=facts.for_workflow,
                by_user=facts.by_user,
                note=facts.note,
                numbers=numbers,
                spared=list(facts.spared),
                has_more_spared=facts.has_more_spared,
            )
        return self._interruptions[key]

    def save(self) -> None:
        """Write all of them."""
        if self._receipts:
            Interruption.objects.bulk_create(self._interruptions.values())
            for receipt in self._receipts.values():
                receipt.interruption_id = receipt.interruption.pk
            Receipt.objects.bulk_create(self._receipts.values())
