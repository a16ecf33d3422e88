"""The preview of a change of one object that is neither a pool nor a cohort: a cluster, a GPU quota, roles,
settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic

from pools.admin.confirm_flow import ChangeForm, ResultT
from pools.admin.effect_tables import changed_fields, value_text
from pools.domain.field_changes import field_changes
from pools.domain.people.roles import Actor
from pools.services.changes.dry_run import EffectAnswer, read_effect, warnings_of
from pools.services.changes.seen_state import mark_of

CONFIGS = "configs"
"""The key of a state that has the configuration; the other keys are facts for the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPreview(Generic[ResultT]):
    """The preview of a change of one object. `read_state` returns its configuration under :data:`CONFIGS` (None without
    an object) and further facts; `label_of` names a path of the configuration and `value_of` its values, `messages` say
    the effect of the change, and `tables` are further tables."""

    form_template: ClassVar[str] = "osmo/change_form.html"
    effect_template: ClassVar[str] = "osmo/change_effect.html"

    actor: Actor
    read_state: Callable[[], dict[str, Any]]
    label_of: Callable[[str], str]
    messages: Callable[[dict[str, Any], dict[str, Any]], Iterable[str]]
    warnings: Callable[[dict[str, Any], dict[str, Any]], Iterable[str]] | None = None
    value_of: Callable[[str, Any], str] = value_text
    tables: Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Any]] | None = None
    form_words: Mapping[str, Any] = field(default_factory=dict)

    def form_context(self) -> dict[str, Any]:
        """The words of the form's page."""
        return dict(self.form_words)

    def dry_run(self, operation: Callable[[], object]) -> EffectAnswer:
        """The effect, with the work that the next scheduling cycle would treat differently."""
        return read_effect(operation, read_state=self.read_state, actor=self.actor)

    def effect_context(self, effect: EffectAnswer, result: ResultT) -> dict[str, Any]:
        """The fields that change, what follows from them, and warnings."""
        before, after = effect["before"], effect["after"]
        changes = field_changes(before[CONFIGS], after[CONFIGS])
        fields = [{"path": each.path, "before": each.before, "after": each.after} for each in changes]
        return {
            "fields": changed_fields(fields, self.label_of, self.value_of, is_new=before[CONFIGS] is None),
            "is_new": before[CONFIGS] is None,
            "is_unchanged": not fields,
            "effect_messages": tuple(self.messages(before, after)),
            "warnings": (*warnings_of(result), *(self.warnings(before, after) if self.warnings else ())),
            "reclaimed": effect["may_be_reclaimed"],
            "reclaimed_elsewhere": effect["may_be_reclaimed_elsewhere"],
            **(self.tables(before, after) if self.tables else {}),
        }

    def current_state(self) -> dict[str, Any]:
        """The present state."""
        return self.read_state()

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """The mark of the configuration."""
        return mark_of(state and state[CONFIGS])


def form_label(form_class: type[ChangeForm]) -> Callable[[str], str]:
    """Names each path as the field of this form that edits it."""

    def label_of(path: str) -> str:
        edited = form_class.base_fields.get(form_class.field_by_path.get(path, path))
        return path if edited is None else str(edited.label)

    return label_of


def form_value(form_class: type[ChangeForm]) -> Callable[[str, Any], str]:
    """Writes each value as the field of this form does: with its unit, or as the choice that it is."""

    def value_of(path: str, value: Any) -> str:
        edited = form_class.base_fields.get(form_class.field_by_path.get(path, path))
        chosen = dict(getattr(edited, "choices", ())).get(value)
        if chosen:
            return str(chosen)
        unit, empty = getattr(edited, "unit", ""), edited.widget.attrs.get("placeholder", "") if edited else ""
        if value in (None, "") and empty:
            return str(empty)
        return f"{value} {unit}" if unit and value is not None else value_text(path, value)

    return value_of
