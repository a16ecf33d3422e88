"""The rendered template of a file, with the line of the author for each line of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import Faults, quote, shorten
from scheduling.specs.rendering import sections
from scheduling.specs.rendering.file_text import MAX_FILE_BYTES
from scheduling.specs.rendering.render_budget import RENDER_SECONDS, RenderBudget
from scheduling.specs.rendering.variables import encode_variables, unknown_variable_message

_RAW = "Put `{% raw %}` before and `{% endraw %}` behind text whose braces are not meant for the template."
_MESSAGES = {
    "too_large": f"The template makes over {MAX_FILE_BYTES:,} bytes or needs too much memory. Make its loops smaller.",
    "too_slow": f"The template has not finished after {RENDER_SECONDS:g} seconds. Make its loops smaller.",
    "budget_spent": (
        f"The templates of one request may take {RENDER_SECONDS:g} seconds together, and they were over in this one. "
        "Make the loops smaller, or send the workflows in several requests."
    ),
    "too_deep": "The template is nested too deep or calls itself without end. Make it flatter.",
}

# Faults about several places, or about something absent: with an undefined variable in the file they may be wrong.
_DOUBTFUL = {
    Fault.UNKNOWN_TASK,
    Fault.UNKNOWN_RESOURCE,
    Fault.DUPLICATE_NAME,
    Fault.DUPLICATE_KEY,
    Fault.LEADS,
    Fault.CYCLE,
    Fault.OWN_GROUP,
    Fault.MISSING,
}


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """The result; `lines[n]` is the source line of its line n (from 0); `undefined_lines` are source lines with a
    variable that has no value."""

    text: str
    lines: list[int] = field(default_factory=list)
    undefined_lines: frozenset[int] = frozenset()
    is_stopped: bool = False

    def line_of(self, line: int) -> int:
        """Line of the result (from 0) -> line of the file (from 1); the same number if the line is not known."""
        if not self.lines:
            return line + 1
        return self.lines[min(line, len(self.lines) - 1)]

    def add_certain_faults(self, late: Faults, faults: Faults) -> None:
        """Add the faults of the result, without those that an undefined variable may have caused."""
        for fault in late.violations:
            if not self.undefined_lines or (fault.code not in _DOUBTFUL and fault.line not in self.undefined_lines):
                faults.add(fault.path, fault.code, fault.message, fault.line)
        faults.unlisted_count += late.unlisted_count
        for message in late.warnings:
            faults.add_warning(message)


def render_template(
    parts: sections.Sections, values: Mapping[str, Any], given: set[str], faults: Faults, budget: RenderBudget
) -> RenderedFile:
    """The body with its template rendered; unchanged if it has none."""
    body = sections.restore_header(parts.body, parts.header)
    masked, hidden = sections.hide_tokens(parts.body, frozenset(values))
    if not sections.has_template(masked):
        _warn_unused(given, set(), faults)
        return RenderedFile(body)
    answer = budget.render(masked, encode_variables(dict(values)), MAX_FILE_BYTES)
    for hole in answer.get("undefined", ()):
        message = unknown_variable_message(hole["name"], values, faults)
        if hole["inside"]:
            why = shorten(hole["inside"], 200)
            message = f"The template uses {quote(hole['name'])} of a value, but {why}. Correct the name."
        faults.add("file", Fault.UNDEFINED_VARIABLE, message, hole["line"])
    if error := answer.get("error"):
        if error["code"] != "stopped":
            faults.add(
                "file",
                Fault[f"TEMPLATE_{error['code'].upper()}"],
                _error_message(error["code"], error["message"], hidden),
                error["line"],
            )
        return RenderedFile(body, is_stopped=True)
    _warn_unused(given, set(answer["used"]), faults)
    holes = frozenset(hole["line"] for hole in answer["undefined"])
    text = sections.restore_header(sections.restore_tokens(answer["text"], hidden), parts.header)
    return RenderedFile(text, answer["lines"], holes)


def _error_message(code: str, message: str, hidden: dict[str, str]) -> str:
    if code in _MESSAGES:
        return _MESSAGES[code]
    problem = shorten(sections.restore_tokens(message, hidden), 200)
    if code == "forbidden":
        return f"The template uses a forbidden operation: {problem} Remove it."
    if code != "syntax":
        return f"The template cannot be rendered: {problem}. Correct the expression."
    if "comment" in problem:
        return (
            f"The template cannot be read: {problem.rstrip('.')}. `{{#` begins a comment of the template, also in "
            f"shell text like `${{#array[@]}}`. {_RAW}"
        )
    return f"The template cannot be read: {problem.rstrip('.')}. {_RAW}"


def _warn_unused(given: set[str], used: set[str], faults: Faults) -> None:
    for name in sorted(given - used):
        faults.add_warning(f"The variable {quote(name)} is set, but the file does not use it.")
