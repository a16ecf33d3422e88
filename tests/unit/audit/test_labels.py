"""The values of the audit trail in words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.apps import apps

from pools.domain.audit_labels import NUMBERS_OF_ROWS, column_label, column_text, known_label
from pools.models.triggers import AuditTrigger


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
        ("backend", "victims", "youngest", "the youngest work first, as KAI"),
        ("backend", "sync_mode", "apply", "write the queues, revert other edits"),
        ("backend", "sync_mode", "an earlier mode", "an earlier mode"),
        ("approval", "service", "resize_subpool", "resize subpool"),
        ("workflow", "end_time", "2026-11-28T17:08:37.64+00:00", "2026-11-28 17:08 UTC"),
    ],
)
def test_a_value_in_words(kind: str, path: str, value: Any, shown: Any) -> None:
    assert column_text(kind, path, value) == shown


@pytest.mark.parametrize(
    ("kind", "path", "shown"),
    [
        ("approval", "arguments.parent", "Pool"),
        ("approval", "arguments.quota", "quota"),
        ("workflow", "labels.osmo/simulated-runtime", "Labels: osmo/simulated-runtime"),
        ("pool", "config.hold_after", "Hold later work after"),
        ("somebody", "else.where", "else.where"),
    ],
)
def test_what_people_call_a_value_inside_a_column(kind: str, path: str, shown: str) -> None:
    assert column_label(kind, path) == shown


def _audited_columns() -> set[tuple[str, str]]:
    """The kind of the object and each column that an audit entry of it may have."""
    found = set()
    for model in apps.get_models():
        for trigger in getattr(model._meta, "triggers", ()):
            if not isinstance(trigger, AuditTrigger):
                continue
            text = str(trigger.func)
            left_out = {
                name
                for names in re.findall(r"ARRAY\[([^\]]*)\]::text\[\]", text)
                for name in re.findall(r"'(\w+)'", names)
            }
            columns = {field.column for field in model._meta.concrete_fields} - left_out
            columns |= set(re.findall(r"jsonb_build_object\('(\w+)'", text))
            found |= {(kind, column) for kind in re.findall(r"'([a-z_]+)/", text) for column in columns}
    return found


def test_each_column_of_the_trail_has_words_or_is_not_shown() -> None:
    columns = _audited_columns()
    assert ("user", "is_staff") in columns
    assert ("workflow", "exec_timeout") in columns
    unnamed = sorted(each for each in columns if each[1] not in NUMBERS_OF_ROWS and not known_label(*each))
    assert not unnamed, f"Give these a label in pools/domain/audit_labels.py: {unnamed}"
