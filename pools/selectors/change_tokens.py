"""Read the tokens of changes (:class:`pools.models.ChangeToken`, docs/changes.md), and keep results under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import OuterRef, Subquery, Sum, TextField, Value
from django.db.models.functions import Cast, Concat

from pools.database.prepared import read_rows
from pools.database.transactions import is_in_snapshot
from pools.models.change_tokens import COHORTS, ChangeToken, TokenKind

Result = TypeVar("Result")


def token_sql(condition: str) -> str:
    """SQL: the token of the rows that the condition selects, as text. Two snapshots with the same token see the same
    rows of these subjects."""
    return (
        f"SELECT COALESCE(array_agg(stamp ORDER BY stamp), '{{}}')::text FROM pools_changetoken token WHERE {condition}"
    )


PLAN_TOKEN_SQL = token_sql(f"subject = 'backend/' || %s AND kind = '{TokenKind.PLAN}'")
GENERATION_SQL = f"""
    SELECT COALESCE(sum(number), 0)::bigint FROM pools_changetoken
    WHERE kind = '{TokenKind.QUOTAS}' AND subject = 'backend/' ||
"""
"""SQL: how often the quotas of the backend have changed whose id follows; the number only grows."""

_COHORTS_SQL = token_sql(f"subject = '{COHORTS}'")
_EACH_BACKEND_SQL = token_sql(f"subject LIKE 'backend/%%' AND kind IN ('{TokenKind.PLAN}', '{TokenKind.WORK}')")

_ALL_SQL = f"""
    SELECT subject, array_agg(stamp ORDER BY stamp)::text FROM pools_changetoken
    WHERE subject <> '{COHORTS}' GROUP BY subject
"""

_WATCH_SQL = "SELECT set_config('osmo.own_moves', ',', true)"
_OWN_CHANGE_SQL = f"""
    WITH own AS (
        SELECT split_part(each, ':', 1)::bigint AS id, NULLIF(split_part(each, ':', 2), '')::uuid AS stamp
        FROM unnest(string_to_array(trim(',' FROM current_setting('osmo.own_moves')), ',')) each
    )
    SELECT token.subject, array_agg(token.stamp ORDER BY token.stamp)::text,
        array_agg(old.stamp ORDER BY old.stamp) FILTER (WHERE old.stamp IS NOT NULL)::text
    FROM pools_changetoken token LEFT JOIN own USING (id),
        LATERAL (SELECT CASE WHEN own.id IS NULL THEN token.stamp ELSE own.stamp END AS stamp) old
    WHERE token.subject <> '{COHORTS}' GROUP BY token.subject
"""


@dataclass(frozen=True, slots=True)
class OwnChange:
    """The tokens by subject as all other transactions have left them (`before`), and with the moves of this transaction
    (`after`). Commits that came while this transaction waited for a lock are in both."""

    before: Mapping[str, str]
    after: Mapping[str, str]


def read_cohorts_token() -> str:
    """The token of the quotas and limits of all trees of cohorts."""
    return read_token(_COHORTS_SQL)


def read_backends_token() -> str:
    """The token of the nodes and the work of all backends."""
    return read_token(_EACH_BACKEND_SQL)


def read_token(sql: str, parameters: list[object] | dict[str, object] | None = None) -> str:
    """The token that a query of :func:`token_sql` selects."""
    found: str = read_rows(sql, parameters or [])[0][0]
    return found


def read_tokens() -> dict[str, str]:
    """The token of each backend and each GPU namespace, by its subject."""
    return dict(read_rows(_ALL_SQL, []))


def watch_own_moves() -> None:
    """From now on this transaction notes which tokens it moves itself, for :func:`read_own_change`."""
    read_rows(_WATCH_SQL, [])


def read_own_change() -> OwnChange:
    """The tokens of this transaction so far. One snapshot, so that a commit of another one is in both or in none."""
    rows = read_rows(_OWN_CHANGE_SQL, [])
    return OwnChange({subject: before for subject, _, before in rows if before}, {row[0]: row[1] for row in rows})


def read_generation(backend_id: int) -> int:
    """The generation of a backend: how often its quotas have changed."""
    found: int = read_rows(f"{GENERATION_SQL} %s", [backend_id])[0][0]
    return found


def generation_of(backend_id: OuterRef) -> Subquery:
    """The same for each row of a query; null if they never have."""
    subject = Concat(Value("backend/"), Cast(backend_id, TextField()))
    tokens = ChangeToken.objects.filter(kind=TokenKind.QUOTAS, subject=subject).order_by()
    return Subquery(tokens.values("kind").annotate(total=Sum("number")).values("total"))


class KeptResult(Generic[Result]):
    """The last result of a read in this process, used for as long as its token stays. Threads share it; nobody changes
    the result. `read` depends on nothing but the rows whose changes move the token."""

    def __init__(self, read_token: Callable[[], str], read: Callable[[], Result]) -> None:
        self._read_token = read_token
        self._read = read
        self._kept: tuple[str, Result] | None = None

    def get(self) -> Result:
        """The result as the transaction sees it. One cheap query while nothing has changed."""
        token, kept = self._read_token(), self._kept
        if kept is not None and kept[0] == token:
            return kept[1]
        result = self._read()
        if is_in_snapshot() or self._read_token() == token:  # else a change may have come between the two
            self._kept = token, result
        return result
