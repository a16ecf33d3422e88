"""Forms of cohorts: GPUs in fields of their own, every other resource as a line of text."""

from __future__ import annotations

import re
from typing import Any

from pools.admin import forms
from pools.admin.command_forms import CommandForm
from pools.admin.confirm_flow import REASON_HELP, ChangeForm
from pools.domain.amounts import DEFAULT_FLAVOR
from pools.domain.errors import DomainError, Violation
from pools.domain.quota.rules import QuotaRow
from pools.domain.scalars import typed_number

_QUOTA_LINE = re.compile(r"(?:([^/=\s]+)/)?([^=\s]+)\s*=\s*([^:\s]+)(?::([^:\s]*))?(?::([^:\s]*))?")


class CohortForm(ChangeForm):
    """A cohort's configuration."""

    parent = forms.text_field(
        "Parent", help_text="The cohort above this one; empty for a root. A new name creates a cohort."
    )
    nominal = forms.text_field(
        "Nominal quota in GPUs",
        help_text="The cohort's own quota, in addition to the quotas of the pools and cohorts below; 0 adds nothing.",
        inputmode="numeric",
    )
    borrowing_limit = forms.text_field(
        "Borrowing limit in GPUs",
        help_text="How many GPUs the subtree may use beyond its effective quota. Empty: no limit.",
        inputmode="numeric",
    )
    lending_limit = forms.text_field(
        "Lending limit in GPUs",
        help_text="How many GPUs of the effective quota others may use. Empty: no limit.",
        inputmode="numeric",
    )
    weight = forms.text_field(
        "Weight", help_text="The weight in fair sharing of borrowed GPUs; usually 1.", inputmode="decimal"
    )
    others = forms.code_field(
        "Other resources",
        rows=3,
        help_text="One resource a line: RESOURCE=QUOTA[:BORROWING LIMIT[:LENDING LIMIT]], such as cpu=4000:1000 or "
        "h100/gpu=8. The quota tree shows them; admission checks GPUs only.",
    )
    description = forms.text_field("Reason", help_text=REASON_HELP)

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

    field_order = ("name",)
    name = forms.text_field("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")


def cohort_config_from(form: ChangeForm) -> dict[str, Any]:
    """The input as the configuration's JSON; an invalid number stays a text, which the service refuses."""
    data = form.cleaned_data
    gpus = {
        "resource": "gpu",
        "nominal": _parse_number(data["nominal"]) or 0,
        "borrowing_limit": _parse_number(data["borrowing_limit"]),
        "lending_limit": _parse_number(data["lending_limit"]),
    }
    quotas = [gpus, *(_parse_quota_line(line) for line in data["others"].splitlines() if line.strip())]
    weight = data["weight"].strip()
    return {"parent": data["parent"].strip() or None, "quotas": quotas, "weight": _parse_number(weight)}


def _parse_number(text: str | None) -> int | float | str | None:
    return typed_number(text) if text and text.strip() else None


def _parse_quota_line(line: str) -> dict[str, Any]:
    match = _QUOTA_LINE.fullmatch(line.strip())
    if match is None:
        return {"resource": line.strip()[:60], "nominal": "?"}
    flavor, resource, *amounts = match.groups()
    nominal, borrowing, lending = map(_parse_number, amounts)
    row = {"resource": resource, "nominal": nominal, "borrowing_limit": borrowing, "lending_limit": lending}
    return row | ({"flavor": flavor} if flavor else {})


def format_quota_line(row: QuotaRow) -> str:
    """A row of quotas as a line of the form."""
    flavor = "" if row.flavor == DEFAULT_FLAVOR else f"{row.flavor}/"
    limits = ["" if limit is None else str(limit) for limit in (row.borrowing_limit, row.lending_limit)]
    return f"{flavor}{row.resource}={':'.join([str(row.nominal), *limits]).rstrip(':')}"


class DeleteCohortForm(CommandForm):
    """The deletion of a cohort."""

    field_by_path = {"cohorts": "orphan", "pools": "orphan"}
