"""A proxy that gives wrong answers on purpose: plain HTTP in front of a real API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from scheduling.kube.connection.tls_connections import close_failed_connections

ProxyRequest = tuple[str, str]  # method, path with its query


@dataclass
class ProxyRule:
    """A rule for matching requests: an answer in place of the server's, after `delay` seconds; for `times` requests
    (None: all). `drip` sends the body byte by byte, that many seconds apart; `drop` closes the connection without an
    answer. `on_answer` gets the server's answer (status, body) before the client gets it. `until`: the
    request is forwarded once this event is set."""

    matches: Callable[[ProxyRequest], bool]
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    drop: bool = False
    times: int | None = 1
    on_answer: Callable[[int, bytes], None] | None = None
    until: threading.Event | None = None


def status_body(code: int, reason: str = "", message: str = "said the proxy", **details: Any) -> bytes:
    """A Kubernetes Status as JSON."""
    found: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return json.dumps(found | ({"details": details} if details else {})).encode()


class FaultyProxy:
    """Forwards to `address`, whose certificate is in the file `authority`."""

    def __init__(self, address: str, authority: Path) -> None:
        self.rules: list[ProxyRule] = []
        self.requests: list[ProxyRequest] = []
        self._upstream = urllib3.PoolManager(maxsize=20, ca_certs=str(authority), retries=False)
        close_failed_connections(self._upstream)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else None
                rule = proxy._find_rule((self.command, self.path))
                if rule is None or rule.on_answer is not None:
                    self._forward(address, body, rule)
                    return
                if rule.until is not None:
                    rule.until.wait(120)
                proxy._closing.wait(rule.delay)
                if rule.drop:
                    self.close_connection = True
                    self.connection.close()
                elif rule.status:
                    self._answer(rule.status, rule.body, rule.headers, rule.drip)
                else:
                    self._forward(address, body, rule)

            def _forward(self, address: str, body: bytes | None, rule: ProxyRule | None) -> None:
                headers = {k: v for k, v in self.headers.items() if k not in {"Host", "Accept-Encoding"}}
                if "watch=true" in self.path:
                    self._stream(address, headers)
                    return
                answer = proxy._upstream.request(self.command, address + self.path, body=body, headers=headers)
                if rule is not None and rule.on_answer is not None:
                    rule.on_answer(answer.status, answer.data)
                kept = {k: v for k, v in answer.headers.items() if k in {"Content-Type", "Retry-After"}}
                self._answer(answer.status, answer.data, kept, 0)

            def _stream(self, address: str, headers: dict[str, str]) -> None:
                """Pass on the events of a watch as they come."""
                self.close_connection = True
                with suppress(OSError, urllib3.exceptions.HTTPError):
                    answer = proxy._upstream.request(
                        "GET", address + self.path, headers=headers, preload_content=False, timeout=300
                    )
                    with closing(answer):
                        self.send_response(answer.status)
                        self.send_header("Content-Type", "application/json")
                        self.send_header("Connection", "close")
                        self.end_headers()
                        while not proxy._closing.is_set() and (chunk := answer.read1()):
                            self.wfile.write(chunk)
                            self.wfile.flush()

            def _answer(self, code: int, body: bytes, headers: dict[str, str], drip: float) -> None:
                with suppress(OSError):  # the client may have disconnected
                    self.send_response(code)
                    for key, value in ({"Content-Type": "application/json"} | headers).items():
                        self.send_header(key, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    if not drip:
                        self.wfile.write(body)
                        return
                    for at in range(len(body)):
                        self.wfile.write(body[at : at + 1])
                        if proxy._closing.wait(drip):
                            return

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def address(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add_rule(self, matches: str | Callable[[ProxyRequest], bool], **how: Any) -> None:
        """Add a rule; a text matches requests whose path contains it."""
        test = matches if callable(matches) else lambda request: matches in request[1]
        self.rules.append(ProxyRule(test, **how))

    def hold(self, matches: Callable[[ProxyRequest], bool], until: threading.Event) -> None:
        """Forward matching requests only after this event."""
        self.rules.append(ProxyRule(matches, times=None, until=until))

    def clear_rules(self) -> None:
        """Forward everything from now on."""
        with self._lock:
            self.rules.clear()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _find_rule(self, request: ProxyRequest) -> ProxyRule | None:
        with self._lock:
            self.requests.append(request)
            for rule in self.rules:
                if rule.matches(request) and rule.times != 0:
                    if rule.times is not None:
                        rule.times -= 1
                    return rule
        return None
