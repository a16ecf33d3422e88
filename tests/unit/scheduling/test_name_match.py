"""How well a name fits what was typed."""

from __future__ import annotations

import pytest

from scheduling.domain.search.name_match import Fit, mistyped_fit, name_fit, words_of


@pytest.mark.parametrize(
    ("name", "text", "fit"),
    [
        ("vision-export-7", "vision-export-7", Fit.EXACT),
        ("Vision", "vISION", Fit.EXACT),
        ("vision-export-7", "vision-e", Fit.BEGINS),
        ("vision-export-7", "export-7", Fit.PART_BEGINS),
        ("vision-export-07", "07", Fit.PART_BEGINS),
        ("vision--ocr", "ocr", Fit.PART_BEGINS),
        ("vision-export-7", "xport", Fit.INSIDE),
        ("vision-export-7", "7 vision", Fit.PART_BEGINS),
        ("vision-export-7", "7 sion", Fit.INSIDE),
        ("aba-ab", "ab", Fit.BEGINS),
        ("xab-ab", "ab", Fit.PART_BEGINS),
        ("vision-export-7", "vision audio", None),
        ("vision", "_isi%n", None),
    ],
)
def test_fit(name: str, text: str, fit: Fit | None) -> None:
    assert name_fit(name, words_of(text)) is fit


@pytest.mark.parametrize("text", ["visoin", "vison", "visiom", "visiion", "exprot-7", "exprot vison", "vision exprot"])
def test_one_mistake(text: str) -> None:
    assert mistyped_fit("vision-export-7", words_of(text)) is Fit.MISTYPED


@pytest.mark.parametrize("text", ["vosiom", "vi", "vsx", "exprto-8", "audio", ""])
def test_two_mistakes_or_a_short_word(text: str) -> None:
    assert mistyped_fit("vision-export-7", words_of(text)) is (Fit.MISTYPED if text == "vi" else None)
