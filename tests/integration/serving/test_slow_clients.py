"""Slow, silent and oversized clients of the real server: none holds a thread, and others are answered meanwhile."""

from __future__ import annotations

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest

from osmo_admin.ops.programs.process_commands import WEB_THREADS
from tests.support.raw_http import (
    are_silent,
    connect,
    exchange,
    hold_connections,
    make_head,
    read_to_end,
    unfinished_post,
)
from tests.support.stack import Stack

pytestmark = pytest.mark.acceptance

TOKEN_EXCHANGE = "/api/auth/jwt/access_token"
END_OF_CHUNKS = b"\r\n0\r\n\r\n"
CROWDED = b"retry: 5000"
CLOSE = {"Connection": "close"}
JSON_POST = {"Content_Type": "application/json", **CLOSE}


def assert_answers(stack: Stack) -> None:
    """The liveness probe and a request of the API are answered with 200."""
    for path in ("/health", "/api/version"):
        assert httpx.get(f"{stack.base_url}{path}", timeout=20).status_code == 200


def test_unfinished_bodies_hold_no_thread(stack: Stack) -> None:
    for path in ("/webhooks/pod", "/login/", TOKEN_EXCHANGE):
        with hold_connections(stack.port, 100, unfinished_post(path)) as slow:
            assert_answers(stack)
            assert are_silent(slow), path


def test_unfinished_headers_and_idle_connections_hold_no_thread(stack: Stack) -> None:
    idle = make_head("GET", "/health")
    with (
        hold_connections(stack.port, 600, b"GET /health HTTP/1.1\r\nX-Slow: ") as slow,
        hold_connections(stack.port, 600, b"") as silent,
        hold_connections(stack.port, 20, idle),
    ):
        assert_answers(stack)
        assert are_silent(slow + silent)


def test_health_is_answered_while_every_thread_waits(stack: Stack) -> None:
    admin = stack.client_for("admin")
    with psycopg.connect(stack.database_url) as session, ThreadPoolExecutor(WEB_THREADS * 2) as clients:
        session.execute("LOCK TABLE pools_pool IN ACCESS EXCLUSIVE MODE")
        waiting = [clients.submit(admin.get, "/api/configs/pool") for _ in range(WEB_THREADS * 2)]
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pools_pool'::regclass"
        stack.wait_until(lambda: stack.query(query)[0]["count"] >= WEB_THREADS, what="all threads wait for the lock")
        health = httpx.get(f"{stack.base_url}/health", timeout=20)
        ready = httpx.get(f"{stack.base_url}/ready?only=database", timeout=20)
        session.rollback()
        assert (health.status_code, ready.status_code) == (200, 200), "a busy process has its database"
        assert [answer.result().status_code for answer in waiting] == [200] * len(waiting)


@pytest.mark.parametrize(
    ("path", "media_type", "chunked"),
    [("/webhooks/pod", "application/json", True), ("/login/", "text/html", False), ("/", "text/html", True)],
)
def test_a_body_that_does_not_arrive_is_a_408(strict_port: int, path: str, media_type: str, chunked: bool) -> None:
    head = make_head("POST", path, **({"Transfer_Encoding": "chunked"} if chunked else {"Content_Length": "100"}))
    answer = exchange(strict_port, head + (b'5\r\n{"tok\r\n' if chunked else b'{"tok'))
    assert answer.statuses == [408]
    assert f"content-type: {media_type}" in answer.text
    assert "did not arrive within 0.5 s" in answer.body
    if media_type == "application/json":
        (detail,) = json.loads(answer.body)["details"]
        assert detail["code"] == "body_too_slow"


def test_a_large_body_is_refused_before_it_is_sent(strict_port: int) -> None:
    head = make_head("POST", TOKEN_EXCHANGE, Content_Length=str(10**12), Expect="100-continue")
    answer = exchange(strict_port, head)
    assert answer.statuses == [413]
    assert json.loads(answer.body)["details"] == [
        {
            "path": "",
            "code": "body_too_large",
            "message": "The request's body is too large: 1,000,000,000,000 bytes. Send at most 1,048,576 bytes.",
            "requested": 10**12,
            "limit": 1048576,
        }
    ]


def test_a_page_says_how_to_go_on_after_a_body_that_is_too_large(strict_port: int) -> None:
    answer = exchange(strict_port, make_head("POST", "/import/preview", Content_Length=str(10**12)))
    assert answer.statuses == [413]
    assert "content-type: text/html" in answer.text
    assert "Go back in your browser: what you typed is still there. OSMO_BODY_LIMIT_MB" in answer.body


def test_a_body_in_chunks_is_refused_when_it_becomes_too_large(strict_port: int) -> None:
    part = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with connect(strict_port) as connection:
        connection.sendall(make_head("POST", TOKEN_EXCHANGE, Transfer_Encoding="chunked"))
        try:
            for _ in range(64):  # four times the limit
                connection.sendall(part)
        except OSError:  # the server has closed already
            pass
        assert connection.recv(64).startswith(b"HTTP/1.1 413 ")


def test_a_body_in_chunks_is_the_same_as_in_one_piece(strict_port: int) -> None:
    body = b'{"token": "unknown-token"}'
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:6], body[6:])) + b"0\r\n\r\n"
    whole = exchange(strict_port, make_head("POST", TOKEN_EXCHANGE, Content_Length=str(len(body)), **JSON_POST) + body)
    parts = exchange(strict_port, make_head("POST", TOKEN_EXCHANGE, Transfer_Encoding="chunked", **JSON_POST) + chunks)
    assert whole.statuses == parts.statuses == [401]
    assert whole.body == parts.body


def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one(strict_port: int) -> None:
    # Also JSON that would be complete; the connection is half closed, so that the answer can be read.
    with connect(strict_port) as connection:
        head = make_head("POST", TOKEN_EXCHANGE, Transfer_Encoding="chunked", **JSON_POST)
        connection.sendall(head + b'1a\r\n{"token": "unknown-token"}\r\n')
        connection.shutdown(socket.SHUT_WR)
        assert read_to_end(connection).statuses in ([], [400])


def test_requests_in_a_pipeline_are_answered_in_order(strict_port: int) -> None:
    body = b'{"token": "unknown-token"}'
    post = make_head("POST", TOKEN_EXCHANGE, Content_Type="application/json", Content_Length=str(len(body))) + body
    answer = exchange(
        strict_port, make_head("GET", "/health") + post + make_head("GET", "/api/version", Connection="close")
    )
    assert answer.statuses == [200, 401, 200]


def test_a_header_that_nobody_can_read_is_not_taken_for_a_missing_one(strict_port: int) -> None:
    """A change would be made twice, or over that of somebody else."""
    head = make_head("GET", "/api/version", **CLOSE)
    for name in ("If-Match", "Idempotency-Key", "Last-Event-ID", "Authorization"):
        answer = exchange(strict_port, head.replace(b"\r\n\r\n", f"\r\n{name}: müller-1\r\n\r\n".encode()))
        assert (answer.statuses, json.loads(answer.body)["details"][0]["code"]) == ([400], "bad_encoding"), name


def test_another_charset_than_utf_8_is_refused(strict_port: int) -> None:
    bad = ("Charset=zip", "Charset=undefined", "charset=punycode", "charset=utf-16", 'charset="hex"')
    more = ("charset*=nope''utf-8", "charset*=idna''x", "name*=nope''u")
    good = ("charset=utf-8", 'charset="UTF-8"', "charset=us-ascii")
    for path in ("/login/?next=/%C3%A9", "/api/version"):
        for parameter in (*bad, *more, *good):
            head = make_head("GET", path, Content_Type=f"application/json; {parameter}", **CLOSE)
            assert exchange(strict_port, head).statuses == [200 if parameter in good else 415], (path, parameter)


def test_an_answer_to_head_has_no_body(strict_port: int) -> None:
    answer = exchange(strict_port, make_head("HEAD", "/api/version", **CLOSE))
    assert (answer.statuses, answer.body) == ([200], "")
    assert "content-length: 0" not in answer.text


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.nightly)])
def test_event_streams_leave_the_threads_to_requests(stack: Stack, count: int) -> None:
    head = make_head("GET", "/api/events", Authorization=stack.client_for("admin").headers["Authorization"])
    with hold_connections(stack.port, count, head) as streams:
        openings = [_receive_until(connection, b"retry: ") for connection in streams]
        # Streams of tests before, whose clients have gone, may still have places.
        assert sum(b"retry: 1000" in opening for opening in openings) >= count * 4 // 5
        assert_answers(stack)
        name = stack.unique_name("streamed")
        stack.access_token(name)  # makes the user
        for connection, opening in zip(streams, openings, strict=True):
            _follow_until(connection, head, opening, f"user/{name}".encode())

    def has_a_place() -> bool:
        with connect(stack.port) as connection:
            connection.sendall(head)
            return b"retry: 1000" in _receive_until(connection, b"retry: ")

    stack.wait_until(has_a_place, what="a place of a stream whose client has gone is free again")


def _follow_until(connection: socket.socket, head: bytes, received: bytes, what: bytes) -> None:
    """Read a stream, and ask again after its last event when it has ended, as a browser does: a stream lasts half a
    minute, and one beyond the allowed number is over at once."""
    while what not in received:
        if received.endswith(END_OF_CHUNKS) or (CROWDED in received and received.endswith(b"\n\n")):
            last = re.findall(rb"id: (\S+)", received)[-1]
            connection.sendall(head.removesuffix(b"\r\n") + b"Last-Event-ID: " + last + b"\r\n\r\n")
            received = b""
        part = connection.recv(65536)
        assert part, received
        received += part


def _receive_until(connection: socket.socket, what: bytes) -> bytes:
    received = b""
    while what not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    return received
