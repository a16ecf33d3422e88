"""The limit of the workflows that a user submits within a minute, if the operator has set one.

The caller holds the lock of the user's live work alone, so that submissions side by side count each other.
"""

from __future__ import annotations

from django.db import connection

from pools.domain.errors import BadInput, ErrorCode, Fault, Throttled, Violation

_PACE_SQL = """
    SELECT count(*), ceil(extract(epoch FROM
        (array_agg(submit_time ORDER BY submit_time DESC))[%s] + interval '1 minute' - clock_timestamp()))
    FROM scheduling_workflow
    WHERE submitted_by_id = %s AND submit_time > clock_timestamp() - interval '1 minute'
"""


def require_pace(*, username: str, user_id: int, requested: int, limit: int) -> None:
    """Refuse workflows beyond `limit` a minute. Raises Throttled with the seconds until there is room, or BadInput for
    a request that has more than the limit by itself."""
    if requested > limit:
        message = (
            f"The request has {requested} workflows; a user submits at most {limit} a minute here. Nothing was stored: "
            "send fewer at a time."
        )
        numbers: tuple[tuple[str, int], ...] = (("requested", requested), ("limit", limit))
        violation = Violation("workflow", Fault.TOO_MANY_IN_REQUEST, message, numbers=numbers)
        raise BadInput(message, [violation], error_code=ErrorCode.RESOURCE)
    with connection.cursor() as cursor:
        # Room comes when this one, counted from the newest, is older than a minute.
        cursor.execute(_PACE_SQL, [limit - requested + 1, user_id])
        submitted, seconds = cursor.fetchone()
    if seconds is None:
        return
    pause = max(int(seconds), 1)
    message = (
        f"{username} has submitted {submitted} workflows within a minute; with the {requested} of this request there "
        f"would be more than {limit}, the most of one user. Nothing was stored: try again in {pause} s."
    )
    numbers = (("submitted", submitted), ("requested", requested), ("limit", limit))
    violation = Violation("workflow", Fault.TOO_MANY_SUBMISSIONS, message, numbers=numbers)
    raise Throttled(message, [violation], error_code=ErrorCode.RESOURCE, retry_after=pause)
