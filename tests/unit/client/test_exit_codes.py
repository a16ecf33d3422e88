"""The exit codes of the commands that send a workflow, as the table at the head of the reference has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmo_admin.cli.base.client_errors import detail_location
from tests.unit.client.conftest import ClientRunner
from tests.unit.client.stub_server import StubReply, StubServer

FILE = "workflow: {name: hello, tasks: []}\n"
COMMANDS = {
    "submit": (("workflow", "submit"), "/api/pool/team/workflow"),
    "dry run": (("workflow", "submit", "--dry-run"), "/api/pool/team/workflow"),
    "validate": (("workflow", "validate"), "/api/pool/team/workflow"),
    "forecast": (("workflow", "forecast"), "/api/pool/team/workflow"),
    "restart": (("workflow", "restart"), "/api/pool/team/workflow"),
}
REFUSALS = {
    "a fault in the file": (400, "USAGE", 1),
    "over the quota": (400, "RESOURCE", 1),
    "no such pool": (404, "NOTFOUND", 2),
    "no right": (403, "USER", 2),
    "wrong token": (401, "USER", 2),
    "changed meanwhile": (409, "USER", 2),
    "too many requests": (429, "USER", 75),
    "a failed server": (500, "SERVER", 10),
    "a server without its database": (503, "SERVER", 10),
}


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A workflow file."""
    (tmp_path / "hello.yaml").write_text(FILE)
    return tmp_path / "hello.yaml"


@pytest.mark.parametrize("name", COMMANDS)
def test_refusals_of_the_server(
    name: str, osmo: ClientRunner, stub: StubServer, words: Path, no_waiting: list[float]
) -> None:
    command, path = COMMANDS[name]
    what = "hello-1" if name == "restart" else str(words)
    for refusal, (status, error_code, expected) in REFUSALS.items():
        body = {"message": "It is refused.", "error_code": error_code, "workflow_id": None, "details": []}
        for address in (path, f"{path}/forecast", f"{path}/hello-1/restart"):
            stub.on("POST", address, StubReply(body, status=status))
        result = osmo(*command, what, "-p", "team")
        assert result.exit_code == expected, (refusal, result.output, [each.path for each in stub.requests])


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "restart"])
def test_what_the_client_itself_refuses(
    name: str, osmo: ClientRunner, stub: StubServer, words: Path, tmp_path: Path
) -> None:
    def refuse(fault: str, file: Path, *more: str) -> None:
        result = osmo(*COMMANDS[name][0], str(file), "-p", "team", *more)
        assert (result.exit_code, stub.requests) == (2, []), (fault, result.output)

    refuse("no such file", tmp_path / "none.yaml")
    refuse("a folder", tmp_path)
    refuse("a wrong option", words, "--no-such-option")
    refuse("a wrong pair", words, "--set", "x")
    words.write_bytes(b"\xff\xfe\x00\xd8")
    refuse("not UTF-8", words)
    words.write_text("workflow: {name: a, tasks: [{name: t, files: [{path: /r, localpath: none.sh}]}]}\n")
    refuse("a local file that is missing", words)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_answer(name: str, osmo: ClientRunner, words: Path, no_waiting: list[float]) -> None:
    what = "hello-1" if name == "restart" else str(words)
    result = osmo(*COMMANDS[name][0], what, "-p", "team", env={"OSMO_URL": "http://127.0.0.1:9"})
    assert result.exit_code == 10, result.output


def test_a_fault_of_a_configuration_has_its_file_before_its_line() -> None:
    assert detail_location({"file": "a.yaml", "line": 3, "path": "pools.x", "message": "m"}) == "a.yaml:3: "
    assert detail_location({"line": 3, "path": "pools.x", "message": "m"}) == "line 3, pools.x: "
