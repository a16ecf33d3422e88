"""A real HTTP server that receives notices: it verifies signatures, and answers as a test says."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> Any:
        """The payload. Raises WebhookVerificationError for a signature that is not of `secret`."""
        return Webhook(secret).verify(self.body, self.headers)


@dataclass
class Receiver:
    """`answers` are the statuses of the next requests, then 200; `location` goes with a redirect. A request to /hang is
    answered when `go_on` is set, one to /drip by single bytes until then."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answers: deque[int] = field(default_factory=deque)
    location: str = ""
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        return [each.message_id for each in self.received]


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode(errors="surrogateescape")
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body))
            try:
                self._answer()
            except OSError:
                self.close_connection = True  # the sender was ended, as a test wanted

        def _answer(self) -> None:
            if self.path.startswith("/hang"):
                receiver.go_on.wait(60)
            elif self.path.startswith("/drip"):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not receiver.go_on.wait(0.1):
                    self.wfile.write(b"x")
            status = receiver.answers.popleft() if receiver.answers else 200
            self.send_response(status)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Nothing: tests read what was received."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
