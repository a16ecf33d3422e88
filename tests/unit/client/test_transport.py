"""Headers, retries, errors and exit codes of every command."""

from __future__ import annotations

import base64
import json
import threading
from email.utils import formatdate

import pytest
import yaml

from osmo_admin.cli.base import http
from osmo_admin.cli.base.client_errors import ClientError
from tests.unit.client.stub_server import StubReply

LIST = ("token", "list")
TOKENS = "/api/auth/access_token"
CREATE = ("pool", "subpool", "create", "team", "a", "--quota", "1")
SUBPOOLS = "/api/configs/pool/team/subpool"
UPDATE = ("pool", "subpool", "update", "team", "a", "--quota", "1")
DELETE = ("pool", "subpool", "delete", "team", "a")
SUBPOOL = f"{SUBPOOLS}/a"
DONE = {"name": "team--a", "parent_pool": "team", "subpool_state": "ARCHIVED"}
BUSY = StubReply({"message": "The pool is busy.", "error_code": "SERVER"}, status=503, headers={"Retry-After": "2"})


def test_every_request_names_the_client(osmo, stub):
    stub.on("GET", TOKENS, [])
    osmo.ok(*LIST)
    headers = stub.last.headers
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("osmo-admin-cli/")
    assert headers["x-osmo-client-version"] == "6.4.0"
    assert headers["x-osmo-user"] == "alice"
    assert "idempotency-key" not in headers


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (400, "USAGE", 1),
        (400, "RESOURCE", 1),
        (400, "USER", 2),
        (400, "CREDENTIAL", 2),
        (401, "USER", 2),
        (403, "USER", 2),
        (404, "NOTFOUND", 2),
        (409, "USER", 2),
        (412, "USER", 2),
        (429, "USER", 75),
        (500, "SERVER", 10),
        (503, "SERVER", 10),
    ],
)
def test_exit_codes_are_those_of_the_stock_client(osmo, stub, status, code, exit_code):
    stub.on("GET", TOKENS, StubReply({"message": "Because.", "error_code": code, "workflow_id": None}, status=status))
    result = osmo(*LIST)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert "Because." in result.stderr
    answer = osmo(*LIST, "-o", "json")
    assert json.loads(answer.stdout) | {"message": "Because."} == {
        "message": "Because.",
        "code": status,
        "error_code": code,
    }
    assert yaml.safe_load(osmo(*LIST, "-o", "yaml").stdout)["code"] == status


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (StubReply(text="access denied", status=403), "Error: access denied"),
        (StubReply({"detail": "Not found."}, status=404), "Error: Not found."),
        (StubReply(["odd"], status=400), 'Error: ["odd"]'),
        (StubReply({"error_code": "USER"}, status=400), 'Error: {"error_code": "USER"}'),
        (StubReply(text="", status=404), "Error: The request was refused."),
        (StubReply(text="<html>" + "x" * 2000, status=502), "…"),
        (StubReply(text="<html>hello"), "did not answer with JSON"),
        (StubReply({"message": "Boom."}, status=500, headers={"x-request-id": "r-7"}), "(500) (request r-7): Boom."),
        (StubReply({"message": "Busy.", "details": [{"path": "", "message": "Busy."}]}, status=503), "Busy."),
        (StubReply({"message": "Slow down."}, status=429, headers={"Retry-After": "60"}), "Try again in 60 seconds."),
        (StubReply({"message": "Try again in 3 s."}, status=429, headers={"Retry-After": "3"}), "ry again in 3"),
        (StubReply({"message": "\x1b[31mred\x1b[0m"}, status=400), "Error: �[31mred�[0m"),
    ],
)
def test_every_response_becomes_a_readable_message(osmo, stub, reply, message):
    stub.on("GET", TOKENS, reply)
    result = osmo(*LIST)
    assert result.exit_code != 0
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.count(message) == 1
    assert len(result.stderr) < 700


@pytest.mark.parametrize("body", [{"not": "a list"}, [1], 7, [{"roles": 5}, None]])
def test_an_answer_of_the_wrong_shape_causes_no_stack_trace(osmo, stub, body):
    stub.on("GET", TOKENS, body)
    result = osmo(*LIST)
    assert result.exit_code == 10
    assert "unexpected shape" in result.stderr
    assert json.loads(osmo.ok(*LIST, "-o", "json")) == body


def test_an_empty_answer_is_not_an_error(osmo, stub):
    stub.on("DELETE", f"{TOKENS}/t", StubReply(text=""))
    assert osmo.ok("token", "delete", "t") == "Access token t deleted.\n"
    stub.on("DELETE", f"{TOKENS}/t", None)
    assert osmo.ok("token", "delete", "t", "-o", "json") == "null\n"


@pytest.mark.parametrize("header", [base64.b64encode("Neue Version für alle".encode()).decode(), "plain words!"])
def test_a_warning_of_the_server_is_shown_with_the_answer(osmo, stub, header):
    stub.on("GET", TOKENS, StubReply([], headers={"x-osmo-warning": header}))
    result = osmo(*LIST, "-o", "json")
    assert json.loads(result.stdout) == []
    assert result.stderr in ("Neue Version für alle\n", "plain words!\n")


@pytest.mark.parametrize(
    ("words", "method", "address"),
    [
        (LIST, "GET", TOKENS),
        (CREATE, "POST", SUBPOOLS),
        (UPDATE, "PATCH", SUBPOOL),
        (DELETE, "DELETE", SUBPOOL),
        (("config", "update", "POOL", "-f", "-"), "PUT", "/api/configs/pool"),
    ],
)
def test_a_request_to_a_busy_server_is_repeated_after_its_delay(osmo, stub, no_waiting, words, method, address):
    stub.on(method, address, BUSY, BUSY, [] if method == "GET" else DONE)
    osmo.ok(*words, input='{"pools": {"team": {}}}')
    assert no_waiting == [2, 2]
    keys = {request.headers.get("idempotency-key") for request in stub.requests}
    assert len(keys) == 1
    assert (None in keys) == (method != "POST")


def test_the_number_of_attempts_is_limited(osmo, stub, no_waiting):
    stub.on("GET", TOKENS, BUSY)
    assert osmo(*LIST).exit_code == 10
    assert len(stub.requests) == 5


@pytest.mark.parametrize(
    "reply",
    [
        StubReply({"message": "m"}, status=503),
        StubReply({"message": "m"}, status=503, headers={"Retry-After": "3600"}),
        StubReply({"message": "m"}, status=429, headers={"Retry-After": "1"}),
        StubReply({"message": "m"}, status=500, headers={"Retry-After": "1"}),
    ],
)
def test_other_errors_are_not_repeated(osmo, stub, no_waiting, reply):
    stub.on("GET", TOKENS, reply)
    assert osmo(*LIST).exit_code in (10, 75)
    assert (len(stub.requests), no_waiting) == (1, [])


def test_a_running_first_attempt_is_waited_for(osmo, stub, no_waiting):
    working = StubReply({"message": "Still running.", "error_code": "USER"}, status=409, headers={"Retry-After": "1"})
    stub.on("POST", SUBPOOLS, working, DONE)
    osmo.ok(*CREATE)
    assert no_waiting == [1]


def test_a_conflict_is_not_repeated(osmo, stub, no_waiting):
    stub.on("POST", SUBPOOLS, StubReply({"message": "It exists.", "error_code": "USER"}, status=409))
    assert osmo(*CREATE).exit_code == 2
    assert no_waiting == []


def test_a_post_with_a_lost_answer_is_repeated_with_the_same_key(osmo, stub, no_waiting):
    stub.on("POST", SUBPOOLS, StubReply(drop=True), DONE)
    osmo.ok(*CREATE)
    first, second = stub.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


@pytest.mark.parametrize(("words", "method"), [(UPDATE, "PATCH"), (DELETE, "DELETE")])
def test_a_lost_answer_to_an_unrepeatable_request_is_reported(osmo, stub, no_waiting, words, method):
    stub.on(method, SUBPOOL, StubReply(drop=True))
    result = osmo(*words)
    assert result.exit_code == 10
    assert "may have been made" in result.stderr
    assert len(stub.requests) == 1


def test_no_server(osmo, no_waiting):
    result = osmo.bare(*LIST, env={"OSMO_URL": "http://127.0.0.1:9", "OSMO_USERNAME": "a"})
    assert result.exit_code == 10
    assert result.stderr == "Error: Cannot reach the server at http://127.0.0.1:9: Connection refused.\n"
    assert len(no_waiting) == 4


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://[::1", "http://"])
def test_an_invalid_address(osmo, no_waiting, url):
    result = osmo.bare(*LIST, env={"OSMO_URL": url, "OSMO_USERNAME": "a"})
    assert result.exit_code in (2, 10)
    assert result.stderr.startswith("Error: ")


def test_a_server_that_does_not_answer_in_time(osmo, stub, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(stub, "answer", lambda _: (gate.wait(5), StubReply([]))[1])
    result = osmo("--timeout", "0.2", *LIST)
    gate.set()
    assert result.exit_code == 10
    assert "did not answer within 0.2 seconds" in result.stderr


def test_a_read_follows_a_redirect_and_a_write_does_not(osmo, stub):
    moved = StubReply(None, status=307, headers={"Location": f"{stub.url}/elsewhere"})
    stub.on("GET", TOKENS, moved)
    stub.on("GET", "/elsewhere", [])
    assert osmo.ok(*LIST) == "No tokens found.\n"
    stub.on("POST", SUBPOOLS, moved)
    result = osmo(*CREATE)
    assert result.exit_code == 2
    assert f"moved to {stub.url}/elsewhere" in result.stderr


def test_interrupting_is_exit_code_3(osmo, stub, monkeypatch):
    def interrupt(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("osmo_admin.cli.base.http.HttpClient.get", interrupt)
    assert osmo(*LIST).exit_code == 3


@pytest.mark.parametrize("words", [("nope",), ("pool", "list", "--nope"), ("pool",), ("pool", "list", "-o", "xml"), ()])
def test_usage_errors_are_exit_code_2(osmo, words):
    assert osmo(*words).exit_code == 2


def test_queries_are_written_as_the_stock_client_writes_them():
    query = {"a": True, "b": False, "c": None, "d": [], "e": ["x", "y"], "f": 3}
    assert http.query_pairs(query) == [("a", "True"), ("b", "False"), ("e", "x"), ("e", "y"), ("f", "3")]


@pytest.mark.parametrize(
    ("name", "escaped"), [("a b", "a%20b"), ("a/b", "a%2Fb"), ("ä", "%C3%A4"), ("a?b#c", "a%3Fb%23c")]
)
def test_path_segments_are_escaped(name, escaped):
    assert http.url_path("api", name) == f"api/{escaped}"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3),
        ("0.5", 0.5),
        ("-1", 0),
        ("soon", None),
        (formatdate(1010, usegmt=True), 10),
        (formatdate(0, usegmt=True), 0),
    ],
)
def test_retry_after(value, seconds):
    assert http.parse_retry_after(value, now=1000) == seconds


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_path_segments_that_are_not_names(name):
    with pytest.raises(ClientError):
        http.url_path("api", name)
