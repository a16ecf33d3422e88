"""The election of the one installation that works with a namespace of a cluster, by a Lease object in it.

The rules are those of Kubernetes' own components: a Lease is taken over only when it has not changed for its duration,
measured by the observer's own clock; the times in it are never compared with a clock. Two processes of one installation
exclude each other by their database, so a Lease of one's own installation is taken over at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MAX_DURATION_SECONDS = 60
"""The longest silence that is waited for, whatever a Lease says."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that wants the Lease. `instance` is different for every running installation, also for a restored
    copy of one."""

    instance: str
    process: str

    @property
    def holder(self) -> str:
        """The `holderIdentity` of this process."""
        return f"{self.instance}/{self.process}"

    def is_of_same_instance(self, holder: str) -> bool:
        """Whether a holder is a process of the same installation."""
        return holder.partition("/")[0] == self.instance


def lease_name(namespace: str) -> str:
    """The name of the Lease on work with this namespace: the same for every installation."""
    return f"osmo-admin-{namespace}"


def lease_holder(spec: Mapping[str, Any]) -> str:
    """The holder that a Lease names, or nothing."""
    return str(spec.get("holderIdentity") or "")


def may_take(spec: Mapping[str, Any], candidate: Candidate, *, unchanged_for: float, duration: float) -> bool:
    """Whether the candidate may hold this Lease now, after the Lease was seen unchanged for this time. The
    `duration` is the candidate's own; a longer one in the Lease counts."""
    holder = lease_holder(spec)
    if not holder or candidate.is_of_same_instance(holder):
        return True
    stated = spec.get("leaseDurationSeconds")
    longest = min(stated, MAX_DURATION_SECONDS) if isinstance(stated, int) else 0
    return unchanged_for > max(duration, longest)


def held_spec(spec: Mapping[str, Any], candidate: Candidate, *, now: datetime, duration: int) -> dict[str, Any]:
    """The fields of a Lease that the candidate holds from now on; `spec` are those of the Lease before."""
    renewed = {"holderIdentity": candidate.holder, "leaseDurationSeconds": duration, "renewTime": format_time(now)}
    if lease_holder(spec) == candidate.holder:
        return renewed
    transitions = int(spec.get("leaseTransitions") or 0) + 1 if spec else 0
    return renewed | {"acquireTime": format_time(now), "leaseTransitions": transitions}


def released_spec(*, now: datetime) -> dict[str, Any]:
    """The fields of a Lease that its holder releases."""
    return {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": format_time(now)}


def format_time(time: datetime) -> str:
    """A time (UTC) as a Lease has it, with microseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
