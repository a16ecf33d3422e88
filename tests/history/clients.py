"""Clients that send the steps of a workload, one after another, and record every call and answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.history.record import Recorder
from tests.history.workload import Step

TIMEOUT_SECONDS = 12.0
ATTEMPTS = 10
PAUSE_SECONDS = 0.3
SESSION_SECONDS = 200
STALE = '"999999"'
HEADERS = ("ETag", "Idempotent-Replayed", "Retry-After", "Location")
_AGAIN = {401, 429, 502, 503}


@dataclass(slots=True)
class Progress:
    """Counts the operations that have begun, over all clients."""

    begun: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self) -> None:
        """One more operation begins."""
        with self._lock:
            self.begun += 1


class HistoryClient:
    """One client with a user of its own. It repeats a request with an Idempotency-Key until that is answered."""

    def __init__(
        self, number: int, token: str, base_urls: Sequence[str], recorder: Recorder, progress: Progress,
        may_begin: Callable[[int], bool],
    ) -> None:  # fmt: skip
        self.number = number
        self.user = f"client-{number}"
        self._token = token
        self._base_urls = base_urls
        self._at = number % len(base_urls)
        self._recorder = recorder
        self._progress = progress
        self._may_begin = may_begin
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS)
        self._bearer = ""
        self._bearer_until = 0.0
        self._versions: dict[str, str] = {}
        self._first_calls: dict[str, str] = {}
        self._calls: dict[int, int] = {}

    def run(self, steps: Sequence[Step]) -> None:
        """Carry out these steps in order."""
        for step in steps:
            while not self._may_begin(step.number):
                time.sleep(0.02)
            self._progress.count()
            self._carry_out(step)
        self._http.close()

    def _carry_out(self, step: Step) -> None:
        if_match = self._if_match(step)
        for _ in range(ATTEMPTS if step.key else 1):
            answer = self._send(step, if_match)
            if answer is None:
                self._at = (self._at + 1) % len(self._base_urls)
            elif not _is_to_be_repeated(answer):
                return
            time.sleep(PAUSE_SECONDS)

    def _if_match(self, step: Step) -> str | None:
        if step.if_match == "seen":
            return self._versions.get(step.path)
        return STALE if step.if_match == "stale" else None

    def _send(self, step: Step, if_match: str | None) -> httpx.Response | None:
        base_url = self._base_urls[self._at]
        if not self._log_in(base_url):
            return None
        self._calls[step.number] = self._calls.get(step.number, 0) + 1
        identifier = f"h{step.number}.{self._calls[step.number]}"
        first = self._first_calls.get(step.key) if step.key else None
        request: dict[str, Any] = {
            "method": step.method, "path": step.path, "body": step.body, "key": step.key or None,
            "if_match": if_match, "request_id": identifier,
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {self._bearer}", "X-Request-ID": identifier}
        if step.key:
            headers["Idempotency-Key"] = step.key
            self._first_calls.setdefault(step.key, identifier)
        if if_match:
            headers["If-Match"] = if_match
        self._recorder.write(
            "call", id=identifier, client=self.number, user=self.user, operation=step.name, request=request,
            repeats=first,
        )  # fmt: skip
        try:
            answer = self._http.request(
                step.method, base_url + step.path, headers=headers, json=step.body if step.body is not None else None
            )
        except httpx.TransportError as problem:
            self._recorder.write("lost", id=identifier, client=self.number, reason=type(problem).__name__)
            return None
        kept = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
        self._recorder.write(
            "answer", id=identifier, client=self.number, status=answer.status_code, body=_body(answer), headers=kept
        )
        if "ETag" in kept and answer.status_code == 200:
            self._versions[_versioned_address(step)] = kept["ETag"]
        if answer.status_code == 401:
            self._bearer = ""
        return answer

    def _log_in(self, base_url: str) -> bool:
        """Exchange the token for a session where needed; not part of the record, because it changes nothing."""
        if self._bearer and time.monotonic() < self._bearer_until:
            return True
        try:
            answer = self._http.post(f"{base_url}/api/auth/jwt/access_token", json={"token": self._token})
        except httpx.TransportError:
            return False
        if answer.status_code != 200:
            return False
        self._bearer, self._bearer_until = answer.json()["token"], time.monotonic() + SESSION_SECONDS
        return True


def _is_to_be_repeated(answer: httpx.Response) -> bool:
    return answer.status_code in _AGAIN or (answer.status_code == 409 and "Retry-After" in answer.headers)


def _versioned_address(step: Step) -> str:
    """The address whose version the answer carries: for a created subpool its own."""
    return f"{step.path}/{step.body['subpool_name']}" if step.name == "create_subpool" else step.path


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
