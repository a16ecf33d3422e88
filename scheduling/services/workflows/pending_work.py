"""The requests of the ledger about waiting work (:mod:`pools.services.configuration.pending_work`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from pools.models import Pool
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.models import Group
from scheduling.selectors.queue.admitted_specs import UnreadableSpec, find_group_spec, read_admitted_specs
from scheduling.services.workflows.user_actions import cancel_pending_workflows

_WAITING = UNFINISHED_TASK_STATUSES - {TaskStatus.INITIALIZING, TaskStatus.RUNNING}


class WaitingWork:
    """The implementation that this app registers."""

    cancel: ClassVar = staticmethod(cancel_pending_workflows)

    def names_requiring(self, root: Pool, topology_keys: Collection[str]) -> list[str]:
        """See :class:`pools.services.configuration.pending_work.PendingWork`."""
        waiting = Group.objects.filter(
            status__in=_WAITING,
            workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
            workflow__root_pool=root,
            workflow__spec__contains="topology",  # other files are not parsed
        )
        rows = waiting.order_by("workflow__submit_time").values_list("workflow_id", "workflow__name", "name")
        specs = read_admitted_specs({workflow for workflow, _, _ in rows})
        found = []
        for workflow, workflow_name, group in rows:
            spec = specs.get(workflow)
            gang = None if spec is None or isinstance(spec, UnreadableSpec) else find_group_spec(spec, group)
            if gang is not None and gang.required_topology_keys & set(topology_keys):
                found.append(workflow_name)
        return list(dict.fromkeys(found))
