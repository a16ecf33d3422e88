"""What is known about the request that is being served, for the audit trail."""

from __future__ import annotations

from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("osmo_request_id", default="")
