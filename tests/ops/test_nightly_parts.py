"""Each nightly test belongs to exactly one part, which every session checks when it collects its tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support import nightly_parts
from tests.support.services import ROOT


class Item:
    """What the selection reads of a test."""

    def __init__(self, nodeid: str, obj: object = None, mark: str = "") -> None:
        self.nodeid, self.obj, self.mark = nodeid, obj, mark

    def get_closest_marker(self, name: str) -> str | None:
        """The mark, if it is this one."""
        return self.mark if self.mark == name else None


@hypothesis.given(st.booleans())
def draw(value: bool) -> None:
    """A test of Hypothesis."""


DAILY = Item("tests/faults/test_web_killed.py::test_a")
NIGHTLY = Item("tests/faults/test_web_killed.py::test_b", mark="nightly")
DRAWN = Item("tests/unit/engine/test_a.py::test_c", draw)
PROPERTY = Item("tests/properties/test_a.py::test_d")


def select(part: str | None, *items: Item) -> tuple[list[Any], list[Any]]:
    """The kept tests and the others."""
    kept = list(items)
    dropped = nightly_parts.select(cast("list[pytest.Item]", kept), part)
    return kept, dropped


def test_a_part_has_its_nightly_tests_only() -> None:
    everything = (DAILY, NIGHTLY, DRAWN, PROPERTY)
    assert select(None, *everything) == (list(everything), [])
    assert select("faults", *everything) == ([NIGHTLY], [DAILY, DRAWN, PROPERTY])
    assert select("engine", *everything) == ([DRAWN], [DAILY, NIGHTLY, PROPERTY])
    assert select("properties", *everything) == ([PROPERTY], [DAILY, NIGHTLY, DRAWN])


@pytest.mark.parametrize("part", [None, "faults"])
def test_a_nightly_test_without_a_part_ends_the_session(part: str | None) -> None:
    with pytest.raises(pytest.UsageError, match="tests/new/test_a"):
        select(part, Item("tests/new/test_a.py::test_a", mark="nightly"))


def test_a_nightly_test_of_two_parts_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(nightly_parts.PARTS, "second", "tests/faults/")
    with pytest.raises(pytest.UsageError, match="'faults', 'second'"):
        select(None, NIGHTLY)


@pytest.mark.parametrize(
    ("chosen", "ran", "is_failed"),
    [("", list(nightly_parts.PARTS), True), ("faults", ["faults"], False), ("engine", ["engine"], True)],
)
def test_make_runs_each_part_and_fails_with_one_that_failed(
    tmp_path: Path, chosen: str, ran: list[str], is_failed: bool
) -> None:
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/bash\ncase "$*" in *tests.support.nightly_parts) echo '
        + " ".join(nightly_parts.PARTS)
        + ';; *"--part engine "*) exit 1;; esac\n'
    )
    program.chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "-o", "setup-test", "test-nightly", f"PART={chosen}", f"VENV={tmp_path}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert [line.removeprefix("::: ") for line in lines if "FAILED" not in line] == ran
    assert (done.returncode != 0, "::: FAILED: engine" in lines) == (is_failed, is_failed)
