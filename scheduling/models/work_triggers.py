"""Triggers that keep a workflow and its reservation together, for every writer, raw SQL included."""

from __future__ import annotations

import pgtrigger

from pools.models import Reservation
from pools.models.triggers import raise_message
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, WorkflowStatus

_ACTIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))
_NEVER_REACHED = {WorkflowStatus.WAITING, WorkflowStatus.FAILED_SUBMISSION}
_REACHABLE = ", ".join(f"'{status}'" for status in WorkflowStatus if status not in _NEVER_REACHED)
_CHANGES = pgtrigger.Condition("OLD.status IS DISTINCT FROM NEW.status")

STATUS_MACHINE = pgtrigger.Trigger(
    name="status_machine",
    operation=pgtrigger.UpdateOf("status"),
    when=pgtrigger.Before,
    condition=_CHANGES,
    func=f"""
        IF OLD.status NOT IN ({_ACTIVE}) THEN
            {
        raise_message("workflow_status_machine", "Workflow % has ended (%) and stays so.", "OLD.name", "OLD.status")
    }
        END IF;
        IF NEW.status NOT IN ({_REACHABLE}) THEN
            {raise_message("workflow_status_machine", "Workflow % cannot become %.", "OLD.name", "NEW.status")}
        END IF;
        RETURN NEW;
    """,
)


def _refuse_difference(workflow: str) -> str:
    """PL/pgSQL that refuses if this workflow is active without a reservation, or has one after its end."""
    missing = raise_message("workflow_is_reserved", "Workflow % is active and keeps its reservation.", "work.name")
    left = raise_message("workflow_is_reserved", "Workflow % has ended and still has a reservation.", "work.name")
    return f"""
        SELECT name, status INTO work FROM scheduling_workflow WHERE uuid = {workflow};
        IF FOUND THEN
            IF work.status IN ({_ACTIVE}) THEN
                IF NOT EXISTS (SELECT FROM pools_reservation WHERE workflow = {workflow}) THEN
                    {missing}
                END IF;
            ELSIF EXISTS (SELECT FROM pools_reservation WHERE workflow = {workflow}) THEN
                {left}
            END IF;
        END IF;
        RETURN NULL;
    """


# Deferred, because an end changes the status first and releases the reservation after it.
RESERVED_WHILE_ACTIVE = pgtrigger.Trigger(
    name="reserved_while_active",
    operation=pgtrigger.UpdateOf("status"),
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    condition=_CHANGES,
    declare=[("work", "record")],
    func=_refuse_difference("NEW.uuid"),
)


class ObservedReservation(Reservation):
    """Reservations, as workflows need them."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            pgtrigger.Trigger(
                name="kept_while_active",
                operation=pgtrigger.Delete,
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                declare=[("work", "record")],
                func=_refuse_difference("OLD.workflow"),
            )
        ]
