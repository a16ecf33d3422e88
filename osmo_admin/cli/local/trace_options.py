"""The options about what a history leaves open, of `osmo replay` and `osmo-admin prove`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from osmo_admin.cli.base.client_errors import ClientError

if TYPE_CHECKING:
    from scheduling.history.traces.trace import TraceOptions


class TeamFrom(StrEnum):
    """What may be the team: fields of the Standard Workload Format, columns of `sacct`, or parts of a workload."""

    QUEUE = "queue"
    ACCOUNT = "account"
    GROUP = "group"
    PARTITION = "partition"
    USER = "user"
    QOS = "qos"
    NAMESPACE = "namespace"


def trace_options(
    *,
    team: str | None,
    team_from: TeamFrom | None,
    skip_unusable: bool,
    rename: Sequence[str] | None,
    priority_of: Sequence[str] | None,
    skip_unknown_teams: bool = False,
) -> TraceOptions:
    """The options as the reader of a trace takes them. Raises ClientError."""
    from scheduling.domain.priorities import Priority
    from scheduling.history.traces.trace import TraceOptions

    priorities = _pairs("--priority-of", "QOS=PRIORITY", priority_of)
    if any(each not in Priority.__members__ for each in priorities.values()):
        raise ClientError(f"--priority-of has a priority that is not one of {', '.join(Priority.__members__)}.")
    return TraceOptions(
        team, team_from and team_from.value, skip_unusable, _pairs("--map", "TEAM=QUEUE", rename),
        {kind: Priority(each) for kind, each in priorities.items()}, skips_unknown_teams=skip_unknown_teams,
    )  # fmt: skip


def _pairs(option: str, form: str, given: Sequence[str] | None) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for text in given or ():
        name, mark, value = text.rpartition("=")
        if not mark or not name or not value:
            raise ClientError(f"{option} must be {form}.")
        if found.setdefault(name, value) != value:
            raise ClientError(f"{option} is given twice for one name.")
    return found
