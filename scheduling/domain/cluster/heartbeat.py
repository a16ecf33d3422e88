"""The time after which a cluster counts as silent (design, O5.3)."""

from __future__ import annotations

from datetime import timedelta

HEARTBEAT_LIFETIME = timedelta(minutes=2)
"""A backend whose last heartbeat is older is OFFLINE."""
