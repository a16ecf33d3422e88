"""Changes the scheduler settings; a change takes effect without a restart."""

from __future__ import annotations

from pools.database.transactions import change
from pools.domain.configuration.version_check import check_version
from pools.domain.people.roles import Actor
from pools.permissions import require_platform
from scheduling.domain.changes.settings import DRAIN_INTERVAL, UpdateSettings
from scheduling.locking import lock_workflow_config
from scheduling.models import WorkflowConfig
from scheduling.services import periodic_tasks


def update_workflow_config(
    command: UpdateSettings, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> WorkflowConfig:
    """Change the interval of the drain monitor and the maximum of retries of a task, without a restart; None keeps a
    value. `osmo-admin` only.

    Raises Forbidden, Stale.
    """
    require_platform(actor)
    requested = {name: number for name, number in command.as_json().items() if number is not None}
    with change(actor=actor, description=description):
        WorkflowConfig.objects.get_or_create(pk=1)
        row = lock_workflow_config()
        check_version("The workflow configuration", expected_version, row.version)
        if different := [name for name, value in requested.items() if getattr(row, name) != value]:
            for name in different:
                setattr(row, name, requested[name])
            row.version += 1
            row.save(update_fields=[*different, "version"])
        if DRAIN_INTERVAL in different:
            periodic_tasks.set_drain_interval(row.subpool_drain_interval_minutes)
        return row
