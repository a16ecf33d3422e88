"""The words that pages explain are in the generated page of numbers and words, and each is explained on a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.template.loader import render_to_string

from osmo_admin.api_document.answer_schema import schema_of
from pools.domain.numbers import (
    GPU_QUOTA_NUMBERS,
    NUMBERS,
    POOL_NUMBERS,
    REPLAY_NUMBERS,
    TREE_NUMBERS,
    USAGE_NUMBERS,
    NamedNumber,
)
from pools.domain.people.notices import first_sentence
from pools.representations.page_words import PAGE_WORDS, PageWord
from pools.representations.quota_tree import NodeQuotaAnswer
from pools.representations.subpool import SharedAnswer, SubpoolAnswer
from pools.templatetags.page_words import page_words
from scheduling.api.usage import UsageNumbers
from scheduling.selectors.cluster.pool_quota import PoolUseAnswer
from scripts.reference.numbers import render_numbers
from tests.support.product_source import module_facts

ROOT = Path(__file__).parents[3]
USE = re.compile(r"{% page_words ([^%]*) %}")


def _used_terms() -> dict[str, list[str]]:
    texts = {path.name: path.read_text() for path in (ROOT / "templates" / "osmo").rglob("*.html")}
    return {name: re.findall('"([^"]+)"', uses[0]) for name, text in texts.items() if (uses := USE.findall(text))}


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()


def test_each_word_has_its_row_in_the_generated_page() -> None:
    rows = re.findall(r"^\| \*\*([^|]+)\*\* \| ([^|]+) \| ([^|]+) \|$", render_numbers(), re.MULTILINE)
    words = {term: word for term, word in PAGE_WORDS.items() if term not in NUMBERS}
    assert rows == [(term, word.label, word.meaning) for term, word in words.items()]


def test_the_page_of_numbers_has_each_number_with_its_sentences() -> None:
    rows = re.findall(r"^\| ([^|]+) \| `([^`]+)` \| [^|]* \| ([^|]+) \|$", render_numbers(), re.MULTILINE)
    tables = (POOL_NUMBERS, TREE_NUMBERS, USAGE_NUMBERS, GPU_QUOTA_NUMBERS, REPLAY_NUMBERS)
    expected = [(each.label, key, each.meaning) for table in tables for key, each in table.items()]
    assert rows == expected


def test_the_glossary_leaves_the_meaning_of_a_number_to_the_page_of_numbers() -> None:
    """It has the numbers that other schedulers have under other names."""
    sections = {section.splitlines()[0]: section for section in GLOSSARY.split("\n## ")}
    terms = {title: set(re.findall(r"^\| \*\*([^|]*?)\*\*", text, re.MULTILINE)) for title, text in sections.items()}
    assert len(terms["Numbers"]) > 8
    assert terms.pop("Numbers") <= NUMBERS.keys()
    assert set().union(*terms.values()) & NUMBERS.keys() == set()


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        (SubpoolAnswer, POOL_NUMBERS), (SharedAnswer, POOL_NUMBERS), (PoolUseAnswer, POOL_NUMBERS),
        (NodeQuotaAnswer, TREE_NUMBERS), (UsageNumbers, USAGE_NUMBERS),
    ],
)  # fmt: skip
def test_a_number_of_an_answer_has_the_sentence_of_the_table(shape: Any, numbers: Mapping[str, NamedNumber]) -> None:
    described = {key: about.get("description") for key, about in schema_of(shape)["properties"].items()}
    shared = (numbers.keys() & described.keys()) - {"quota"}  # what a subpool has now, which its state decides
    assert shared
    assert {key: described[key] for key in shared} == {key: numbers[key].meaning for key in shared}


def test_no_template_repeats_the_label_of_a_number_of_two_words() -> None:
    labels = {number.label for number in NUMBERS.values() if " " in number.label}
    texts = {path: path.read_text() for path in (ROOT / "templates" / "osmo").rglob("*.html")}
    found = {(path.name, label) for path, text in texts.items() for label in labels if f">{label}</" in text}
    assert found == set()
    assert {label for text in texts.values() for label in labels if f'data-label="{label}"' in text} == set()


def test_each_word_is_explained_on_a_page_and_each_page_knows_its_words() -> None:
    used = _used_terms()
    assert set().union(*used.values()) == set(PAGE_WORDS)
    assert len(used) >= 18
    assert [name for name, terms in used.items() if len(set(terms)) < len(terms)] == []


def test_the_meaning_of_a_word_is_at_most_two_sentences() -> None:
    sentences = {term: re.findall(r"[.](?: |$)", word.meaning) for term, word in PAGE_WORDS.items()}
    assert [term for term, ends in sentences.items() if not 1 <= len(ends) <= 3] == []


def test_the_words_are_folded_and_named_for_screen_readers() -> None:
    text = render_to_string("osmo/parts/page_words.html", page_words("drain"))
    assert text.startswith("<details") and 'class="oa-hidden">Words on this page<' in text
    assert "<dt>Draining</dt>" in text and "No work is stopped" in text


def test_no_module_repeats_the_label_of_a_number_of_two_words() -> None:
    """Labels of one word are words of much else. Terms that are not numbers have meanings of their own."""
    labels = {
        each.label
        for table in (POOL_NUMBERS, TREE_NUMBERS, USAGE_NUMBERS, GPU_QUOTA_NUMBERS, REPLAY_NUMBERS)
        for each in table.values()
        if " " in each.label
    }
    labels -= {word.label for word in PAGE_WORDS.values() if isinstance(word, PageWord)}
    found = [
        f"{path}:{line}: {text}"
        for path, facts in module_facts().items()
        for line, text in facts.constants
        if path != "pools/domain/numbers.py" and text in labels
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "news"),
    [
        ("a-1 was preempted: x. The owner of this work is bob.", "a-1 was preempted: x."),
        ("a-1 ended: FAILED (No image. Back-off\n5m). The owner", "a-1 ended: FAILED (No image. Back-off\n5m)."),
        ("Cluster sim is offline.\nIts pools wait.", "Cluster sim is offline."),
        ("Version 1.5 is there.", "Version 1.5 is there."),
        ("a-1 ended: FAILED (cut at (", "a-1 ended: FAILED (cut at ("),
    ],
)
def test_the_news_of_a_notice_is_its_first_sentence_with_the_whole_cause(text: str, news: str) -> None:
    assert first_sentence(text) == news
