"""The client as a process: on a terminal, in a pipe, in the completion of a shell."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from osmo_admin.cli.base import output as client_output
from tests.unit.client.stub_server import StubReply, StubServer
from tests.unit.client.test_pool import SEED_EXAMPLE, TEAM, pool_row, quota_answer
from tests.unit.client.test_subpool import ONE, effect_body, subpool_body, tree_body

OSMO = (sys.executable, "-c", "from osmo_admin.cli.client import main; main()")
REPOSITORY = Path(__file__).parents[3]
CLEAR = ("OSMO_", "NO_COLOR", "XDG_CONFIG_HOME", "_OSMO_COMPLETE", "TERM", "DJANGO", "PYTHON")


def client_environment(stub: StubServer, home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAR)}
    login = {
        "OSMO_URL": stub.url,
        "OSMO_USERNAME": "alice",
        "OSMO_CONFIG_FILE_DIR": str(home),
        "TERM": "xterm-256color",
    }
    return kept | login | {"PYTHONPATH": str(REPOSITORY)} | more


def run_client(stub: StubServer, home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    env = client_environment(stub, home, **more)
    return subprocess.run(
        [*OSMO, *words], env=env, capture_output=True, check=False, timeout=30, stdin=subprocess.DEVNULL
    )


def run_on_terminal(stub: StubServer, home: Path, *words: str, type_in: str = "", **more: str) -> tuple[int, str]:
    """Exit code and output, with a terminal as all three streams. `type_in` is typed before the start."""
    ours, theirs = pty.openpty()
    env = client_environment(stub, home, **more)
    child = subprocess.Popen([*OSMO, *words], env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, type_in.encode())
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:  # Linux: the other side is closed
        pass
    code = child.wait(60)
    os.close(ours)
    return code, output.decode().replace("\r\n", "\n")


def test_the_client_loads_no_server_and_help_loads_nothing_that_it_does_not_need(stub, home):
    script = (
        "import sys; from typer.testing import CliRunner; from osmo_admin.cli.client import app;"
        "CliRunner().invoke(app, ['pool', 'list', '--help']);"
        "print(sorted({'urllib3', 'yaml', 'rich', 'mcp', 'pydantic'} & set(sys.modules)));"
        "assert CliRunner().invoke(app, ['pool', 'list']).exit_code == 0;"
        "assert CliRunner().invoke(app, ['workflow', 'list', '-o', 'yaml']).exit_code == 0;"
        "servers = {'django', 'celery', 'psycopg', 'rest_framework', 'redis', 'kubernetes', 'jinja2'};"
        "ours = {each for each in sys.modules if each.startswith(('pools.', 'scheduling.'))};"
        "ours -= {each for each in ours if f'{each}.'.startswith(('pools.domain.', 'scheduling.domain.'))};"
        "print(sorted(servers & set(sys.modules) | ours))"
    )
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    stub.on("GET", "/api/workflow", {"workflows": [], "more_entries": False})
    env = client_environment(stub, home)
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=False, timeout=30)
    assert (done.stdout, done.stderr) == (b"[]\n[]\n", b"")


def test_a_pipe_gets_the_whole_table_without_colours(stub, home):
    stub.on("GET", "/api/pool_quota", quota_answer([pool_row("x" * 300, "1", 0, -1)]))
    done = run_client(stub, home, "pool", "list", COLUMNS="20")
    assert ("x" * 300 in done.stdout.decode(), "\x1b" in done.stdout.decode(), done.stderr) == (True, False, b"")


def test_a_terminal_gets_colours_and_the_same_text(stub, home):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    code, output = run_on_terminal(stub, home, "pool", "list", COLUMNS="100")
    assert code == 0
    assert "\x1b[32mACTIVE\x1b[0m" in output
    assert "\x1b[31m\x1b[1m-40\x1b[0m" in output
    assert re.sub(r"\x1b\[[0-9;]*m", "", output) == SEED_EXAMPLE


def test_a_narrow_terminal_gets_a_table_that_fits_unless_it_is_wide(stub, osmo, terminal):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    narrow = osmo.ok("pool", "list", env={"COLUMNS": "70", "NO_COLOR": "1"})
    assert max(map(len, narrow.splitlines())) <= 70
    assert osmo.ok("pool", "list", "-o", "wide", env={"COLUMNS": "70", "NO_COLOR": "1"}) == SEED_EXAMPLE


def test_a_watch_on_a_terminal_shows_each_change_until_ctrl_c(stub, home):
    answered = threading.Event()
    replies = iter([quota_answer([pool_row("one", "1", 0, 1)]), quota_answer([pool_row("two", "1", 0, 1)])])

    def answer(request: Any) -> StubReply:
        try:
            return StubReply(next(replies))
        except StopIteration:  # the third request: both answers are on the screen
            answered.set()
            return StubReply(quota_answer([pool_row("two", "1", 0, 1)]))

    stub.answer = answer  # type: ignore[method-assign]
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*OSMO, "pool", "list", "--watch"],
        env=client_environment(stub, home),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        # Tests that run in the background inherit that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    os.close(theirs)
    assert answered.wait(60)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 0
    output = os.read(ours, 65536).decode()
    os.close(ours)
    assert output.count("\x1b[H\x1b[2J") == 2
    assert output.index("one") < output.index("two")


@pytest.mark.parametrize(
    ("more", "text"), [({}, "\x1b[32mACTIVE\x1b[0m"), ({"NO_COLOR": "1"}, "ACTIVE"), ({"TERM": "dumb"}, "ACTIVE")]
)
def test_a_terminal_without_colours(terminal, monkeypatch, more, text):
    printed: list[str] = []
    monkeypatch.setattr(client_output.typer, "echo", printed.append)
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | more).items():
        monkeypatch.setenv(name, value)
    client_output.print_text("ACTIVE")
    assert printed == [text]


def test_an_old_locale_gets_escapes_and_no_stack_trace(stub, home):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    done = run_client(stub, home, "pool", "list", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u251c\\u2500 team--a" in done.stdout


def test_a_closed_pipe_causes_no_stack_trace(stub, home):
    stub.on("GET", "/api/pool_quota", quota_answer([pool_row(f"pool-{number}", "1", 0, 1) for number in range(3000)]))
    command = " ".join([f"'{OSMO[0]}' -c '{OSMO[2]}'", "pool list | head -1"])
    done = subprocess.run(
        ["sh", "-c", command], env=client_environment(stub, home), capture_output=True, check=False, timeout=120
    )
    assert done.stdout.startswith(b"Pool ")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "method", "address"),
    [
        (("pool", "subpool", "delete", "team", "a"), "DELETE", ONE),
        (("workflow", "cancel", "w-1"), "POST", "/api/workflow/w-1/cancel"),
        (("workflow", "end", "w-1"), "POST", "/api/workflow/w-1/end"),
        (("config", "delete", "POOL", "team"), "DELETE", "/api/configs/pool/team"),
        (("token", "delete", "ci"), "DELETE", "/api/auth/access_token/ci"),
        (("user", "delete", "bob"), "DELETE", "/api/auth/user/bob"),
    ],
)
def test_a_deletion_on_a_terminal_requires_a_confirmation(stub, osmo, terminal, words, method, address):
    done: dict[str, Any] = subpool_body("ARCHIVED") | {"status": "COMPLETED"}
    preview = [effect_body(tree_body(30), tree_body(60))] if words[1] == "subpool" else []
    stub.on(method, address, *preview, done)
    declined = osmo(*words, input="n\n")
    assert declined.exit_code == 3
    assert "nothing was changed" in declined.output
    assert all(request.query.get("dry_run") for request in stub.requests)
    stub.on(method, address, *preview, done)
    assert osmo(*words, input="y\n").exit_code == 0
    assert not stub.last.query.get("dry_run")
    stub.requests.clear()
    stub.on(method, address, done)
    agreed = osmo(*words, "--yes")
    assert (agreed.exit_code, len(stub.requests)) == (0, 1)
    assert "?" not in agreed.output


def test_the_confirmation_of_a_deleted_subpool_shows_the_effect(stub, home):
    stub.on(
        "DELETE",
        ONE,
        effect_body(
            tree_body(30, ("team--a", "ACTIVE", 30)), tree_body(60, ("team--a", "DELETING", 0)), draining=["w"]
        ),
    )
    code, output = run_on_terminal(stub, home, "pool", "subpool", "delete", "team", "a", type_in="n\n", NO_COLOR="1")
    assert code == 3
    assert "30 → 60 (Total: 100)" in output
    assert "Would drain: w" in output
    assert output.index("Would drain") < output.index("Delete subpool team--a? [y/N]")


def test_a_forbidden_deletion_requests_no_confirmation(stub, osmo, terminal):
    wrong = {"path": "subpool", "code": "state", "message": "team--a is ARCHIVED."}
    stub.on("DELETE", ONE, effect_body(tree_body(30), None, violations=[wrong]))
    refused = osmo("pool", "subpool", "delete", "team", "a")
    assert refused.exit_code == 2
    assert "team--a is ARCHIVED." in refused.output
    assert "[y/N]" not in refused.output


def test_ctrl_c_while_waiting_for_the_server(stub, home, monkeypatch):
    received, gate = threading.Event(), threading.Event()

    def hang(request: Any) -> Any:
        received.set()
        gate.wait(60)
        raise ConnectionResetError

    monkeypatch.setattr(stub, "answer", hang)
    child = subprocess.Popen(
        [*OSMO, "pool", "list"],
        env=client_environment(stub, home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A test run in the background ignores the interrupt, and the child would inherit this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    assert received.wait(60)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    gate.set()
    assert (child.returncode, output) == (3, b"")
    assert b"Traceback" not in errors


COMPLETIONS = {
    "bash": {"_OSMO_COMPLETE": "complete_bash"},
    "zsh": {"_OSMO_COMPLETE": "complete_zsh"},
    "fish": {"_OSMO_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def completion(shell: str, line: str) -> dict[str, str]:
    """The variables with which a shell asks how a line goes on."""
    number = str(len(line.split(" ")) - 1)
    return COMPLETIONS[shell] | {"COMP_WORDS": line, "COMP_CWORD": number, "_TYPER_COMPLETE_ARGS": line}


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_completion_knows_commands_options_and_names(stub, home, osmo, shell):
    """One line of one shell is completed by a process, the others here."""
    pools = {
        name: {"name": name, "parent_pool": name.partition("--")[0] if "--" in name else None}
        for name in ("team", "team--a", "other")
    }
    stub.on("GET", "/api/pool", {"pools": pools})
    stub.on("GET", "/api/workflow", {"workflows": [{"name": "hello-2"}, {"name": "othello-1"}], "more_entries": False})
    stub.on("GET", "/api/resources", {"resources": [{"hostname": name} for name in ("dgx-0", "dgx-0", "cpu-0")]})
    stub.on("GET", "/api/auth/user", {"users": [{"id": "bob"}, {"id": "ann"}]})
    stub.on("GET", "/api/configs/cohort", {"cohorts": [{"name": "company"}, {"name": "org"}]})
    stub.on("GET", "/api/configs/gpu_quota", {"quotas": [{"namespace": "team-a"}, {"namespace": "other"}]})
    for line, found, other in (
        ("osmo pool su", "subpool", "usage"),
        ("osmo pool subpool create --q", "--quota", "--dry-run"),
        ("osmo pool subpool create te", "team", "team--a"),
        ("osmo workflow submit --pool te", "team--a", "other"),
        ("osmo workflow query hel", "hello-2", "othello"),
        ("osmo resource info dg", "dgx-0", "cpu-0"),
        ("osmo user get b", "bob", "ann"),
        ("osmo token list --user b", "bob", "ann"),
        ("osmo cohort show c", "company", "org"),
        ("osmo quota show te", "team-a", "other"),
    ):
        output = osmo(env=completion(shell, line)).stdout
        assert found in output, line
        assert other not in output, line
    assert osmo(env=completion(shell, "osmo resource info dg")).stdout.count("dgx-0") == 1
    if shell == "bash":
        asked = completion(shell, "osmo workflow submit --pool te")
        done = run_client(stub, home, **asked)
        assert (done.stdout.decode(), done.stderr) == (osmo(env=asked).stdout, b"")


def test_completion_without_an_answer_is_quick_and_silent(stub, home, osmo, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(stub, "answer", lambda _: (gate.wait(60), StubReply(drop=True))[1])
    done = run_client(stub, home, **completion("bash", "osmo pool show te"))
    gate.set()  # only now: the completion has ended while the server was silent
    assert done.stdout.strip() == b""
    for more in ({"OSMO_URL": "http://127.0.0.1:9"}, {"OSMO_URL": "", "OSMO_USERNAME": ""}, {"OSMO_URL": "nonsense"}):
        done = osmo(env=completion("bash", "osmo pool show te") | more)
        assert (done.stdout.strip(), done.stderr) == ("", "")


def test_completion_scripts_are_built_in(osmo, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(typer.testing, "_get_command", typer.main.get_command)  # read while the commands are built
    assert osmo("--show-completion").exit_code == 2  # without a detected shell, its name is required
    for shell in COMPLETIONS:
        assert "_OSMO_COMPLETE" in osmo("--show-completion", shell).stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_an_answer_that_cannot_be_written_is_an_error_message(stub, home):
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    done = run_through_shell(stub, home, '"$@" > /dev/full', "pool", "list")
    assert (done.returncode, done.stderr) == (2, b"Error: The answer cannot be written: No space left on device.\n")


LISTED, DELETED = ("pool", "list"), ("pool", "subpool", "delete", "team", "a")


@pytest.mark.parametrize(("closed", "words"), [(">&-", LISTED), (">&- <&-", DELETED)])
def test_streams_that_are_closed(stub, home, closed, words):
    """Output is not written, and nobody is there to confirm."""
    stub.on("GET", "/api/pool_quota", quota_answer(TEAM))
    stub.on("DELETE", ONE, subpool_body("ARCHIVED"))
    done = run_through_shell(stub, home, f'"$@" {closed}', *words)
    assert (done.returncode, done.stderr) == (0, b"")


def run_through_shell(stub: StubServer, home: Path, line: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """`osmo` with these words as `"$@"` of a shell's line."""
    return subprocess.run(
        ["sh", "-c", line, "sh", *OSMO, *words],
        env=client_environment(stub, home),
        capture_output=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
