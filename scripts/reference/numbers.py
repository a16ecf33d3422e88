"""The numbers and words that pages explain as Markdown, generated from their tables by `make reference`, into
docs/numbers.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pools.domain.numbers import (
    GPU_QUOTA_NUMBERS,
    POOL_NUMBERS,
    REPLAY_NUMBERS,
    TREE_NUMBERS,
    USAGE_NUMBERS,
    NamedNumber,
)
from pools.representations.page_words import PAGE_WORDS, PageWord

PAGE_HEAD = """\
# Numbers, and the words of the pages

<!-- Generated from pools/domain/numbers.py and pools/representations/page_words.py by `make reference`. -->

The numbers of pages, files, the client and answers of the API: a page shows the name, an answer has the key.
[glossary.md](glossary.md) has the names of other schedulers.
"""

TABLES: Mapping[str, Mapping[str, NamedNumber]] = {
    "A pool, its remainder or a subpool": POOL_NUMBERS,
    "A node of the quota tree": TREE_NUMBERS,
    "A row of the record of use": USAGE_NUMBERS,
    "The GPU quota of a namespace": GPU_QUOTA_NUMBERS,
    "A replay": REPLAY_NUMBERS,
}


def render_numbers() -> str:
    """The whole page."""
    words = {term: word for term, word in PAGE_WORDS.items() if isinstance(word, PageWord)}
    rows = [f"| **{term}** | {word.label} | {word.meaning} |" for term, word in words.items()]
    tables = [_section(title, numbers) for title, numbers in TABLES.items()]
    return "\n".join([PAGE_HEAD, *tables, "## Words", "", "| word | on pages | meaning |", "|---|---|---|", *rows, ""])


def _section(title: str, numbers: Mapping[str, NamedNumber]) -> str:
    rows = [f"| {each.label} | `{key}` | {each.unit} | {each.meaning} |" for key, each in numbers.items()]
    return "\n".join([f"## {title}", "", "| name | key | unit | meaning |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(render_numbers())
