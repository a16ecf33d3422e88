"""The audit trail as a list, and as a stream that never skips an entry that commits late."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django.db import connection
from django.db.models import BooleanField, F, Func, Value

from pools.domain.audit_messages import audit_message
from pools.domain.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import AuditEntry

_ZONED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00\Z")
_ID_DIGITS = 12


def entry_body(entry: AuditEntry) -> dict[str, Any]:
    """One entry as the API shows it (api.md, "Audit and events"), with its sentence."""
    return {
        "id": entry.pk,
        "time": entry.time.astimezone(UTC).replace(tzinfo=None),
        "actor": entry.actor,
        "action": entry.action,
        "object": entry.object,
        "before": _image(entry.before),
        "after": _image(entry.after),
        "description": entry.description,
        "request_id": entry.request_id,
        "sentence": audit_message(
            entry.action, entry.object, entry.actor, entry.before, entry.after, description=entry.description
        ),
    }


def _image(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A row's image with times as the API writes them and, for a subpool, the quota that it counts for (D4)."""
    if row is None:
        return None
    shown = {
        key: value.removesuffix("+00:00") if isinstance(value, str) and _ZONED.match(value) else value
        for key, value in row.items()
    }
    if "subpool_state" in row and row["subpool_state"] is not None:
        shown["quota"] = row.get("last_quota") if row["subpool_state"] == SubpoolState.ACTIVE else 0
    return shown


@dataclass(frozen=True, slots=True, order=True)
class StreamPosition:
    """A place in the stream: behind the entry `entry` of the database transaction `transaction`.

    Entry ids are assigned before transactions commit, so a reader that follows the ids skips entries that commit late.
    Ordered by transaction first, and read only up to the oldest transaction still open, nothing can appear behind the
    reader. Written as one number that grows.
    """

    transaction: int
    entry: int = 0

    def __str__(self) -> str:
        return f"{self.transaction}{self.entry:0{_ID_DIGITS}}"


def parse_position(text: str) -> StreamPosition | None:
    """The place that a `Last-Event-ID` names: one of ours, or the id of an entry in the audit list. None: no such."""
    if not (text.isascii() and text.isdigit() and len(text) <= 32):
        return None
    transaction, entry = divmod(int(text), 10**_ID_DIGITS)
    if transaction:
        return StreamPosition(transaction, entry)
    known = AuditEntry.objects.filter(pk=entry).values_list("transaction", flat=True).first()
    return StreamPosition(int(known), entry) if known is not None else StreamPosition(0, 0)


class _Visible(Func):
    """Whether a snapshot knows a transaction as ended."""

    function = "pg_visible_in_snapshot"
    template = "%(function)s(%(expressions)s::pg_snapshot)"
    output_field = BooleanField()


def current_snapshot() -> str:
    """Which transactions have ended, in PostgreSQL's words: `10:20:10,14,15`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        return str(cursor.fetchone()[0])


def stream_horizon(seen: str | None = None) -> StreamPosition:
    """The place before which every transaction has ended: what stands there now (or in that snapshot) is final."""
    return StreamPosition(int((seen or current_snapshot()).partition(":")[0]))


def entries_after(
    actor: Actor, start: StreamPosition, end: StreamPosition, *, limit: int, known_snapshot: str | None = None
) -> list[tuple[StreamPosition, AuditEntry]]:
    """The entries that `actor` may see behind `start` and before the horizon `end`, in the order of the stream; without
    those that the snapshot `known_snapshot` knows."""
    rows = (
        AuditEntry.objects.visible_to(actor)
        .filter(transaction__gte=str(start.transaction), transaction__lt=str(end.transaction))
        .exclude(transaction=str(start.transaction), pk__lte=start.entry)
        .order_by("transaction", "pk")
    )
    if known_snapshot is not None:
        rows = rows.exclude(_Visible(F("transaction"), Value(known_snapshot)))
    return [(StreamPosition(int(row.transaction), row.pk), row) for row in rows[:limit]]
