"""The steps of reading a file: clean text, sections, variables, template, YAML, schema. A fault ends the sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pools.domain.errors import Fault, Violation
from pools.domain.structured_input.faults import Faults
from scheduling.domain.workflow_spec import WorkflowSpec
from scheduling.specs import podgroup_manifest
from scheduling.specs.rendering import sections, template, variables
from scheduling.specs.rendering.file_text import clean_text, is_printable
from scheduling.specs.rendering.render_budget import RenderBudget
from scheduling.specs.rules import SpecRules
from scheduling.specs.workflow_file import read_workflow_file
from scheduling.specs.yaml_cursor import MAX_FAULTS
from scheduling.structured_yaml import node_reader
from scheduling.structured_yaml.nodes import MapNode


@dataclass(frozen=True, slots=True)
class ParsedSpec:
    """`spec` if the file is valid, else all `violations`, each with its line. `rendered_text` is the file without
    templates.

    `rendered_text` (answered by a dry run, and stored) is YAML as its author wrote it, comments and all, with the
    template rendered and `default-values` removed. If there are violations, it is the result of the last step, and
    empty if the text cannot be stored."""

    spec: WorkflowSpec | None
    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]
    rendered_text: str


def parse(
    text: str,
    *,
    set_variables: Sequence[str] = (),
    set_string_variables: Sequence[str] = (),
    rules: SpecRules = SpecRules(),  # noqa: B008  # frozen
    is_rendered: bool = False,
    budget: RenderBudget | None = None,
) -> ParsedSpec:
    """Read a workflow file, or a PodGroup manifest, which is known by its `kind`. Any text gets a `Parsed`; the work is
    bounded (3 s, 1 MiB, 50,000 nodes). Files of one request share a `budget`; without one the file has a whole one.

    `is_rendered`: the text is the answer of a dry run (the client then sends `uploaded_templated_spec` with it);
    braces in it are what `{% raw %}` protected and must not be read as templates again.

    Raises `pools.domain.errors.Busy` if no process for rendering can be had, and what the turn of `budget` raises;
    never because of the text.
    """
    faults = Faults(maximum=MAX_FAULTS)
    source = clean_text(text, faults)
    if source is None:
        return _build_result(None, faults, template.RenderedFile(""))
    if (found := podgroup_manifest.find_manifest(source)) is not None:
        return _of_manifest(found, source, rules, [*set_variables, *set_string_variables])
    rendered = (
        template.RenderedFile(source)
        if is_rendered
        else _render(source, set_variables, set_string_variables, rules, faults, budget or RenderBudget())
    )
    if rendered.is_stopped:
        return _build_result(None, faults, rendered)
    if not is_printable(rendered.text, faults, rendered.line_of):  # a template can make any character
        return _build_result(None, faults, template.RenderedFile(""))
    late = Faults(maximum=MAX_FAULTS)
    node = node_reader.read_yaml(rendered.text, late, path="file", line_of=rendered.line_of)
    spec = read_workflow_file(node, rules, late) if node is not None else None
    rendered.add_certain_faults(late, faults)
    return _build_result(spec, faults, rendered)


def _of_manifest(
    found: podgroup_manifest.PodGroupManifest, source: str, rules: SpecRules, variables_given: Sequence[str]
) -> ParsedSpec:
    """A PodGroup is not a template: it is read and stored as it is."""
    spec = podgroup_manifest.read_manifest(found.node, rules, found.faults) if found.node is not None else None
    if variables_given:
        found.faults.add_warning("A PodGroup manifest is not a template; the given variables are not used.")
    return _build_result(spec, found.faults, template.RenderedFile(source))


def _render(
    source: str,
    typed: Sequence[str],
    strings: Sequence[str],
    rules: SpecRules,
    faults: Faults,
    budget: RenderBudget,
) -> template.RenderedFile:
    parts = sections.split_sections(source)
    if parts.repeated_line is not None:
        faults.add(
            sections.DEFAULT_VALUES_KEY,
            Fault.DUPLICATE_KEY,
            f"`{sections.DEFAULT_VALUES_KEY}` is given twice in the file, in lines "
            f"{parts.defaults_line} and {parts.repeated_line}. Keep one.",
            parts.repeated_line,
        )
    defaults = _defaults(parts, faults)
    if defaults is None:
        return template.RenderedFile(source, is_stopped=True)
    values, given = variables.merge_variables(rules.default_variables, defaults, typed, strings, faults)
    return template.render_template(parts, values, given, faults, budget)


def _defaults(parts: sections.Sections, faults: Faults) -> Mapping[str, Any] | None:
    """The file's own variables; None if they cannot be read, because then every use of one would look like a fault."""
    text, first, sink = parts.defaults, parts.defaults_line, faults
    if parts.is_json:
        text, sink = parts.body, Faults(maximum=MAX_FAULTS)  # its faults are reported when the whole file is read
    if text is None or sections.DEFAULT_VALUES_KEY not in text:
        return {}
    node = node_reader.read_yaml(
        text, sink, path=sections.DEFAULT_VALUES_KEY, line_of=lambda line: first + line, string_keys=False
    )
    entry = node.entries.get(sections.DEFAULT_VALUES_KEY) if isinstance(node, MapNode) else None
    found = variables.node_value(entry.node) if entry is not None else {}
    if found is None or isinstance(found, dict):
        return None if sink.violations and not parts.is_json else found or {}
    message = "Here a map of variables is expected. Write one `name: value` a line."
    faults.add(sections.DEFAULT_VALUES_KEY, Fault.WRONG_TYPE, message, first)
    return None


def _build_result(spec: WorkflowSpec | None, faults: Faults, rendered: template.RenderedFile) -> ParsedSpec:
    found = sorted(faults.violations, key=lambda fault: fault.line if fault.line is not None else 0)
    if faults.unlisted_count:
        found.append(
            Violation("file", Fault.MORE, f"{faults.unlisted_count} more faults are not listed. Correct these first.")
        )
    return ParsedSpec(None if found else spec, tuple(found), tuple(faults.warnings), _trim_text(rendered.text))


def _trim_text(text: str) -> str:
    return text.strip("\n") + "\n" if text else ""
