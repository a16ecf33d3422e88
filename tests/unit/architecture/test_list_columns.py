"""A heading of a list is said once: in its declaration, and not in a template or in a table of the client."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CLIENT = ROOT / "osmo_admin" / "cli"
TABLE = re.compile(r"<thead>.*?</table>", re.DOTALL)
LITERAL = re.compile(r'<th [^>]*scope="col"[^>]*>\s*(?:<(?:abbr|span)[^>]*>)?\s*(\w[^<{]*)|data-label="(\w[^"{]*)"')
NO_LISTS = {
    "the effect of a change": {
        "change_form.html: Node", "change_form.html: Pool or subpool", "changed_fields.html: Field",
        "changed_gauges.html: Amount",
        "changed_numbers.html: Pool or cohort", "changed_rights.html: Where", "cohort_effect.html: Node",
        "effect.html: Pool or subpool", "row_diff.html: Field", "effect_text.py: Pool",
        "quota_text.py: Namespace", "replay_advice.py: Team",
    },
    "facts and numbers of one object": {
        "chart.html: From (UTC)", "compared_facts.html: Fact", "node.html: Resource", "tables.py: Field",
        "usage.py: From (UTC)", "workflow_compare.py: Group",
    },
    "headings as OSMO's client publishes them": {"pool.py: Pool", "pool_table.py: Pool"},
    "headings of inputs and pictures": {"gang.html: Bar", "workflow.html: Output", "workflows.html: Select"},
}  # fmt: skip
"""Tables that are not lists of objects, by their first heading, and the reason."""


def literals_of_pages() -> Iterator[str]:
    """The first written heading of each table."""
    for path in (ROOT / "templates").rglob("*.html"):
        for table in TABLE.findall(path.read_text(encoding="utf-8")):
            if found := LITERAL.search(table):
                yield f"{path.name}: {(found[1] or found[2]).strip()}"


def literals_of_the_client() -> Iterator[str]:
    """The first written heading of each table that `build_table` makes."""
    for path in CLIENT.rglob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        assigned = {
            target.id: each.value
            for each in ast.walk(module)
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "build_table":
                yield from (f"{path.name}: {text}" for text in [*texts_in(call.args[0], assigned)][:1])


def texts_in(head: ast.AST, assigned: dict[str, ast.expr]) -> Iterator[str]:
    """The texts of a header; names of the module are followed, calls and loops are not."""
    if isinstance(head, ast.Constant) and isinstance(head.value, str):
        yield head.value
    elif isinstance(head, ast.Name) and head.id in assigned:
        yield from texts_in(assigned[head.id], {name: each for name, each in assigned.items() if name != head.id})
    elif isinstance(head, ast.Tuple | ast.List | ast.Starred | ast.BinOp | ast.IfExp):
        for each in ast.iter_child_nodes(head):
            yield from texts_in(each, assigned)


def test_no_heading_of_a_list_is_written_where_it_is_shown() -> None:
    found = {*literals_of_pages(), *literals_of_the_client()}
    known = set().union(*NO_LISTS.values())
    assert found - known == set(), "Declare the columns in list_columns.py and show them by list_heads or list_table."
    assert known - found == set()
