"""The one answer to "has anything changed that I keep?" (docs/changes.md): a token for each subject, moved by triggers
in the transaction of every change, raw SQL included.

The same triggers note in the transaction's setting `osmo.changes` whom :func:`pools.database.transactions.change` wakes
up after the commit. Changes of work by a backend's own controller (`osmo.controller`) are not noted for this backend,
and leave its plan as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import pgtrigger
from django.db import models

from pools.models.triggers import DerivedTrigger, NoTruncateTrigger

COHORTS = "cohorts"
"""The subject of all trees of cohorts: their quotas and limits are kept together."""


class TokenKind(StrEnum):
    """The part of a subject that has changed."""

    QUOTAS = "quotas"
    """Of a backend: what its queues are made of. Of the cohorts: the quotas and limits of their trees."""
    PLAN = "plan"
    """Of a backend: what may let work start or stop, except new work and what its own controller does."""
    WORK = "work"
    """Of a backend: its workflows and what they use, its start reservations, what is observed of its nodes. Of a
    namespace: its caps and the workers that count."""


_NOTE_OWN_MOVES = pgtrigger.Trigger(
    name="note_own_moves",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.After,
    condition=pgtrigger.Condition("current_setting('osmo.own_moves', true) <> ''"),
    declare=[("noted", "text")],
    func="""
        noted := current_setting('osmo.own_moves');
        IF position(',' || NEW.id || ':' IN noted) = 0 THEN
            PERFORM set_config('osmo.own_moves',
                noted || NEW.id || ':' || CASE TG_OP WHEN 'UPDATE' THEN OLD.stamp::text ELSE '' END || ',', true);
        END IF;
        RETURN NULL;
    """,
)
"""In a transaction that has set `osmo.own_moves` to `,`: note each row that the transaction moves, with the stamp that
was committed before."""


class ChangeToken(models.Model):
    """One of the rows that are the token of a subject together: their stamps, in order.

    A change takes any row of the subject that no other transaction has locked, or adds one, and renews its stamp. So no
    transaction waits for another one, a subject has as many rows as transactions ever changed it at the same time, and
    a commit is never missed, in whichever order the commits come: each renews a stamp of its own, and a stamp never
    comes back. `number` counts the changes of the row; its sum over a subject only grows.
    """

    subject = models.TextField()
    kind = models.TextField()  # a TokenKind
    number = models.BigIntegerField(default=1)
    stamp = models.UUIDField()

    class Meta:
        indexes = [models.Index(fields=["subject", "kind"], name="change_token_of_subject")]
        triggers = [
            DerivedTrigger("tokens_follow_changes", "The tokens of changes follow the changes; they cannot be edited."),
            _NOTE_OWN_MOVES,
            NoTruncateTrigger("The table of change tokens"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}: {self.number}"


def backend_subject(backend_id: str) -> str:
    """SQL: the subject of the backend with this id."""
    return f"'backend/' || {backend_id}"


def namespace_subject(namespace: str) -> str:
    """SQL: the subject of a namespace."""
    return f"'namespace/' || {namespace}"


def move_token(kind: TokenKind, subject: str) -> str:
    """PL/pgSQL that moves the token of the subject that the SQL expression names."""
    return f"""
        UPDATE pools_changetoken SET number = number + 1, stamp = gen_random_uuid() WHERE id = (
            SELECT id FROM pools_changetoken WHERE subject = {subject} AND kind = '{kind}'
            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
        );
        IF NOT FOUND THEN
            INSERT INTO pools_changetoken (subject, kind, number, stamp)
                VALUES ({subject}, '{kind}', 1, gen_random_uuid());
        END IF;"""


def note(kind: str, name: str) -> str:
    """PL/pgSQL that notes once in a transaction what :class:`pools.database.transactions.Changes` reads."""
    return f"""
        noted := COALESCE(NULLIF(current_setting('osmo.changes', true), ''), ',');
        IF position(',{kind}:' || {name} || ',' IN noted) = 0 THEN
            PERFORM set_config('osmo.changes', noted || '{kind}:' || {name} || ',', true);
        END IF;"""


def of_backends(backend_ids: str, kinds: Iterable[TokenKind], *, also: str = "") -> str:
    """PL/pgSQL that moves tokens of the backends that an SQL query finds; `also` follows for each `concerned.id`."""
    moves = "".join(move_token(kind, "concerned.subject") for kind in kinds)
    return f"""
        FOR concerned IN
            SELECT id, {backend_subject("id")} AS subject FROM pools_backend WHERE id IN ({backend_ids}) ORDER BY id
        LOOP{moves}{also}
        END LOOP;"""


NOTE_CHANGED = note("changed", "concerned.id")


def plan_of_backends(backend_ids: str, *others: TokenKind) -> str:
    """PL/pgSQL for a change that may let work start or stop on the backends that an SQL query finds."""
    return of_backends(backend_ids, (TokenKind.PLAN, *others), also=NOTE_CHANGED)


def in_cohort_trees(*cohort_ids: str) -> str:
    """SQL: the backends of all pools in the trees of these cohorts, because what one pool of a tree may borrow depends
    on all others. UNION ends the recursion even if parents form a cycle."""
    return f"""
        WITH RECURSIVE above (id, parent_id) AS (
            SELECT id, parent_id FROM pools_cohort WHERE id IN ({", ".join(cohort_ids)})
            UNION SELECT parent.id, parent.parent_id FROM above JOIN pools_cohort parent ON parent.id = above.parent_id
        ), tree (id) AS (
            SELECT id FROM above
            UNION SELECT child.id FROM tree JOIN pools_cohort child ON child.parent_id = tree.id
        )
        SELECT backend_id FROM pools_pool WHERE cohort_id IN (SELECT id FROM tree)
    """


class MoveTokensTrigger(pgtrigger.Trigger):
    """Move the tokens that each changed row concerns: `func` is made of the functions above. A row that is written
    without a change moves none."""

    def __init__(self, func: str, *, operation: pgtrigger.Operation | None = None) -> None:
        super().__init__(
            name="move_tokens",
            operation=operation or pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
            when=pgtrigger.After,
            declare=[("concerned", "record"), ("noted", "text")],
            func=f"IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN RETURN NULL; END IF;{func} RETURN NULL;",
        )


class MoveTokensOfRowsTrigger(pgtrigger.Trigger):
    """The same once for each statement, whose rows are `new_rows` (and `old_rows`, of an UPDATE). PostgreSQL needs one
    trigger for each operation."""

    def __init__(self, func: str, *, operation: pgtrigger.Operation, name: str) -> None:
        old = "old_rows" if operation == pgtrigger.Update else None
        super().__init__(
            name=name,
            operation=operation,
            level=pgtrigger.Statement,
            when=pgtrigger.After,
            referencing=pgtrigger.Referencing(new="new_rows", old=old),
            declare=[("concerned", "record"), ("noted", "text")],
            func=f"{func} RETURN NULL;",
        )
