"""The workflow configuration: read, and changed with effect on the running house."""

from __future__ import annotations

from typing import Any

from pools.domain.errors import BadInput, Stale, Violation
from pools.domain.roles import Actor
from pools.permissions import require_house
from pools.transactions import change
from scheduling.models import WorkflowConfig
from scheduling.services import schedule

DRAIN_INTERVAL = "subpool_drain_interval_minutes"
LEAST_MINUTES, MOST_MINUTES = 1, 10_080


def current() -> WorkflowConfig:
    """The one row, made on first use."""
    return WorkflowConfig.objects.get_or_create(pk=1)[0]


def update_workflow_config(
    *, actor: Actor, drain_interval_minutes: object, description: str = "", expected_version: int | None = None
) -> WorkflowConfig:
    """Change how often the drain monitor looks, from now on and without a restart. `osmo-admin` only.

    Raises BadInput (not a whole number from 1 to 10080), Forbidden, Stale.
    """
    require_house(actor)
    if found := interval_violation(drain_interval_minutes):
        raise BadInput.of([found])
    assert isinstance(drain_interval_minutes, int)
    with change(actor=actor, description=description):
        current()
        row = WorkflowConfig.objects.select_for_update().get(pk=1)
        if expected_version is not None and row.version != expected_version:
            raise Stale(
                f"The workflow configuration was changed meanwhile: you saw version {expected_version}, it is now "
                f"{row.version}. Read it again."
            )
        if row.subpool_drain_interval_minutes != drain_interval_minutes:
            row.subpool_drain_interval_minutes = drain_interval_minutes
            row.version += 1
            row.save(update_fields=["subpool_drain_interval_minutes", "version"])
            schedule.set_drain_interval(drain_interval_minutes)
        return row


def interval_violation(minutes: object) -> Violation | None:
    """Why this is no interval for the drain monitor."""
    if isinstance(minutes, int) and not isinstance(minutes, bool) and LEAST_MINUTES <= minutes <= MOST_MINUTES:
        return None
    return Violation(
        DRAIN_INTERVAL,
        "bad_value",
        f"{DRAIN_INTERVAL} is a whole number of minutes from {LEAST_MINUTES} to {MOST_MINUTES} (a week), "
        f"not {str(minutes)[:40]!r}.",
    )


def config_body(row: WorkflowConfig) -> dict[str, Any]:
    """The configuration as the API shows it."""
    return {DRAIN_INTERVAL: row.subpool_drain_interval_minutes, "version": row.version}
