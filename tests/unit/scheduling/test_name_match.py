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


@pytest.mark.parametrize(
    ("name", "text", "fit"),
    [
        ("n3", "n3", Fit.EXACT),
        ("n3", "n3 team1", Fit.EXACT),
        ("n3", "Team1 N3", Fit.EXACT),
        ("n30", "n3 team1", Fit.BEGINS),
        ("n3", "n3 te", Fit.BEGINS),
        ("gpu-n3", "n3 team1", Fit.PART_BEGINS),
        ("n3", "n3 eam", Fit.INSIDE),
        ("team1-n3", "team1-n3 team1", Fit.EXACT),
        ("team1-n30", "team1-n3 team1", Fit.BEGINS),
        ("team1-n3", "n3 team1", Fit.PART_BEGINS),
        ("team1-n3", "team1", Fit.BEGINS),
        ("n3", "team1", None),
        ("n3", "n3 team2", None),
        ("n3", "team1 n3 xyz", None),
        ("n3", "", None),
    ],
)
def test_fit_with_the_name_of_the_place(name: str, text: str, fit: Fit | None) -> None:
    assert name_fit(name, words_of(text), "team1") is fit


def test_one_mistake_with_the_name_of_the_place() -> None:
    assert mistyped_fit("n3", words_of("n3 taem1"), "team1") is Fit.MISTYPED
    assert mistyped_fit("dgx-12", words_of("team1 dxg-12"), "team1") is Fit.MISTYPED
    assert mistyped_fit("n3", words_of("taem1"), "team1") is None
    assert mistyped_fit("n3", words_of("n3 team22"), "team1") is None
