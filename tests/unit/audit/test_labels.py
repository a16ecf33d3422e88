"""The values of the audit trail in words."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.audit_labels import column_text


@pytest.mark.parametrize(
    ("kind", "path", "value", "shown"),
    [
        ("user", "assigned_at", "2026-11-28T17:08:37.89+00:00", "2026-11-28 17:08 UTC"),
        ("user", "date_joined", "2026-11-28T17:08:37.64+00:00", "2026-11-28 17:08 UTC"),
        ("approval", "arguments.expires_at", "tomorrow", "tomorrow"),
        ("node", "memory_bytes", 2**40, "1Ti"),
        ("backend", "desired_offline", True, "yes"),
        ("backend", "reserve_after", 60, 60),
        ("node", "flavor", None, None),
    ],
)
def test_a_value_in_words(kind: str, path: str, value: Any, shown: Any) -> None:
    assert column_text(kind, path, value) == shown
