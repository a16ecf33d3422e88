"""Sessions of browsers in the database, as Django's, except that a request that only reads may end or replace one.

Django deletes the session of a changed password, and replaces one that was signed with a former `OSMO_SECRET_KEY`, at
the first look at `request.user`. Such a write waits for the end of the request's snapshot.
"""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.backends import db

from pools.database.transactions import after_snapshot


class SessionStore(db.SessionStore):
    """The session of one browser."""

    def save(self, must_create: bool = False) -> None:
        store: Any = super()  # Django has no types for it
        after_snapshot(lambda: store.save(must_create))

    def delete(self, session_key: str | None = None) -> None:
        store: Any = super()
        key = session_key or self.session_key
        after_snapshot(lambda: store.delete(key))
