"""Forms of cohorts: GPUs in fields of their own, every other resource as a line of text."""

from __future__ import annotations

import re

from django.forms import Field

from pools.admin import forms
from pools.admin.command_forms import CommandForm, input_field, reason_field, section_groups
from pools.admin.confirm_flow import FieldGroup
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.cohort_config import FIELDS_OF_FORM, SECTIONS, optional_number, row_from_text
from pools.domain.errors import DomainError, Violation
from pools.domain.quota.rules import QuotaRow
from pools.domain.quota.tree import AMOUNT_KEYS
from pools.domain.values.amounts import DEFAULT_FLAVOR


class CohortForm(CommandForm):
    """A cohort's configuration (:data:`pools.domain.configuration.cohort_config.FIELDS_OF_FORM`)."""

    groups = (*section_groups(FIELDS_OF_FORM, SECTIONS, {}), FieldGroup("", ("others", "description")))

    def own_fields(self) -> dict[str, Field]:
        """The fields of the configuration, and the reason."""
        fields = {name: input_field(each, each.looks) for name, each in FIELDS_OF_FORM.items()}
        others = forms.code_field(
            "Other resources",
            rows=3,
            help_text="One resource a line: RESOURCE=QUOTA[:BORROWING LIMIT[:LENDING LIMIT]], such as cpu=4000:1000 or "
            "h100/gpu=8. The quota tree shows them; admission checks GPUs only.",
        )
        return {**fields, "others": others, "description": reason_field()}

    def command(self) -> ChangeCommand:
        """The change of the valid form; an invalid number stays a text, which the service refuses."""
        data = self.cleaned_data
        gpus = {"resource": "gpu", **{key: optional_number(data[key]) for key in AMOUNT_KEYS}}
        lines = [line.strip() for line in data["others"].splitlines() if line.strip()]
        rows = [gpus, *(row_from_text(line) or {"resource": line[:60], "nominal": "?"} for line in lines)]
        parent, weight = data["parent"].strip() or None, optional_number(data["weight"])
        values = {**self.given, "body": {"parent": parent, "quotas": rows, "weight": weight}}
        return self.kind(**values)

    def add_errors(self, refusal: DomainError) -> None:
        """Show errors of the first row of quotas at the fields of the GPUs, errors of other rows at their lines."""
        violations = []
        for fault in refusal.details:
            path = _form_path(fault.path)
            message = fault.message
            if message.startswith(f"{fault.path} "):
                message = path + message[len(fault.path) :]
            violations.append(Violation(path, fault.code, message))
        super().add_errors(type(refusal)(refusal.message, violations))


def _form_path(path: str) -> str:
    """The field of a path of the configuration: `quotas[0]` are the GPUs, `quotas[2]` is the second line."""
    match = re.fullmatch(r"quotas\[(\d+)\](?:\.(\w+))?", path)
    if match is None:
        return path
    if match[1] == "0":
        return match[2] or "nominal"
    column = {"nominal": "quota"}.get(match[2], (match[2] or "").replace("_", " "))
    return f"others[{int(match[1]) - 1}]" + (f".{column}" if column else "")


class CreateCohortForm(CohortForm):
    """A new cohort."""

    groups = (FieldGroup("Cohort", ("name",)), *CohortForm.groups)
    name = forms.text_field("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")


def format_quota_line(row: QuotaRow) -> str:
    """A row of quotas as a line of the form."""
    flavor = "" if row.flavor == DEFAULT_FLAVOR else f"{row.flavor}/"
    amounts = ":".join("" if amount is None else str(amount) for amount in row.amounts.values())
    return f"{flavor}{row.resource}={amounts.rstrip(':')}"


class DeleteCohortForm(CommandForm):
    """The deletion of a cohort."""

    field_by_path = {"cohorts": "orphan", "pools": "orphan"}
