"""The request of a replay of an installation's own history (docs/replay.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final

from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import BOOLEAN, JSON, TEXT, TIME, value, whole_number
from pools.domain.structured_input.fields import FieldReader

DEFAULT_TRIES: Final = 60
MIN_TRIES: Final = 2
MAX_TRIES: Final = 200
"""The replays of an advice besides that of today's quotas."""


def _read_changes(reader: FieldReader, key: str) -> list[Any]:
    if not isinstance(reader.body[key], list):
        reader.add_fault(key, Fault.BAD_VALUE, "must be a list of changes.")
        return []
    return list(reader.body[key])


_ITEM = {"type": "object", "properties": {"set": JSON.schema}, "required": ["set"], "additionalProperties": False}
CHANGES = replace(JSON, schema={"type": "array", "items": _ITEM}, read=_read_changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReplay(ChangeCommand):
    """Request a replay of the recorded history of a simulated cluster, as it was and with other quotas, limits or
    weights; or, with `advise`, proposals of quotas and lending limits. It runs in the background and changes nothing.
    """

    service: ClassVar = "request_replay"
    audit: ClassVar = ()
    has_preview: ClassVar = False
    permission: ClassVar = Permission.POOL_PARTITION
    needs_version: ClassVar = False

    since: datetime = value(TIME, "From", "The beginning of the window (UTC).")
    until: datetime | None = value(
        TIME, "To", "Its end, at most 31 days later and not in the future; by default now.", default=None
    )
    backend: str | None = value(
        TEXT, "Cluster", "A simulated cluster; needed where you administer pools on several.", default=None
    )
    changes: Sequence[Any] = value(CHANGES, "Changes", "Other quotas, limits or weights of pools.", default=())
    advise: bool = value(
        BOOLEAN,
        "With advice",
        "Propose quotas and lending limits, instead of trying changes.",
        default=False,
    )
    tries: int | None = value(
        whole_number(MIN_TRIES, MAX_TRIES),
        "Replays",
        f"With `advise`: the largest number of replays besides today's (default {DEFAULT_TRIES}).",
        default=None,
    )

    @classmethod
    def note_faults(cls, reader: FieldReader) -> None:
        if reader.is_given("tries") and reader.body.get("advise") is not True:
            reader.add_fault("tries", Fault.BAD_VALUE, "is the number of replays for advice: add `advise`.")
