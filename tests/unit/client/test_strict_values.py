"""Options of both programs read numbers as files do, and no refusal repeats what was typed."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from osmo_admin.cli import client, server

CANARY = "Canary7value"


@pytest.mark.parametrize(
    ("app", "words", "rule"),
    [
        (client.app, ["pool", "list", "--mode"], "must be one of used, free."),
        (client.app, ["--timeout"], "must be a number, as 10 or 0.5. Allowed is at least 0.1."),
        (client.app, ["audit", "--limit"], "must be a whole number, as 10."),
        (server.app, ["token", "create", "ann", "x", "--days"], "must be a whole number, as 10."),
        (server.app, ["export", "-f", "x", "--format"], "must be one of git, kueue, kai."),
    ],
)
def test_a_refused_value_is_not_repeated(app: object, words: list[str], rule: str) -> None:
    answer = CliRunner().invoke(app, [*words, CANARY])  # type: ignore[arg-type]
    assert answer.exit_code == 2
    assert rule in answer.output
    assert CANARY not in answer.output


@pytest.mark.parametrize("text", ["1_0", "010", "0x10", "+3", " 3", "\u0661", "\uff13", "1e1", "3.0", "--5"])
def test_whole_numbers_are_written_as_in_files(text: str) -> None:
    operator, person = ["token", "create", "ann", "x", "--days"], ["workflow", "list", "--limit"]
    for app, words in ((server.app, operator), (client.app, person)):
        answer = CliRunner().invoke(app, [*words, text])
        assert (answer.exit_code, "must be a whole number, as 10." in answer.output) == (2, True)
        assert text not in answer.output.replace("as 10.", "")
