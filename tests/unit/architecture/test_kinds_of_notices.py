"""A new kind of notice is one line of the domain: the columns know no list of kinds, so no migration repeats it."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field

from pools.domain.people.notices import NoticeKind


def _lists_kinds(field: Any) -> bool:
    return set(NoticeKind) <= {value for value, _label in field.flatchoices}


def test_a_new_kind_of_notice_needs_no_migration() -> None:
    models = [(model, field) for model in apps.get_models() for field in model._meta.fields]
    assert [f"{model.__name__}.{field.name}" for model, field in models if _lists_kinds(field)] == []
    state = MigrationLoader(None).project_state()
    migrated = [(name, field) for name, model in state.models.items() for field in model.fields.items()]
    assert len([name for (_app, name), (field, _row) in migrated if field == "kind" and "notice" in name]) == 3
    assert [name for name, (_field, row) in migrated if isinstance(row, Field) and _lists_kinds(row)] == []
