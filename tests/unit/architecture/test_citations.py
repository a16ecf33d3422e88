"""Every document, heading and rule of the design that the code, a test or a page cites is there.

The one form of a rule is `design, D6` (several: `design, D5, D6`); its number is a heading of a page in docs/design. A
page is cited by its path, with a heading in quotes where needed: `docs/waiting.md, "Why"`.
"""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

from bench.report import render_report
from osmo_admin.env import SECTIONS
from scripts.reference.client import render_reference
from scripts.reference.error_codes import render_error_codes
from scripts.reference.numbers import render_numbers
from scripts.reference.settings import render_settings
from tests.support.services import ROOT

RULE = r"[A-Z]\d+(?:\.\d+)?"
RULES = re.compile(rf"\bdesign,\s+({RULE}(?:,\s+{RULE})*)")
NUMBERED = re.compile(r"\bD\d{1,2}\b")
PAGE = re.compile(r'(?<![\w/.{"-])([\w./-]{1,80}\.md)\b(?:#([\w-]+)|,\s+["“]([^"”]+)["”])?')
LINK = re.compile(r"\]\(([^)#\s:]*)(?:#([^)\s]+))?\)")
# Forms of citations that name something outside the repository.
ELSEWHERE = re.compile(
    r"\bcontract,? \(?(?:section )?\d|\bseed 00\d|\bissue \d|\bdesign,? (?:section|§)|\bthe seed's\b"
)
GENERATED = {
    "docs/client.md": render_reference,
    "docs/error-codes.md": render_error_codes,
    "docs/numbers.md": render_numbers,
    "docs/performance.md": lambda: render_report(json.loads((ROOT / "docs" / "performance.json").read_text())),
    "docs/settings.md": lambda: render_settings(SECTIONS),
}
"""The pages that `make reference` writes, and what writes them."""
SKIPPED = re.compile(r"(/migrations/|^CHANGELOG\.md$|^tests/upgrade/|^static/osmo/uplot/|/node_modules/|^docs/openapi)")
TEXTS = (".py", ".md", ".html", ".js", ".css", ".toml", ".yaml", ".yml", ".tpl", ".txt", ".env", "Makefile")
THIS = "tests/unit/architecture/test_citations.py"


def text_of(page: Path) -> str:
    """The text of a page; of a generated one as `make reference` writes it now, whether or not it is there."""
    generate = GENERATED.get(page.resolve().relative_to(ROOT).as_posix())
    return generate() if generate else page.read_text(encoding="utf-8")


@cache
def headings(page: Path) -> frozenset[str]:
    """The headings of a page and their anchors, as a browser of the repository makes them."""
    found = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return frozenset(found) | {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}


@cache
def rules() -> frozenset[str]:
    pages = (ROOT / "docs" / "design").glob("*.md")
    found = [each.split()[0] for page in pages for each in headings(page) if re.match(rf"{RULE} ", each)]
    assert len(found) == len(set(found)), "each number is one rule"
    return frozenset(found)


def cited_rules(text: str) -> set[str]:
    return {rule for found in RULES.findall(text) for rule in re.findall(RULE, found)}


def is_page(path: Path) -> bool:
    return path.is_file() or path.resolve().relative_to(ROOT).as_posix() in GENERATED


def find_absent(text: str) -> list[str]:
    """What a text of code cites and what is not there, or is not cited in the one form."""
    wrong = sorted(cited_rules(text) - rules())
    wrong += sorted(set(NUMBERED.findall(text)) - rules())
    wrong += ELSEWHERE.findall(text)
    for page, anchor, heading in PAGE.findall(text) if ".md" in text else ():
        path = next((each for each in (ROOT / page, ROOT / "docs" / page) if is_page(each)), None)
        name = anchor or " ".join(heading.split())
        if path is None or (name and name not in headings(path)):
            wrong.append(f"{page} {name}".strip())
    return wrong


def find_broken_links(page: Path, text: str) -> list[str]:
    wrong = []
    for target, anchor in LINK.findall(text):
        path = page.parent / target if target else page
        if not (path.exists() or is_page(path)) or (anchor and path.suffix == ".md" and anchor not in headings(path)):
            wrong.append(f"{target}#{anchor}")
    return wrong


def committed(*suffixes: str) -> list[str]:
    """The paths of the project's own texts with these endings, new ones included."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    own = [each for each in listed if each.endswith(suffixes) and not SKIPPED.search(each)]
    return [each for each in own if (ROOT / each).is_file()]


def test_every_citation_of_the_code_resolves() -> None:
    cited: set[str] = set()
    wrong: dict[str, list[str]] = {}
    for name in committed(*TEXTS):
        if name == THIS or name.endswith(".md"):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        cited |= cited_rules(text) | set(NUMBERED.findall(text))
        if found := find_absent(text):
            wrong[name] = found
    assert wrong == {}
    assert sorted(rules() - cited) == [], "a rule that nothing cites says nothing about the code"


def test_every_link_of_a_page_resolves() -> None:
    pages = {name: ROOT / name for name in committed(".md")}
    wrong = {name: find_broken_links(page, page.read_text(encoding="utf-8")) for name, page in pages.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_an_absent_citation_is_noticed() -> None:
    assert find_absent("(design, D6, K4; docs/waiting.md, “Why”; docs/runbooks.md#osmojoblate)") == []
    for text in (
        "(design, D99)",
        "(design, D5, X1)",
        "(D99)",
        "kai.md 6.4",
        "OSMO contract, section 7.1",
        "docs/gone.md",
        'docs/waiting.md, "No such heading"',
        "docs/runbooks.md#nothing",
        "(seed 001)",
    ):
        assert find_absent(text), text


def test_every_generated_page_is_in_the_index_and_in_no_commit() -> None:
    index, ignored = (ROOT / "docs" / "README.md").read_text(), (ROOT / ".gitignore").read_text().splitlines()
    made = (ROOT / "Makefile").read_text()
    for name in GENERATED:
        assert f"`{name.removeprefix('docs/')}`" in index, name
        assert f"/{name}" in ignored, name
        assert f"> {name}" in made, name
    assert re.findall(r"^/(docs/.+)$", "\n".join(ignored), re.MULTILINE) == sorted(GENERATED)


def test_a_broken_link_is_noticed() -> None:
    page = ROOT / "docs" / "design" / "README.md"
    assert find_broken_links(page, "[a](rules.md#d6-two-verdicts) [b](../waiting.md) [c](#the-design)") == []
    assert find_broken_links(page, "[a](../performance.md#the-scheduling-engine) [b](../numbers.md)") == []
    wrong = "[a](rules.md#d6) [b](../gone.md) [c](#gone) [d](../performance.md#gone)"
    assert find_broken_links(page, wrong) == ["rules.md#d6", "../gone.md#", "#gone", "../performance.md#gone"]
