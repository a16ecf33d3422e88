"""The lease of the one beat that sends periodic tasks."""

from __future__ import annotations

from scheduling.models.leases.lease import LeaseColumns, complete_lease_constraint


class BeatLease(LeaseColumns):
    """The lease of beat; one row at most, with the id 1."""

    class Meta:
        constraints = [complete_lease_constraint("beat_lease_is_complete")]

    def __str__(self) -> str:
        return "beat"
