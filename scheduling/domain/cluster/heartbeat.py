"""The times after which a cluster counts as silent (design, O5.3)."""

from __future__ import annotations

from datetime import timedelta

HEARTBEAT_LIFETIME = timedelta(minutes=2)
"""A backend whose last heartbeat is older is OFFLINE."""

HEARTBEAT_OVERDUE = timedelta(seconds=60)
"""A backend whose last heartbeat is older does not answer now: they come every 10 s."""
