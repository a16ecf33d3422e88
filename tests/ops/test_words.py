"""`make words`: a banished word is found in prose, in names and in file names; what others read may keep its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services import ROOT

SCRIPT = ROOT / "scripts" / "check-words"


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("# the whole House of one team", "house"),
        ("def require_house(): ...", "house"),
        ("class HouseForm: ...", "house"),
        ("HOUSE_ADMIN = 'x'", "house"),
        ("Whoever reads it", "whoever"),
        ("and he waits", "he"),
        ("def came_to_rest(): ...", "came to rest"),
        ("let_go(row)", "let go"),
        ("settle(backend)", "settle"),
        ("the work is Canceled", "canceled"),
    ],
)
def test_a_banished_word_is_named_with_its_place(tmp_path: Path, line: str, word: str) -> None:
    path = tmp_path / "text.py"
    path.write_text(f"# fine\n{line}\n")
    answer = check(path)
    assert answer.returncode == 1
    assert answer.stdout.startswith(f"{path}:2: {word}: use ")
    assert answer.stdout.count("\n") == 1


def test_the_name_of_a_file_is_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "task_lines.py"
    path.touch()
    assert check(path).stdout.startswith(f"{path}: task lines: use ")


def test_whole_words_only_and_the_words_of_others(tmp_path: Path) -> None:
    path = tmp_path / "text.py"
    path.write_text(
        "warehouse, then the, this, parted\nPOST /api/backend/sim/settle, settled, text.slice(1), slice(3)\n"
        "FAILED_CANCELED, workflow.canceled\n"
    )
    answer = check(path)
    assert (answer.returncode, answer.stdout) == (0, "No banished word.\n")
