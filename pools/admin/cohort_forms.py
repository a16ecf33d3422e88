"""Forms of cohorts: the GPUs in fields of their own, every other resource a line."""

from __future__ import annotations

import re
from typing import Any

from pools.admin import forms
from pools.admin.confirm_flow import REASON_HELP, ChangeForm
from pools.domain.amounts import DEFAULT_FLAVOR
from pools.domain.errors import DomainError, Violation
from pools.domain.quota.rules import QuotaRow

_QUOTA_LINE = re.compile(r"(?:([^/=\s]+)/)?([^=\s]+)\s*=\s*([^:\s]+)(?::([^:\s]*))?(?::([^:\s]*))?")


class CohortForm(ChangeForm):
    """A cohort's configuration: its GPUs in fields of their own, other resources a line each."""

    parent = forms.text_field(
        "Parent", help_text="The cohort above it; empty for the top of its own tree. A new name makes a new cohort."
    )
    nominal = forms.text_field(
        "Quota of its own, in GPUs",
        help_text="On top of what the pools and cohorts below it have: 0 if it adds nothing.",
        inputmode="numeric",
    )
    borrowing_limit = forms.text_field(
        "Borrowing limit in GPUs",
        help_text="How much everything below it may use beyond what it owns together. Empty: no limit.",
        inputmode="numeric",
    )
    lending_limit = forms.text_field(
        "Lending limit in GPUs",
        help_text="How much of what it owns others may use. Empty: no limit.",
        inputmode="numeric",
    )
    weight = forms.text_field(
        "Weight", help_text="For comparing shares of what is borrowed; 1 is usual.", inputmode="decimal"
    )
    others = forms.code_field(
        "Other resources",
        rows=3,
        help_text="One a line: RESOURCE=QUOTA[:BORROWING LIMIT[:LENDING LIMIT]], such as cpu=4000:1000 or h100/gpu=8. "
        "They stand in the tree; work is held to GPUs alone, which is what pools promise.",
    )
    description = forms.text_field("Why", help_text=REASON_HELP)

    def add_errors(self, refusal: DomainError) -> None:
        """Faults of the first row of quotas stand at the fields of the GPUs, those of others at their lines."""
        moved = []
        for fault in refusal.details:
            path = _form_path(fault.path)
            said = fault.message
            if said.startswith(f"{fault.path} "):
                said = path + said[len(fault.path) :]
            moved.append(Violation(path, fault.code, said))
        super().add_errors(type(refusal)(refusal.message, moved))


def _form_path(path: str) -> str:
    """Where a path of the configuration stands here: `quotas[0]` are the GPUs, `quotas[2]` is the second line."""
    match = re.fullmatch(r"quotas\[(\d+)\](?:\.(\w+))?", path)
    if match is None:
        return path
    if match[1] == "0":
        return match[2] or "nominal"
    column = {"nominal": "quota"}.get(match[2], (match[2] or "").replace("_", " "))
    return f"others[{int(match[1]) - 1}]" + (f".{column}" if column else "")


class CreateCohortForm(CohortForm):
    """A new one."""

    field_order = ("name",)
    name = forms.text_field("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")


def cohort_config_from(form: ChangeForm) -> dict[str, Any]:
    """What was typed, as the configuration's JSON; what is no number stays for the service to refuse."""
    data = form.cleaned_data
    gpus = {
        "resource": "gpu",
        "nominal": _parse_number(data["nominal"]) or 0,
        "borrowing_limit": _parse_number(data["borrowing_limit"]),
        "lending_limit": _parse_number(data["lending_limit"]),
    }
    quotas = [gpus, *(_parse_quota_line(line) for line in data["others"].splitlines() if line.strip())]
    weight = data["weight"].strip()
    return {"parent": data["parent"].strip() or None, "quotas": quotas, "weight": _parse_weight(weight)}


def _parse_number(text: str | None) -> int | str | None:
    text = (text or "").strip()
    return None if not text else int(text) if re.fullmatch(r"-?\d{1,16}", text) else text


def _parse_weight(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


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


class DeleteCohortForm(ChangeForm):
    """The end of a cohort."""

    orphan = forms.checkbox_field(
        "Make what is below it the tops of their own trees",
        help_text="They lose their borrowing and lending limits, which mean nothing there. What runs goes on.",
    )
    description = forms.text_field("Why", help_text=REASON_HELP)
    field_by_path = {"cohorts": "orphan", "pools": "orphan"}
