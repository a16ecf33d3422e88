"""The limit of the workflows that a user submits within a minute, if the operator has set one.

The caller holds the lock of the user's live work, so that submissions side by side count each other.
"""

from __future__ import annotations

from django.conf import settings

from pools.database.statements import execute_sql
from pools.domain.errors import BadInput, DomainError, ErrorCode, Fault, Throttled, Violation
from pools.domain.people.roles import Actor
from pools.domain.values.counting import counted

_PACE_SQL = """
    SELECT count(*), ceil(extract(epoch FROM
        (array_agg(submit_time ORDER BY submit_time DESC))[%s] + interval '1 minute' - clock_timestamp()))
    FROM scheduling_workflow
    WHERE submitted_by_id = %s AND submit_time BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp()
"""


def find_pace_refusal(actor: Actor, requested: int) -> DomainError | None:
    """Why these workflows, which are inserted already, are too many now, or None: Throttled with the seconds until
    there is room, or BadInput for a request that has more than the limit by itself."""
    limit = settings.OSMO.max_submissions_per_minute
    if not limit:
        return None
    if requested > limit:
        message = (
            f"The request has {counted(requested, 'workflow')}; a user submits at most {limit} a minute here. Nothing "
            "was stored: send fewer at a time."
        )
        numbers: tuple[tuple[str, int], ...] = (("requested", requested), ("limit", limit))
        violation = Violation("workflow", Fault.TOO_MANY_IN_REQUEST, message, numbers=numbers)
        return BadInput(message, [violation], error_code=ErrorCode.RESOURCE)
    # Room comes when this one, counted from the newest, is older than a minute. The newest are of this request.
    submitted, seconds = execute_sql(_PACE_SQL, [limit + 1, actor.user_id]).fetchone()
    if seconds is None:
        return None
    submitted -= requested
    pause = max(int(seconds), 1)
    message = (
        f"{actor.username} has submitted {counted(submitted, 'workflow')} within a minute; with the {requested} of "
        f"this request there would be more than {limit}, the most of one user. Nothing was stored: "
        f"try again in {pause} s."
    )
    numbers = (("submitted", submitted), ("requested", requested), ("limit", limit))
    violation = Violation("workflow", Fault.TOO_MANY_SUBMISSIONS, message, numbers=numbers)
    return Throttled(message, [violation], error_code=ErrorCode.RESOURCE, retry_after=pause)
