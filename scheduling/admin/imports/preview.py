"""The preview of an import: what became of the files, each object that changes, and the effect on the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pools.admin.effect_tables import changed_fields, value_text
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.field_changes import field_changes
from pools.domain.values.counting import counted
from pools.services.changes.dry_run import EffectAnswer
from pools.services.changes.seen_state import mark_of
from scheduling.admin.imports.form import FormFacts, ImportForm
from scheduling.configuration.bodies import SECTION_BY_KEY, USERS
from scheduling.configuration.texts import object_text
from scheduling.domain.changes.configuration import ImportConfiguration
from scheduling.domain.list_columns import IMPORTED_COLUMNS, REPORT_COLUMNS
from scheduling.moving_in.report import TITLES
from scheduling.moving_in.result import ImportResult, PartOutcome
from scheduling.services.configuration import AppliedConfiguration
from scheduling.services.configuration_import import effect_of_import, objects_of_import

MOST_OBJECTS: Final = 100
MOST_LINES: Final = 60
"""Of each kind of report lines; the report as a file has all."""
_ACTIONS: Final = {"create": "new", "change": "changed", "release": "given back"}


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One object that the import writes. `text` is its file, empty for one that exists, whose `fields` change."""

    label: str
    action: str
    place: str
    text: str
    fields: list[Any]


@dataclass(frozen=True, slots=True)
class ReportPart:
    """The report lines of one kind: the first ones, and the number of all."""

    title: str
    lines: list[Any]
    count: int
    is_open: bool

    @property
    def more(self) -> int:
        """The number of lines that are not shown."""
        return self.count - len(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPreview:
    """The preview of an import. `forms` has the form with the input of the request, once it was made."""

    form_template: ClassVar[str] = "osmo/import_form.html"
    effect_template: ClassVar[str] = "osmo/import_effect.html"

    facts: FormFacts
    words: Mapping[str, Any]
    links: Mapping[str, Any]
    forms: list[ImportForm] = field(default_factory=list)

    def make_form(self, *args: Any, **kwargs: Any) -> ImportForm:
        """A form for the person's input; the one that has it is kept for the report."""
        form = ImportForm(*args, facts=self.facts, **kwargs)
        if form.is_bound:
            self.forms[:] = [form]
        return form

    def form_context(self) -> dict[str, Any]:
        """The words of the form's page."""
        return dict(self.words)

    def dry_run(self, operation: Callable[[], object]) -> EffectAnswer:
        """The effect of the import. Refusals name the file and the line."""
        form = self.forms[0]
        effect: Any = effect_of_import(form.command(), operation, actor=self.facts.actor)
        for each in effect["violations"]:
            if each.get("file"):
                each["message"] = f"{each['file']}:{each['line']}: {each['message']}"
        found: EffectAnswer = effect
        return found

    def effect_context(self, effect: EffectAnswer, result: AppliedConfiguration) -> dict[str, Any]:
        """The objects, the report, and what a person should read before they confirm."""
        imported = self.forms[0].result
        assert imported is not None, "a form with an effect is valid"
        differences = [(each.kind, each.as_dict()) for each in result.comparison.changes]
        return {
            **self.links,
            "object_columns": IMPORTED_COLUMNS,
            "report_columns": REPORT_COLUMNS,
            "effect_messages": tuple(_messages(self.forms[0].command(), result)),
            "is_unchanged": not differences,
            "unchanged_words": _unchanged_words(self.forms[0].command()),
            "warnings": (*_questions(imported), *result.warnings),
            "objects": [_object_row(kind, each) for kind, each in differences[:MOST_OBJECTS]],
            "more_objects": max(0, len(differences) - MOST_OBJECTS),
            "report": [_report_part(imported, outcome) for outcome in PartOutcome if imported.count(outcome)],
            "reclaimed": effect["may_be_reclaimed"],
            "reclaimed_elsewhere": effect["may_be_reclaimed_elsewhere"],
        }

    def current_state(self) -> dict[str, Any]:
        """The objects that the import would change, as they are."""
        return objects_of_import(self.forms[0].command())

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """A mark of these objects."""
        return mark_of(state)


def success_message(result: AppliedConfiguration) -> str:
    """What is said after the import."""
    changes = len(result.comparison.changes)
    return f"The import made {counted(changes, 'change')}." if changes else "The import changed nothing."


def _total(command: ImportConfiguration) -> int:
    return sum(len(each) if key not in _SINGLE else 1 for key, each in command.sections.items())


def _unchanged_words(command: ImportConfiguration) -> str:
    return f"The files have {counted(_total(command), 'object')}, all of which are here already: nothing changes."


def _messages(command: ImportConfiguration, result: AppliedConfiguration) -> list[str]:
    """What the import does, in sentences."""
    total, changes = _total(command), result.comparison.changes
    counts = {word: sum(each.action == action for each in changes) for action, word in _ACTIONS.items()}
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    same = total - len(changes)
    return [
        f"{counted(total, 'object')}: {', '.join([*parts, *([f'{same} as they are'] if same else [])])}.",
        "All of them are written, or none. They belong to the admins, as those made in pages.",
    ]


_SINGLE: Final = frozenset(key for key, section in SECTION_BY_KEY.items() if section.is_single)


def _questions(result: ImportResult) -> list[str]:
    """Warnings about what the report has for the person."""
    found = []
    if count := result.count(PartOutcome.TO_DECIDE):
        found.append(f"{counted(count, 'line')} of the report below {'is' if count == 1 else 'are'} for you to decide.")
    if count := result.count(PartOutcome.NO_COUNTERPART):
        found.append(f"{counted(count, 'part')} of the files {'has' if count == 1 else 'have'} no counterpart here.")
    return found


def _object_row(kind: OwnedKind, difference: Mapping[str, Any]) -> ObjectRow:
    """One object with its file, or with its fields before and after."""
    before, after = difference["before"], difference["after"]
    name = difference["object"].partition(".")[2]
    is_new = before is None
    changes = [] if is_new else field_changes(before, after)
    fields = [{"path": each.path, "before": each.before, "after": each.after} for each in changes]
    return ObjectRow(
        difference["object"],
        _ACTIONS.get(difference["action"], difference["action"]),
        f"{difference['file']}:{difference['line']}",
        object_text(kind, name, after) if is_new else "",
        changed_fields(fields, value_of=_value_text),
    )


def _value_text(path: str, value: Any) -> str:
    """A value in words; a list of people or words without its brackets."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "nobody" if path == USERS else ", ".join(value) or "none"
    return value_text(path, value)


def _report_part(result: ImportResult, outcome: PartOutcome) -> ReportPart:
    lines = [line for line in result.lines if line.outcome is outcome]
    is_open = outcome in (PartOutcome.TO_DECIDE, PartOutcome.NO_COUNTERPART)
    return ReportPart(TITLES[outcome], lines[:MOST_LINES], len(lines), is_open)
